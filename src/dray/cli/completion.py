"""`dray completion SHELL`: a script that makes the shell ask `dray __complete` what may come next."""

from __future__ import annotations

import argparse
import sys
from typing import Final

_BASH: Final = r"""# dray: completion for bash. Load it with:  source <(dray completion bash)
_dray() {
    local line=${COMP_LINE:0:COMP_POINT} words current prefix value text
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    # bash itself ends words at : and =, so it wants only what comes after them
    prefix=${current%"${current##*[:=]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r value text; do
        if [[ $value == :files ]]; then
            compopt -o default
            return
        fi
        [[ $value == *[/=] ]] && compopt -o nospace
        COMPREPLY+=("${value#"$prefix"}")
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _dray dray
"""
_ZSH: Final = r"""#compdef dray
# dray: completion for zsh. Load it with:  source <(dray completion zsh)
_dray() {
    local line value
    local -a open closed
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        if [[ $value == :files ]]; then
            _files
            return
        fi
        [[ -z $value ]] && continue
        [[ $line == *$'\t'* ]] && line="${value//:/\\:}:${line#*$'\t'}" || line=${value//:/\\:}
        if [[ $value == */ || $value == *= ]]; then open+=("$line"); else closed+=("$line"); fi
    done
    (( $#closed )) && _describe dray closed
    (( $#open )) && _describe dray open -S ''
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _dray dray
"""
_FISH: Final = r"""# dray: completion for fish. Load it with:  dray completion fish | source
function __dray_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] 2>/dev/null)
    if test "$found[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else if test (count $found) -gt 0
        printf '%s\n' $found
    end
end
complete -c dray -f -a '(__dray_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("shell", metavar="SHELL", choices=sorted(SCRIPTS), help="bash, fish or zsh")


def run(arguments: argparse.Namespace) -> int:
    """Print the script; its first comment says how it is loaded."""
    sys.stdout.write(SCRIPTS[arguments.shell])
    return 0
