"""● `moldau kafka-streams-groups`: list, describe, delete and reset streams groups, as kafka-streams-groups.sh does.

Differs from Kafka: rows are sorted, where Kafka prints them in the order of its hash maps, and no stack trace follows an error.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.streams_groups import StreamsGroupAdmin, StreamsGroupDescription
from moldau.clients.admin.values import EARLIEST, LATEST
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.kafka.group_tools import streams_tables as tables
from moldau.tools.cli.kafka.group_tools.common import (
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
from moldau.tools.cli.kafka.group_tools.reset import (
    SCENARIOS,
    UNFIT_TOPIC,
    Offsets,
    add_reset_options,
    existing_partitions,
    named_partitions,
    reset_offsets,
)
from moldau.tools.cli.kafka.group_tools.tables import MISSING, deleted_lines, plan_csv
from moldau.tools.cli.kafka.java_errors import java_error, message
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.types import TopicPartition

ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
STATES: Final = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
APART: Final = [("group", "all-groups"), ("group", "list"), *(("input-topic", action) for action in ("list", "describe", "delete"))]
WHOLE_ERRORS: Final = frozenset(
    {ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NON_EMPTY_GROUP}
)
PARTITION_ERRORS: Final = frozenset(
    {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
INTERNAL_NAME: Final = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic"
    r"|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    actions = {"list": _list, "describe": _describe, "delete": _delete, "reset_offsets": _reset, "delete_offsets": _delete_offsets}
    return run_group_tool(
        parser,
        parser.parse_args(arguments),
        wrong=_wrong,
        admin=lambda cluster, within_s: StreamsGroupAdmin(cluster, within_s=within_s),
        actions=actions,
        complain=_complain,
    )


def _complain(action: str, error: KafkaError) -> int:
    text = java_error(error)
    if action in ("reset_offsets", "delete_offsets"):  # Kafka's tool wraps errors of its requests, and looks for topics by itself
        text = message(error) if error.code in UNFIT_TOPIC else f"java.util.concurrent.ExecutionException: {text}"
    print_error(f"Executing streams group command failed due to {text}")
    return 1


def _parser() -> KafkaParser:
    parser = group_parser(
        "streams",
        ACTIONS,
        examples=[
            "--list --state",
            "--describe --group word-count --members --verbose",
            "--reset-offsets --group word-count --all-input-topics --to-earliest --dry-run",
        ],
    )
    add = parser.add_argument
    add("--input-topic", action="append", default=[], metavar="TOPIC[:0,1]", help="a topic, or some of its partitions; repeatable")
    add("--all-input-topics", action="store_true", help="all topics that the program reads and that are not its own")
    add("--delete-internal-topic", action="append", default=[], metavar="TOPIC", help="reset with --execute: delete this topic too")
    add("--delete-all-internal-topics", action="store_true", help="reset with --execute, delete: delete all internal topics too")
    add_reset_options(parser)
    return parser


# ------------------------------------------------------------ Kafka's rules, in its words


def _wrong(options: argparse.Namespace) -> str | None:
    for check in (_wrong_describe, _wrong_delete, _wrong_reset, _wrong_internal_topics, _wrong_together):
        wrong = check(options)
        if wrong is not None:
            return wrong
    if len(given_of(options, ACTIONS)) != 1:
        return "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, or --delete-offsets."
    return wrong_filter("state", options.state, STATES)


def _wrong_describe(options: argparse.Namespace) -> str | None:
    if not options.describe:
        return None
    if not options.group and not options.all_groups:
        return "Option [describe] takes one of these options: [all-groups], [group]"
    return wrong_describe(options)


def _wrong_delete(options: argparse.Namespace) -> str | None:
    has_topics = bool(options.input_topic or options.all_input_topics)
    if options.delete and not options.group and not options.all_groups:
        return "Option [delete] takes one of these options: [all-groups], [group]"
    if options.delete and has_topics:
        return "Kafka Streams does not support topic-specific offset deletion from a streams group."
    if options.delete_offsets and not (has_topics and options.group):
        return "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
    if options.delete_offsets and len(options.group) > 1:
        return f"Option [delete-offsets] supports only one [group] at a time, but found: [{', '.join(options.group)}]"
    return None


def _wrong_reset(options: argparse.Namespace) -> str | None:
    if not options.reset_offsets:
        return None
    wrong = wrong_reset_mode(options, is_needed=True)
    if wrong is not None:
        return wrong
    if not options.group and not options.all_groups:
        return "Option [reset-offsets] takes one of these options: [all-groups], [group]"
    scenarios = given_of(options, SCENARIOS)
    if len(scenarios) > 1:
        return wrong_together(scenarios)
    if not (options.all_input_topics or options.input_topic or options.from_file):
        return "One of the reset scopes should be defined: --all-topics, --topic."
    if not scenarios:
        return f"Option '[reset-offsets]' requires one of the following scenarios: {', '.join(f'[{name}]' for name in SCENARIOS)}"
    return None


def _wrong_internal_topics(options: argparse.Namespace) -> str | None:
    if options.delete_all_internal_topics:
        if not options.reset_offsets and not options.delete:
            return "Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]"
        if options.reset_offsets and not options.execute:
            return "Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used."
    elif options.delete_internal_topic and not (options.reset_offsets and options.execute):
        return "Option [delete-internal-topic] takes [reset-offsets] when [execute] is used."
    return None


def _wrong_together(options: argparse.Namespace) -> str | None:
    if (options.dry_run or options.execute) and not options.reset_offsets:
        return "Only Option [reset-offsets] accepts [execute] or [dry-run]"
    return wrong_pair(options, APART)


# ------------------------------------------------------------ list and describe


async def _list(groups: StreamsGroupAdmin, options: argparse.Namespace) -> None:
    found = sorted(await groups.list_groups(states=words(options.state)), key=lambda group: group.group_id)
    if options.state is None:
        for group in found:
            print(group.group_id)
        return
    print("\n".join(tables.listing_lines(found)))


async def _group_ids(groups: StreamsGroupAdmin, options: argparse.Namespace) -> list[str]:
    found = [group.group_id for group in await groups.list_groups()] if options.all_groups else options.group
    return sorted(dict.fromkeys(found))


async def _describe(groups: StreamsGroupAdmin, options: argparse.Namespace) -> None:
    for group_id in await _group_ids(groups, options):
        group = await groups.describe(group_id)
        if options.state is not None:
            _note_empty(group)
            lines = tables.state_lines(group, verbose=options.verbose)
        elif not group.members:
            continue
        elif options.members:
            lines = tables.member_lines(group, verbose=options.verbose)
        else:
            lines = tables.offset_lines(group_id, await _partition_rows(groups, group), verbose=options.verbose)
        print("\n".join(lines))


def _note_empty(group: StreamsGroupDescription) -> None:
    if group.state == "Empty":
        print_error(f"Streams group '{group.group_id}' has no active members.")


async def _partition_rows(groups: StreamsGroupAdmin, group: StreamsGroupDescription) -> list[tables.PartitionRow]:
    partitions = sorted({partition for member in group.members for partition in group.read_by(member)})
    committed = await groups.groups.offsets(group.group_id)
    first, end = await _bounds(groups, partitions)
    rows = []
    for one in partitions:
        known = committed.get(one)
        lag = end[one] - (known.offset if known is not None else first[one])
        leader_epoch = known.leader_epoch if known is not None and known.leader_epoch >= 0 else None
        rows.append(tables.PartitionRow(one, known.offset if known is not None else None, leader_epoch, end[one], lag))
    return rows


async def _bounds(groups: StreamsGroupAdmin, partitions: Sequence[TopicPartition]) -> tuple[Offsets, Offsets]:
    """First offsets and ends.  Errors: KafkaError."""
    found: list[Offsets] = []
    for target in (EARLIEST, LATEST):
        offsets: Offsets = {}
        for one, answer in (await Admin(groups.cluster).partitions.list_offsets(dict.fromkeys(partitions, target))).items():
            if isinstance(answer, KafkaError):
                raise answer
            offsets[one] = answer.offset
        found.append(offsets)
    return found[0], found[1]


# ------------------------------------------------------------ delete


async def _delete(groups: StreamsGroupAdmin, options: argparse.Namespace) -> None:
    listed = {group.group_id: group.group_state for group in await groups.list_groups()}
    deleted: list[str] = []
    failed: list[tuple[str, str]] = []
    internal: dict[str, list[str]] = {}
    for group_id in sorted(listed) if options.all_groups else dict.fromkeys(options.group):
        refusal = _undeletable(group_id, listed)
        if refusal is None:
            try:
                topics = await _internal_topics(groups, group_id) if options.delete_all_internal_topics else []
                await groups.groups.delete(group_id)
                deleted.append(group_id)
                if topics:
                    internal[group_id] = topics
            except KafkaError as error:
                refusal = java_error(error)
        if refusal is not None:
            failed.append((group_id, refusal))
    answers = {group_id: await _delete_topics(groups, topics) for group_id, topics in internal.items()}
    left = {group_id: answer for group_id, answer in answers.items() if answer is not None}
    _tell_deleted(deleted, failed)
    _tell_internal(internal, left)


def _undeletable(group_id: str, listed: dict[str, str]) -> str | None:
    if group_id not in listed:
        return f"java.lang.IllegalArgumentException: Group '{group_id}' does not exist or is not a streams group."
    if listed[group_id] != "Empty":
        return java_error(KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Streams group '{group_id}' is not EMPTY."))
    return None


def _tell_deleted(deleted: list[str], failed: list[tuple[str, str]]) -> None:
    named = ", ".join(f"'{group_id}'" for group_id in deleted)
    if not failed:
        print(f"Deletion of requested streams groups ({named}) was successful.")
        return
    print_error("Deletion of some streams groups failed:")
    for group_id, why in failed:
        print(f"* Group '{group_id}' could not be deleted due to: {why}")
    if deleted:
        print(f"\nThese streams groups were deleted successfully: {named}.")


def _tell_internal(internal: dict[str, list[str]], left: dict[str, KafkaError]) -> None:
    if internal and not left:
        named = ", ".join(f"'{group_id}'" for group_id in internal)
        print(f"Deletion of associated internal topics of the streams groups ({named}) was successful.")
    elif internal:
        print("Deletion of some associated internal topics failed:")
        for group_id, error in left.items():
            print(f"* Internal topics of the streams group '{group_id}' could not be deleted due to: {java_error(error)}")


async def _internal_topics(groups: StreamsGroupAdmin, group_id: str) -> list[str]:
    """Topics that carry the group's name.  Others may belong to another program."""
    found = []
    for topic in sorted((await groups.describe(group_id)).internal_topics()):
        if topic.startswith(f"{group_id}-") and INTERNAL_NAME.fullmatch(topic):
            found.append(topic)
        else:
            print_error(
                f"The internal topic '{topic}' is not inferred as internal and thus will not be deleted with the group '{group_id}'."
            )
    return found


async def _delete_topics(groups: StreamsGroupAdmin, topics: Sequence[str]) -> KafkaError | None:
    """The first error, if there is one."""
    answers = await Admin(groups.cluster).topics.delete(topics)
    for topic, error in answers.items():
        if error is not None:
            print(f"Failed to delete internal topic: {topic}")
    return next((error for error in answers.values() if error is not None), None)


# ------------------------------------------------------------ offsets


async def _delete_offsets(groups: StreamsGroupAdmin, options: argparse.Namespace) -> None:
    group_id = options.group[0]
    unknown: dict[str, KafkaError] = {}
    if options.all_input_topics:
        partitions = await _committed_inputs(groups, group_id)
    else:
        partitions, unknown = await named_partitions(groups.groups, options.input_topic)
    answers: dict[TopicPartition, KafkaError | None] = {}
    whole = ErrorCode.NONE
    try:
        answers = await groups.groups.delete_offsets(group_id, partitions)
        whole = next((error.code for error in answers.values() if error is not None), ErrorCode.NONE)
    except KafkaError as error:
        whole = error.code
        answers = dict.fromkeys(partitions, error)
    if whole is ErrorCode.NONE:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif whole in WHOLE_ERRORS:
        print_error(message(KafkaError(whole)))
    elif whole in PARTITION_ERRORS:
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {whole.name}")
    rows = [(one.topic, str(one.partition), _status(answers[one])) for one in sorted(answers)]
    rows += [(topic, MISSING, _status(error)) for topic, error in unknown.items()]
    print_block(deleted_lines(rows))


def _status(error: KafkaError | None) -> str:
    return "Successful" if error is None else f"Error: {java_error(error)}"


async def _committed_inputs(groups: StreamsGroupAdmin, group_id: str) -> list[TopicPartition]:
    """The input partitions for which the group has offsets."""
    inputs = (await groups.describe(group_id)).input_topics()
    return sorted(one for one in await groups.groups.offsets(group_id) if one.topic in inputs)


async def _reset(groups: StreamsGroupAdmin, options: argparse.Namespace) -> None:
    plan: list[tuple[str, TopicPartition, int]] = []
    for group_id in await _group_ids(groups, options):
        state = await state_of(groups, group_id)
        if state not in ("Empty", "Dead"):
            print_error(f"Assignments can only be reset if the group '{group_id}' is inactive, but the current state is {state}.")
            continue
        offsets = await reset_offsets(groups.groups, group_id, options, await _to_reset(groups, group_id, options))
        plan += [(group_id, one, offsets[one]) for one in sorted(offsets)]
        if options.execute:
            for error in (await groups.groups.alter_offsets(group_id, offsets)).values():
                if error is not None:
                    raise error
            await _delete_internal(groups, group_id, options)
    if options.export:
        print(plan_csv(plan, has_groups=len(options.group) != 1))
        return
    print_block(tables.reset_lines(plan))


async def _to_reset(groups: StreamsGroupAdmin, group_id: str, options: argparse.Namespace) -> list[TopicPartition]:
    if options.all_input_topics:
        return await _committed_inputs(groups, group_id)
    partitions = await existing_partitions(groups.cluster, options.input_topic)
    committed = await groups.groups.offsets(group_id)
    if any(one not in committed for one in partitions):
        print_error(f"One or more topics are not part of the group '{group_id}'.")
        return []
    return partitions


async def _delete_internal(groups: StreamsGroupAdmin, group_id: str, options: argparse.Namespace) -> None:
    is_all = options.delete_all_internal_topics
    topics = await _internal_topics(groups, group_id) if is_all else list(dict.fromkeys(options.delete_internal_topic))
    refusals = [error for error in (await Admin(groups.cluster).topics.delete(topics)).values() if error is not None] if topics else []
    if not refusals:
        return
    what = f"Deleting internal topics for group '{group_id}' failed"
    is_unknown = refusals[0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    print_error(f"{what} because the topics do not exist." if is_unknown else f"{what} due to {java_error(refusals[0])}")
