# Completion of trimtab for fish: trimtab completion fish | source
function __trimtab_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (trimtab __complete $words[2..-1] 2>/dev/null)
    for line in $answer
        switch $line
            case ':4'
            case ':0'
                __fish_complete_path (commandline -ct)
            case '*'
                echo $line
        end
    end
end
for program in trimtab kubectl-trimtab
    complete -c $program -f -a '(__trimtab_complete)'
end
