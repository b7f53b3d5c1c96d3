# Completion of trimtab for bash: source <(trimtab completion bash)
_trimtab() {
    local line=${COMP_LINE:0:COMP_POINT} answer last word
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    last=${words[${#words[@]}-1]}
    answer=$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null) || return
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        case $word in
            "" | :4) ;;
            :0) compopt -o default 2>/dev/null ;;
            # Where a word ends at an equals sign, only what follows it is replaced.
            *=*) [[ $COMP_WORDBREAKS == *=* && $last == *=* ]] && word=${word#*=}
                COMPREPLY+=("$word") ;;
            *) COMPREPLY+=("$word") ;;
        esac
    done <<< "$answer"
}
complete -F _trimtab trimtab kubectl-trimtab
