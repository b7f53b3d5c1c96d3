#compdef trimtab kubectl-trimtab
# Completion of trimtab for zsh: source <(trimtab completion zsh)
_trimtab() {
    local -a candidates
    local answer
    candidates=("${(@f)$(trimtab __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    answer=${candidates[-1]}
    candidates[-1]=()
    candidates=(${candidates%%$'\t'*})
    (( ${#candidates} )) && compadd -a candidates
    [[ $answer == :0 ]] && _files
}
# As a file in $fpath it is called; sourced it has to be known.
if [[ $funcstack[1] == _trimtab ]]; then
    _trimtab "$@"
else
    compdef _trimtab trimtab kubectl-trimtab
fi
