"""◇ Command lines, read by argparse; a mistake ends in a `Failure` that names what was nearly meant."""

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from moldau.tools.cli.failure import Failure

_UNRECOGNISED = re.compile(r"unrecognized arguments: (?P<rest>.*)", re.DOTALL)
_BAD_CHOICE = re.compile(r"argument (?P<what>\S+): invalid choice: '(?P<given>.*)' \(choose from (?P<choices>.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """`examples` are printed below the options, one line each, as they can be typed."""

    def __init__(self, prog: str, description: str = "", *, examples: Sequence[str] = (), **rest: Any) -> None:
        epilog = "examples:\n" + "".join(f"  {example}\n" for example in examples) if examples else None
        super().__init__(prog=prog, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **rest)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Options may stand between words, as in `produce orders --key 17 hello`: argparse alone ends `VALUE ...` at the first one."""
        if self._subparsers is not None:
            return super().parse_args(args, namespace)
        return self.parse_intermixed_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise Failure(self._in_words(message), f"`{self.prog} --help` lists the options")

    def _in_words(self, message: str) -> str:
        unrecognised = _UNRECOGNISED.match(message)
        if unrecognised:
            word = unrecognised["rest"].split()[0]
            if not word.startswith("-"):
                return f"there is nothing to do with {word!r} here"
            if word.split("=")[0] in self._option_string_actions:
                return f"{word} is too late here: it goes before the action"
            near = get_close_matches(word.split("=")[0], self._option_string_actions, n=1)
            return f"there is no option {word}" + (f"; did you mean {near[0]}?" if near else "")
        bad_choice = _BAD_CHOICE.match(message)
        if bad_choice:
            choices = [choice.strip("'\" ") for choice in bad_choice["choices"].split(",")]
            near = get_close_matches(bad_choice["given"], choices, n=1)
            return f"{bad_choice['given']!r} is not one of {', '.join(choices)}" + (f"; did you mean {near[0]}?" if near else "")
        return message


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap-server`, with the address that `moldau up` listens on as default."""
    parser.add_argument(
        "-b", "--bootstrap-server", metavar="HOST:PORT", default="localhost:9092", help="one or more brokers, comma separated (%(default)s)"
    )
    parser.add_argument("--command-config", metavar="FILE", help="a properties file with client settings")


def add_actions(parser: Parser) -> Callable[[str, str], Parser]:
    """The word that follows the command's name, `options.action`.  Call it with a name and what it is about, for a parser of its own."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, about: str) -> Parser:
        made = actions.add_parser(name, help=about, description=about)
        add_bootstrap(made)
        return made

    return action


def key_value(text: str) -> tuple[str, str]:
    """`key=value`, for `type=`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def positive(text: str) -> int:
    """A whole number from 1 up, for `type=`."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number from 1 up")
    return number
