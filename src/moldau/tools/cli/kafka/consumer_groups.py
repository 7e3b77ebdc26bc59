"""● `moldau kafka-consumer-groups`: list, describe and delete groups, delete and reset their offsets, as kafka-consumer-groups.sh does.

A run that prints `Error:` ends with exit code 0, as with Kafka's tool.  Differs from Kafka: rows are sorted, where Kafka prints them in the
order of its hash maps.
"""

import argparse
import sys
from collections.abc import Iterable
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.groups import CONSUMER, GroupAdmin, GroupDescription
from moldau.clients.admin.values import LATEST
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.kafka.group_tools import tables
from moldau.tools.cli.kafka.group_tools.common import (
    TOO_MANY_GROUPS,
    given_of,
    group_parser,
    print_block,
    print_error,
    run_group_tool,
    state_of,
    words,
    wrong_describe,
    wrong_filter,
    wrong_pair,
    wrong_reset_mode,
    wrong_together,
)
from moldau.tools.cli.kafka.group_tools.reset import SCENARIOS, add_reset_options, named_partitions, reset_offsets
from moldau.tools.cli.kafka.java_errors import java_error, message
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.types import TopicPartition

ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
SCOPED: Final = ("describe", "delete", "reset_offsets")
APART: Final = [("group", "all-groups"), ("group", "list"), ("topic", "list"), ("topic", "describe")]
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
"""The messages of RE2 in C++, each with the words of RE2/J, its Java sister."""
NO_ACTION: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or "
    "--execute to be specified. You should add the --dry-run option explicitly if you are scripting this command and want to keep the "
    "current default behavior without prompting."
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.validate_regex is not None and _wrong(options) is None:
        return _validate(options.validate_regex)
    actions = {"list": _list, "describe": _describe, "delete": _delete, "delete_offsets": _delete_offsets, "reset_offsets": _reset}
    return run_group_tool(
        parser,
        options,
        wrong=_wrong,
        admin=lambda cluster, within_s: GroupAdmin(cluster, within_s=within_s),
        actions=actions,
        complain=_complain,
    )


def _complain(action: str, error: KafkaError) -> int:
    text = message(error) if action == "reset_offsets" else java_error(error)
    print_error(f"Executing consumer group command failed due to {text}")
    return 0


def _parser() -> KafkaParser:
    parser = group_parser(
        "consumer",
        ACTIONS[:-1],
        examples=[
            "--describe --all-groups",
            "--describe --group orders --members --verbose",
            "--reset-offsets --group orders --all-topics --to-earliest --dry-run",
        ],
    )
    add = parser.add_argument
    add("--validate-regex", metavar="REGEX", help="say whether this is a valid regular expression of RE2")
    add("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="a topic, or some of its partitions; repeatable")
    add("--all-topics", action="store_true", help="all that the group has offsets of")
    add("--type", nargs="?", const="", metavar="TYPES", help="list: show types, or only groups of these types")
    add_reset_options(parser)
    return parser


def _wrong(options: argparse.Namespace) -> str | None:
    given = given_of(options, ACTIONS)
    if len(given) != 1:
        shown = "--list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex"
        return f"Command must include exactly one action: {shown}."
    action = given[0]
    option = f"[{action.replace('_', '-')}]"
    if action in SCOPED and not options.group and not options.all_groups:
        return f"Option {option} takes one of these options: [group], [all-groups]"
    apart = wrong_pair(options, APART)
    if apart is not None:
        return apart
    if action == "delete" and options.topic:
        return "The consumer does not support topic-specific offset deletion from a consumer group."
    if action == "delete_offsets" and not (options.group and options.topic):
        return f"Option {option} takes the following options: [group], [topic]"
    if action == "delete_offsets" and len(options.group) > 1:
        return TOO_MANY_GROUPS
    match action:
        case "describe":
            return wrong_describe(options)
        case "list":
            return wrong_filter("state", options.state, STATES) or wrong_filter("types", options.type, TYPES)
        case "reset_offsets":
            return wrong_reset_mode(options, is_needed=False) or _wrong_reset(options)
    return None


def _wrong_reset(options: argparse.Namespace) -> str | None:
    scenarios = given_of(options, SCENARIOS)
    if len(scenarios) > 1:
        return wrong_together(scenarios)
    if not options.all_topics and not options.topic and not options.from_file:
        return "One of the reset scopes should be defined: --all-topics, --topic."
    if not scenarios:
        return f"Option '[reset-offsets]' requires one of the following scenarios: {', '.join(f'[{name}]' for name in SCENARIOS)}"
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


# ------------------------------------------------------------ list and describe


async def consumer_groups(groups: GroupAdmin, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
    """Groups of consumers.  A group of another protocol holds no offsets of topics."""
    listed = await groups.list_groups(states=states, types=types)
    return [group for group in listed if group.protocol_type in ("", CONSUMER) and group.group_type.capitalize() in TYPES]


async def _list(groups: GroupAdmin, options: argparse.Namespace) -> None:
    states, types = words(options.state), words(options.type)
    found = sorted(await consumer_groups(groups, states=states, types=types), key=lambda group: group.group_id)
    with_type, with_state = options.type is not None, options.state is not None
    if with_type or with_state:
        print("\n".join(tables.listing_lines(found, with_type=with_type, with_state=with_state)))
    else:
        for group in found:
            print(group.group_id)


async def _group_ids(groups: GroupAdmin, options: argparse.Namespace) -> list[str]:
    if options.all_groups:
        return sorted(group.group_id for group in await consumer_groups(groups))
    return sorted(dict.fromkeys(options.group))


async def _describe(groups: GroupAdmin, options: argparse.Namespace) -> None:
    described = [await groups.describe(group_id) for group_id in await _group_ids(groups, options)]
    for group in described:
        if options.members:
            _note_state(group)
            print_block(tables.member_lines(group, verbose=options.verbose))
        elif options.state is not None:
            _note_state(group)
            print_block(tables.state_lines(group, verbose=options.verbose))
        else:
            rows = await partition_rows(groups, group)
            _note_state(group)
            if rows:
                print_block(tables.offset_lines(rows, verbose=options.verbose))


def _note_state(group: GroupDescription) -> None:
    if group.state == "Dead":
        print_error(f"Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)


async def partition_rows(groups: GroupAdmin, group: GroupDescription) -> list[tables.PartitionRow]:
    """The partitions of each member, the busiest member first; then partitions with offsets that no member reads."""
    committed = await groups.offsets(group.group_id)
    owners = sorted((member for member in group.members if member.assignment), key=lambda member: -len(member.assignment))
    owned = [(partition, member) for member in owners for partition in sorted(member.assignment)]
    taken = {partition for partition, _ in owned}
    unowned = [(partition, None) for partition in sorted(committed) if partition not in taken]
    ends = await Admin(groups.cluster).partitions.list_offsets(dict.fromkeys((*taken, *committed), LATEST))
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


async def _delete(groups: GroupAdmin, options: argparse.Namespace) -> None:
    deleted, failed = [], []
    for group_id in await _group_ids(groups, options):
        try:
            await groups.delete(group_id)
            deleted.append(f"'{group_id}'")
        except KafkaError as error:
            failed.append(f"* Group '{group_id}' could not be deleted due to: {java_error(error)}")
    if not failed:
        print(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    print("\n".join(failed))
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {', '.join(deleted)}")


WHOLE_ERRORS: Final = {
    ErrorCode.INVALID_GROUP_ID: "The group id is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Access to the group is not authorized.",
    ErrorCode.NON_EMPTY_GROUP: "Deleting offsets of a consumer group is forbidden if the group is not empty.",
}


async def _delete_offsets(groups: GroupAdmin, options: argparse.Namespace) -> None:
    group_id = options.group[0]
    partitions, unknown = await named_partitions(groups, options.topic)
    answers: dict[TopicPartition, KafkaError | None] = {}
    whole: ErrorCode = ErrorCode.NONE
    try:
        answers = await groups.delete_offsets(group_id, partitions)
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
    print_block(tables.deleted_lines(rows))


def _status(error: KafkaError | None) -> str:
    return "Successful" if error is None else f"Error: {java_error(error)}"


async def _reset(groups: GroupAdmin, options: argparse.Namespace) -> None:
    if not options.dry_run and not options.execute:
        print(NO_ACTION, file=sys.stderr)
    plan: list[tuple[str, TopicPartition, int]] = []
    group_ids = await _group_ids(groups, options)
    for group_id in group_ids:
        state = await state_of(groups, group_id)
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
        print(tables.plan_csv(plan, has_groups=len(options.group) != 1))
    else:
        print_block(tables.reset_lines(group_ids, plan))
