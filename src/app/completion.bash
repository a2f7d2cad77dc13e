# Completion of anyserve for bash; printed by `anyserve completion bash`.
_anyserve_of() { # sets commands; or, of a command, options, values (option=kind) and args
    commands='' options='' values='' args=''
    case $1 in
    # the commands of the table
    esac
}
_anyserve_reply() { # WORD KIND…: what of this kind begins with the word
    local word=$1 kind=$2
    shift 2
    case $kind in
    file) COMPREPLY=($(compgen -f -- "$word")); compopt -o filenames 2>/dev/null ;;
    dir) COMPREPLY=($(compgen -d -- "$word")); compopt -o filenames 2>/dev/null ;;
    words) COMPREPLY=($(compgen -W "$*" -- "$word")) ;;
    ask) COMPREPLY=($(compgen -W "$("$program" complete "$1" "${where[@]}" 2>/dev/null)" -- "$word")) ;;
    esac
}
_anyserve() {
    local commands options values args word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]}
    local i=1 n=0 key entry where=()
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _anyserve_of ''
        _anyserve_reply "$word" words $commands
        return
    fi
    _anyserve_of "${COMP_WORDS[1]}"
    for ((i = 2; i < COMP_CWORD; i++)); do
        key=${COMP_WORDS[i]}
        [[ $key == = ]] && { ((i++)); continue; } # bash makes words of --key=value
        if [[ $key != -* ]]; then
            ((n++))
        elif [[ " $values" == *" $key="* ]]; then
            ((i++))
            [[ ${COMP_WORDS[i]} == = ]] && ((i++))
            if ((i >= COMP_CWORD)); then # its value is what is asked for
                [[ $word == = ]] && word=''
                while IFS= read -r entry; do
                    [[ $entry == "$key="* ]] && _anyserve_reply "$word" ${entry#*=}
                done < <(tr ',' '\n' <<<"${values// --/,--}")
                return
            fi
            case $key in --port | --runtime-dir | --control | --control-token-file)
                where+=("$key" "${COMP_WORDS[i]}") ;;
            esac
        fi
    done
    if [[ $word == -* ]]; then
        _anyserve_reply "$word" words $options
        return
    fi
    for ((i = 0; i < n; i++)); do
        if [[ $args == *'|'* ]]; then args=${args#*|}; else args=''; fi
    done
    _anyserve_reply "$word" ${args%%|*}
}
complete -F _anyserve anyserve
