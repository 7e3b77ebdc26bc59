"""● `moldau completion bash|zsh|fish`: a script for the shell, which asks `moldau completion words …` what may come next.

Actions and options come from the command's own parser.  The parser is made and looked into, but it reads nothing.
"""

import argparse
import contextlib
import io
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from moldau.tools.cli.parser import Parser

SCRIPTS: Final = {
    "bash": """\
_moldau() {
    local IFS=$'\\n'
    COMPREPLY=($(moldau completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o nosort -o default -F _moldau moldau
""",
    "zsh": """\
#compdef moldau
_moldau() {
    local -a found
    found=("${(@f)$(moldau completion words -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _moldau moldau
""",
    "fish": """\
function __moldau_words
    set -l found (moldau completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c moldau -f -a '(__moldau_words)'
""",
}
WORDS: Final = "words"


def main(arguments: list[str]) -> int:
    if arguments[:1] == [WORDS]:
        for word in completed(arguments[2:] if arguments[1:2] == ["--"] else arguments[1:]):
            print(word)
        return 0
    parser = Parser(
        "moldau completion",
        "Print a script that completes commands, actions and options in a shell.",
        examples=["moldau completion bash", "moldau completion zsh", "moldau completion fish"],
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="the shell")
    options = parser.parse_args(arguments)
    print(SCRIPTS[options.shell], end="")
    return 0


def completed(words: Sequence[str]) -> list[str]:
    """The ways to complete the last of `words`, which may be empty."""
    from moldau.tools.cli.main import ALL

    *before, begun = words or [""]
    if not before:
        return _that_begin(begun, ALL)
    command = ALL.get(before[0])
    parser = None if command is None else _parser_of(command.module)
    if parser is None:
        return []
    parser, rest = _action_of(parser, before[1:])
    option = parser._option_string_actions.get(rest[-1]) if rest else None
    if option is not None and option.nargs != 0:
        return _that_begin(begun, map(str, option.choices or ()))
    words_of_actions = [name for one in parser._actions if isinstance(one, argparse._SubParsersAction) for name in one.choices]
    positional = [str(choice) for one in parser._get_positional_actions() for choice in one.choices or () if not words_of_actions]
    options = [name for name in parser._option_string_actions if name.startswith("--")]
    return _that_begin(begun, [*words_of_actions, *positional, *(options if begun.startswith("-") or not words_of_actions else [])])


def _that_begin(begun: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(begun)]


class _Described(Exception):
    """Carries a parser out of its command before it reads a command line."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _parser_of(module: str) -> argparse.ArgumentParser | None:
    """The command's parser; None for a command that reads its words by itself.

    The command is asked for its help, so that even a command without a parser does nothing.
    """

    def show(parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise _Described(parser)

    read = argparse.ArgumentParser.parse_known_args
    argparse.ArgumentParser.parse_known_args = show  # type: ignore[method-assign, assignment]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            import_module(module).main(["--help"])
    except _Described as described:
        return described.parser
    finally:
        argparse.ArgumentParser.parse_known_args = read  # type: ignore[method-assign]
    return None


def _action_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[argparse.ArgumentParser, Sequence[str]]:
    """The parser of the action that is among `words`, and the words behind it."""
    for one in parser._actions:
        if isinstance(one, argparse._SubParsersAction):
            for at, word in enumerate(words):
                if word in one.choices:
                    return one.choices[word], words[at + 1 :]
    return parser, words
