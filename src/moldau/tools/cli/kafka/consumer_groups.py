"""● `moldau kafka-consumer-groups`: list, describe and delete groups, delete and reset their offsets, as kafka-consumer-groups.sh does.

As with Kafka's, what is printed with `Error:` ends with exit code 0 all the same.  Differs from Kafka: rows come sorted where Kafka's come
as its hash maps yield them.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from moldau.clients.admin import LATEST, Admin
from moldau.clients.cluster import Cluster
from moldau.clients.group_admin import CONSUMER, GroupAdmin, GroupDescription
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.kafka import group_tables as tables
from moldau.tools.cli.kafka.group_reset import SCENARIOS, ResetRefused, add_reset_options, parse_topic, reset_offsets
from moldau.tools.cli.kafka.java_errors import java_error, message
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.types import TopicPartition

ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
SCOPED: Final = ("describe", "delete", "reset_offsets")
STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
TYPES: Final = ("Consumer", "Classic")
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
RE2J_WORDS: Final = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
}
"""What RE2 says in C++, in the words of its Java sister."""
NO_ACTION: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or "
    "--execute to be specified. You should add the --dry-run option explicitly if you are scripting this command and want to keep the "
    "current default behavior without prompting."
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    if options.validate_regex is not None:
        return _validate(options.validate_regex)

    async def work(cluster: Cluster) -> int:
        groups = GroupAdmin(cluster, within_s=options.timeout / 1000)
        action = next(action for action in (_list, _describe, _delete, _delete_offsets, _reset) if getattr(options, _name(action)))
        try:
            return await action(groups, options)
        except ResetRefused as refused:
            raise parser.usage_error(str(refused)) from refused
        except KafkaError as error:
            text = message(error) if action is _reset else java_error(error)
            print_error(f"Executing consumer group command failed due to {text}")
            return 0

    return on_cluster(options, work)


def _name(action: object) -> str:
    name: str = getattr(action, "__name__").removeprefix("_")  # noqa: B009  mypy knows no __name__ of an object
    return "reset_offsets" if name == "reset" else name


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-consumer-groups",
        "List, describe and delete consumer groups, delete and reset their offsets, as kafka-consumer-groups.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 --describe --all-groups",
            "--bootstrap-server localhost:9092 --describe --group orders --members --verbose",
            "--bootstrap-server localhost:9092 --reset-offsets --group orders --all-topics --to-earliest --dry-run",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    for action in ACTIONS[:-1]:
        add(
            f"--{action.replace('_', '-')}",
            action="store_true",
            help=f"{action.replace('_', ' ')} groups".replace("offsets groups", "offsets"),
        )
    add("--validate-regex", metavar="REGEX", help="say whether this is a valid regular expression of RE2")
    add("--group", action="append", default=[], help="a group; repeatable")
    add("--all-groups", action="store_true", help="all groups")
    add("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="a topic, or some of its partitions; repeatable")
    add("--all-topics", action="store_true", help="all that the group has offsets of")
    add("--members", action="store_true", help="describe: members")
    add("--offsets", action="store_true", help="describe: partitions with offsets and lag (the default)")
    add("--state", nargs="?", const="", metavar="STATES", help="describe: state; list: with states, or only groups in these")
    add("--type", nargs="?", const="", metavar="TYPES", help="list: with types, or only groups of these")
    add("--verbose", action="store_true", help="describe: more columns")
    add("--timeout", type=int, default=30_000, metavar="MS", help="how long to wait for a coordinator (%(default)s)")
    add("--dry-run", action="store_true", help="reset: only show what would be (the default)")
    add("--execute", action="store_true", help="reset: do it")
    add_reset_options(parser)
    return parser


def _check(parser: KafkaParser, options: argparse.Namespace) -> None:
    """Kafka's rules, in its words."""
    wrong = _wrong(options)
    if options.bootstrap_server is None and options.validate_regex is None:
        raise parser.missing("bootstrap-server")
    if wrong is not None:
        raise parser.usage_error(wrong)
    if options.reset_offsets and not options.dry_run and not options.execute:
        print(NO_ACTION, file=sys.stderr)


def _wrong(options: argparse.Namespace) -> str | None:
    if sum(bool(getattr(options, action)) for action in ACTIONS) != 1:
        shown = "--list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex"
        return f"Command must include exactly one action: {shown}."
    action = next(action for action in ACTIONS if getattr(options, action))
    option = f"[{action.replace('_', '-')}]"
    if action in SCOPED and not options.group and not options.all_groups:
        return f"Option {option} takes one of these options: [group], [all-groups]"
    if options.group and options.all_groups:
        return 'Option "[group]" can\'t be used with option "[all-groups]"'
    if action == "delete" and options.topic:
        return "The consumer does not support topic-specific offset deletion from a consumer group."
    if action == "delete_offsets" and not (options.group and options.topic):
        return f"Option {option} takes the following options: [group], [topic]"
    if action == "describe" and sum((options.members, options.offsets, options.state is not None)) > 1:
        return f"Option {option} takes at most one of these options: [members], [offsets], [state]"
    if action == "describe" and options.state:
        return f"Option {option} does not take a value for [state]"
    if action == "list":
        return _wrong_filter("state", options.state, STATES) or _wrong_filter("types", options.type, TYPES)
    if action == "reset_offsets":
        return _wrong_reset(options, option)
    return None


def _wrong_filter(what: str, text: str | None, known: Sequence[str]) -> str | None:
    lowered = {name.lower() for name in known}
    if all(word.strip().lower() in lowered for word in (text or "").split(",") if word.strip()):
        return None
    return f"Invalid {what} list '{text}'. Valid {'states' if what == 'state' else what} are: {', '.join(known)}"


def _wrong_reset(options: argparse.Namespace, option: str) -> str | None:
    if options.dry_run and options.execute:
        return f"Option {option} only accepts one of [execute] and [dry-run]"
    scenarios = [name for name in SCENARIOS if getattr(options, name.replace("-", "_")) not in (None, False)]
    if len(scenarios) > 1:
        return f'Option "[{scenarios[0]}]" can\'t be used with option "[{scenarios[1]}]"'
    if not options.all_topics and not options.topic and not options.from_file:
        return "One of the reset scopes should be defined: --all-topics, --topic."
    if not scenarios:
        return f"Option '{option}' requires one of the following scenarios: {', '.join(f'[{name}]' for name in SCENARIOS)}"
    return None


def _validate(regex: str) -> int:
    from moldau.coordinator.group.regex import RegexError, compile_regex

    try:
        compile_regex(regex)
    except RegexError as error:
        reason = str(error).partition(": ")[0]
        print(f"The regular expression `{regex}` is invalid: {RE2J_WORDS.get(reason, reason)}.")
        return 0
    print(f"The regular expression `{regex}` is valid.")
    return 0


def print_error(text: str) -> None:
    print(f"\nError: {text}")


# ------------------------------------------------------------ list and describe


async def consumer_groups(groups: GroupAdmin, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
    """Those that hold offsets of topics: a protocol other than the consumers' is somebody else's."""
    listed = await groups.list_groups(states=states, types=types)
    return [group for group in listed if group.protocol_type in ("", CONSUMER) and group.group_type.capitalize() in TYPES]


async def _list(groups: GroupAdmin, options: argparse.Namespace) -> int:
    states, types = _words(options.state), _words(options.type)
    found = await consumer_groups(groups, states=states, types=types)
    with_type, with_state = options.type is not None, options.state is not None
    if with_type or with_state:
        print("\n".join(tables.listing_lines(found, with_type=with_type, with_state=with_state)))
    else:
        for group in found:
            print(group.group_id)
    return 0


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


async def _group_ids(groups: GroupAdmin, options: argparse.Namespace) -> list[str]:
    if options.all_groups:
        return sorted(group.group_id for group in await consumer_groups(groups))
    return sorted(dict.fromkeys(options.group))


async def _describe(groups: GroupAdmin, options: argparse.Namespace) -> int:
    described = [await groups.describe(group_id) for group_id in await _group_ids(groups, options)]
    for group in described:
        if options.members:
            _note_state(group)
            _print_block(tables.member_lines(group, verbose=options.verbose))
        elif options.state is not None:
            _note_state(group)
            _print_block(tables.state_lines(group, verbose=options.verbose))
        else:
            rows = await partition_rows(groups, group)
            _note_state(group)
            if rows:
                _print_block(tables.offset_lines(rows, verbose=options.verbose))
    return 0


def _print_block(lines: Sequence[str]) -> None:
    print("\n" + "\n".join(lines))


def _note_state(group: GroupDescription) -> None:
    if group.state == "Dead":
        print_error(f"Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)


async def partition_rows(groups: GroupAdmin, group: GroupDescription) -> list[tables.PartitionRow]:
    """Partitions by the members that read them, the busiest first, then those with offsets that nobody reads."""
    committed = await groups.offsets(group.group_id)
    owners = sorted((member for member in group.members if member.assignment), key=lambda member: -len(member.assignment))
    owned = [(partition, member) for member in owners for partition in sorted(member.assignment)]
    taken = {partition for partition, _ in owned}
    unowned = [(partition, None) for partition in sorted(committed) if partition not in taken]
    ends = await Admin(groups.cluster).list_offsets(dict.fromkeys((*taken, *committed), LATEST))
    rows = []
    for partition, member in [*owned, *unowned]:
        offset, end = committed.get(partition), ends.get(partition)
        rows.append(
            tables.PartitionRow(
                group.group_id,
                partition,
                offset.leader_epoch if offset is not None and offset.leader_epoch >= 0 else None,
                offset.offset if offset is not None else None,
                None if end is None or isinstance(end, KafkaError) else end.offset,
                member,
            )
        )
    return rows


# ------------------------------------------------------------ delete and reset


async def _delete(groups: GroupAdmin, options: argparse.Namespace) -> int:
    deleted, failed = [], []
    for group_id in await _group_ids(groups, options):
        try:
            await groups.delete(group_id)
            deleted.append(f"'{group_id}'")
        except KafkaError as error:
            failed.append(f"* Group '{group_id}' could not be deleted due to: {java_error(error)}")
    if not failed:
        print(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.")
        return 0
    print_error("Deletion of some consumer groups failed:")
    print("\n".join(failed))
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {', '.join(deleted)}")
    return 0


WHOLE_ERRORS: Final = {
    ErrorCode.INVALID_GROUP_ID: "The group id is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Access to the group is not authorized.",
    ErrorCode.NON_EMPTY_GROUP: "Deleting offsets of a consumer group is forbidden if the group is not empty.",
}


async def _delete_offsets(groups: GroupAdmin, options: argparse.Namespace) -> int:
    group_id = options.group[0]
    partitions, unknown = await named_partitions(groups, options.topic)
    answers: dict[TopicPartition, KafkaError | None] = {}
    whole: ErrorCode = ErrorCode.NONE
    try:
        answers = await groups.delete_offsets(group_id, partitions) if partitions else {}
        whole = next((error.code for error in answers.values() if error is not None), ErrorCode.NONE)
    except KafkaError as error:
        whole = error.code
        answers = dict.fromkeys(partitions, error)
    if whole is ErrorCode.NONE:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif any(error is None for error in answers.values()) or whole not in WHOLE_ERRORS:
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(WHOLE_ERRORS[whole])
    rows = [(one.topic, str(one.partition), _status(answers[one])) for one in sorted(answers)]
    rows += [(topic, tables.MISSING, _status(error)) for topic, error in unknown.items()]
    _print_block(tables.deleted_lines(rows))
    return 0


def _status(error: KafkaError | None) -> str:
    return "Successful" if error is None else f"Error: {java_error(error)}"


async def named_partitions(groups: GroupAdmin, topics: Sequence[str]) -> tuple[list[TopicPartition], dict[str, KafkaError]]:
    """`topic` or `topic:0,1` → partitions, and the topics that are not there."""
    partitions: list[TopicPartition] = []
    unknown = {}
    for text in topics:
        topic, indexes = parse_topic(text)
        if indexes is None:
            view = await groups.cluster.refresh([topic])
            code = view.error_of(topic) or ErrorCode.NONE
            if code is not ErrorCode.NONE:
                unknown[topic] = KafkaError(code)
            indexes = view.partitions_of(topic)
        partitions += [TopicPartition(topic, index) for index in indexes]
    return list(dict.fromkeys(partitions)), unknown


async def _reset(groups: GroupAdmin, options: argparse.Namespace) -> int:
    plan: list[tuple[str, TopicPartition, int]] = []
    group_ids = await _group_ids(groups, options)
    for group_id in group_ids:
        state = await _state_of(groups, group_id)
        if state not in ("Empty", "Dead"):
            print_error(f"Assignments can only be reset if the group '{group_id}' is inactive, but the current state is {state}.")
            continue
        offsets = await reset_offsets(groups, group_id, options)
        if options.execute:
            for error in (await groups.alter_offsets(group_id, offsets)).values():
                if error is not None:
                    raise error
        plan += [(group_id, one, offsets[one]) for one in sorted(offsets)]
    if options.export:
        named = len(options.group) != 1
        rows = [[*([csv_text(name)] if named else []), csv_text(one.topic), str(one.partition), str(offset)] for name, one, offset in plan]
        print("".join(",".join(row) + "\n" for row in rows))
    else:
        _print_block(tables.reset_lines(group_ids, plan))
    return 0


LONGEST_UNQUOTED: Final = 24


def csv_text(text: str) -> str:
    """Quoted as Kafka's CSV writer does: not only what must be, but whatever is long, too.  Source: Jackson's CsvEncoder."""
    is_plain = len(text) <= LONGEST_UNQUOTED and not any(letter in '",' or letter < " " for letter in text)
    return text if is_plain else '"' + text.replace('"', '""') + '"'


async def _state_of(groups: GroupAdmin, group_id: str) -> str:
    try:
        return (await groups.describe(group_id)).state
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise
