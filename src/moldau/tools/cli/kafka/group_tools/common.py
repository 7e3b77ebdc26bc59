"""● The common parts of kafka-consumer-groups, kafka-share-groups and kafka-streams-groups: their options, the rules between options,
and the choice, run and errors of an action.
"""

import argparse
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.kafka.group_tools.reset import ResetRefused
from moldau.tools.cli.kafka.options import KafkaParser

G = TypeVar("G")
Action = Callable[[G, argparse.Namespace], Awaitable[None]]
Wrong = Callable[[argparse.Namespace], str | None]
"""Returns the rule of Kafka's that the options break, in its words; None if they break none."""


def group_parser(kind: str, actions: Sequence[str], *, examples: Sequence[str]) -> KafkaParser:
    """The options that the tools share.  `kind`: consumer, share or streams."""
    parser = KafkaParser(
        f"kafka-{kind}-groups",
        f"List, describe and delete {kind} groups, delete and reset their offsets, as kafka-{kind}-groups.sh does.",
        examples=[f"--bootstrap-server localhost:9092 {example}" for example in examples],
    )
    parser.add_common()
    add = parser.add_argument
    for action in actions:
        what = f"{action.replace('_', ' ')} groups".replace("offsets groups", "offsets of a group")
        add(f"--{action.replace('_', '-')}", action="store_true", help=what)
    add("--group", action="append", default=[], help=f"a {kind} group; repeatable")
    add("--all-groups", action="store_true", help=f"all {kind} groups")
    add("--members", action="store_true", help="describe: members")
    add("--offsets", action="store_true", help="describe: partitions with offsets and lag (the default)")
    add("--state", nargs="?", const="", metavar="STATES", help="describe: state; list: show states, or only groups in these states")
    add("--verbose", action="store_true", help="describe: more columns")
    add("--timeout", type=int, default=30_000, metavar="MS", help="how long to wait for a coordinator (%(default)s)")
    add("--dry-run", action="store_true", help="reset: only show the offsets")
    add("--execute", action="store_true", help="reset: do it")
    return parser


def run_group_tool(
    parser: KafkaParser,
    options: argparse.Namespace,
    *,
    wrong: Wrong,
    admin: Callable[[Cluster, float], G],
    actions: Mapping[str, Action[G]],
    complain: Callable[[str, KafkaError], int],
) -> int:
    """Run the one action that `options` name, and return the exit code.

    `admin` also takes the seconds to wait for a coordinator.  `complain` takes the action's name and its error, prints the error and
    returns the exit code.
    """
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")
    refusal = _wrong_place(options) or wrong(options)
    if refusal is not None:
        raise parser.usage_error(refusal)
    name = next(name for name in actions if getattr(options, name))

    async def work(cluster: Cluster) -> int:
        try:
            await actions[name](admin(cluster, options.timeout / 1000), options)
        except ResetRefused as refused:
            raise parser.usage_error(str(refused)) from refused
        except KafkaError as error:
            return complain(name, error)
        return 0

    return on_cluster(options, work)


class _Described(Protocol):
    @property
    def state(self) -> str: ...


class _Describes(Protocol):
    async def describe(self, group_id: str, /) -> _Described: ...


async def state_of(groups: _Describes, group_id: str) -> str:
    """The group's state; `Dead` when there is no such group.  Errors: KafkaError."""
    try:
        return (await groups.describe(group_id)).state
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


# ------------------------------------------------------------ rules that the tools share


TOO_MANY_GROUPS: Final = "Found multiple arguments for option group, but you asked for only one"


def _wrong_place(options: argparse.Namespace) -> str | None:
    given = [] if options.describe else given_of(options, ("members", "offsets", "verbose"))
    if not options.list and not options.describe:
        given += given_of(options, ("state",))
    if not options.list and getattr(options, "type", None) is not None:
        given.append("type")
    return f"Option(s) [{', '.join(given)}] are unavailable given other options on the command line" if given else None


def wrong_describe(options: argparse.Namespace) -> str | None:
    if sum((options.members, options.offsets, options.state is not None)) > 1:
        return "Option [describe] takes at most one of these options: [members], [offsets], [state]"
    return "Option [describe] does not take a value for [state]" if options.state else None


def wrong_reset_mode(options: argparse.Namespace, *, is_needed: bool) -> str | None:
    if options.dry_run and options.execute:
        return "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
    if is_needed and not options.dry_run and not options.execute:
        return "Option [reset-offsets] takes the option: [execute] or [dry-run]"
    return None


def wrong_filter(what: str, text: str | None, known: Sequence[str]) -> str | None:
    lowered = {name.lower() for name in known}
    if all(word.lower() in lowered for word in words(text)):
        return None
    return f"Invalid {what} list '{text}'. Valid {'states' if what == 'state' else what} are: {', '.join(known)}"


def wrong_together(given: Sequence[str]) -> str | None:
    return f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"' if len(given) > 1 else None


def wrong_pair(options: argparse.Namespace, pairs: Iterable[tuple[str, str]]) -> str | None:
    """The first of the pairs that is given: they do not go together."""
    return next(filter(None, (wrong_together(given_of(options, pair)) for pair in pairs)), None)


def given_of(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """The options that are on the command line."""
    values = {name: getattr(options, name.replace("-", "_")) for name in names}
    return [name for name, value in values.items() if value is not None and value is not False and value != []]


def words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


# ------------------------------------------------------------ output


def print_error(text: str) -> None:
    print(f"\nError: {text}")


def print_block(lines: Sequence[str]) -> None:
    print("\n" + "\n".join(lines))
