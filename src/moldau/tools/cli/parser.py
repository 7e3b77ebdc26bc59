"""● Command lines, read by argparse; a mistake ends in a `Failure` that names the nearest valid word.  Defaults come from the profile."""

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.shell.profiles import current_profile

_UNRECOGNISED = re.compile(r"unrecognized arguments: (?P<rest>.*)", re.DOTALL)
_BAD_CHOICE = re.compile(r"argument (?P<what>\S+): invalid choice: '(?P<given>.*)' \(choose from (?P<choices>.*)\)", re.DOTALL)


KAFKAS: Final = {
    "--broker-list": ("--bootstrap-server",),
    "--compression-codec": ("--compression",),
    "--consumer.config": ("--command-config",),
    "--create-time": ("--at",),
    "--group-id": ("--group",),
    "--max-messages": ("--max", "--records"),
    "--messages": ("--max", "--records"),
    "--num-messages": ("--max", "--records"),
    "--num-records": ("--max", "--records"),
    "--producer.config": ("--command-config",),
    "--record-size": ("--size",),
    "--replication-factor": ("--replicas",),
    "--request-required-acks": ("--acks",),
    "--throughput": ("--rate",),
    "--time": ("--at",),
    "--timeout-ms": ("--timeout",),
}
"""Options of Kafka's tools, each with its names in our commands."""
WORDS: Final = {"--topic": "topic", "--group": "group", "--transactional-id": "id"}
"""Options of Kafka's tools that are words without an option in our commands."""


class Parser(argparse.ArgumentParser):
    """`examples` are printed below the options, one line each, as they can be typed."""

    is_action = False
    """Whether this is the parser of an action: it reads the words after the action's name."""

    def __init__(self, prog: str, description: str = "", *, examples: Sequence[str] = (), **rest: Any) -> None:
        epilog = "examples:\n" + "".join(f"  {example}\n" for example in examples) if examples else None
        super().__init__(prog=prog, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **rest)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Options may stand between words, as in `produce orders --key 17 hello`: argparse alone ends `VALUE ...` at the first option."""
        if self._subparsers is not None:
            return super().parse_args(args, namespace)
        return self.parse_intermixed_args(args, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses an option that the action does not know: an action's parser has all its options."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and self.is_action:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

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
            return self._no_option(word, word.split("=")[0])
        bad_choice = _BAD_CHOICE.match(message)
        if bad_choice:
            choices = [choice.strip("'\" ") for choice in bad_choice["choices"].split(",")]
            near = get_close_matches(bad_choice["given"], choices, n=1)
            return f"{bad_choice['given']!r} is not one of {', '.join(choices)}" + (f"; did you mean {near[0]}?" if near else "")
        return message

    def _no_option(self, word: str, name: str) -> str:
        for ours in KAFKAS.get(name, ()):
            if ours in self._option_string_actions:
                return f"there is no option {word}; what Kafka's tools call {name} is {ours} here"
        positional = [action.dest for action in self._get_positional_actions()]
        if any(dest.startswith(WORDS.get(name, "-")) for dest in positional):
            return f"there is no option {word}; the {WORDS[name]} is a word of its own here, without {name}"
        near = get_close_matches(name, self._option_string_actions, n=1)
        return f"there is no option {word}" + (f"; did you mean {near[0]}?" if near else "")


class _FromProfile(str):
    """The path of settings that belong to the profile's address and to no other address."""


class _Address(argparse.Action):
    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        namespace.bootstrap_server = values
        if isinstance(namespace.command_config, _FromProfile):
            namespace.command_config = None


def add_bootstrap(parser: argparse.ArgumentParser, *, watch: bool = False) -> None:
    """Add `--bootstrap-server`; the default is the profile's address, else the one that `moldau up` listens on.

    `watch`: the command only reads, so `--watch` may repeat it.
    """
    profile = current_profile()
    address, config = ("localhost:9092", None) if profile is None else profile
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=address,
        action=_Address,
        help="one or more brokers, comma separated (%(default)s)",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        default=None if config is None else _FromProfile(config),
        help="a properties file with client settings",
    )
    if watch:
        parser.add_argument("--watch", nargs="?", type=positive, const=2, metavar="SECONDS", help="show it anew at this interval (2)")


WATCHED: Final = frozenset({"list", "describe", "members", "lag", "producers", "hanging"})
"""Actions that only read."""


def add_actions(parser: Parser) -> Callable[[str, str], Parser]:
    """Add the word `options.action`, which follows the command's name.

    Each call of the result, with an action's name and description, makes the action's own parser.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, about: str) -> Parser:
        made = actions.add_parser(name, help=about, description=about)
        made.is_action = True
        add_bootstrap(made, watch=name in WATCHED)
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
