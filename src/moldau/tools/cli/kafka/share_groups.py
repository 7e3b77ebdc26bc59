"""● `moldau kafka-share-groups`: list, describe and delete share groups, delete and reset their offsets, as kafka-share-groups.sh does.

A run that prints `Error:` ends with exit code 0, as with Kafka's tool.  Differs from Kafka: rows are sorted, where Kafka prints them in the
order of its hash maps.
"""

import argparse
import sys
from typing import Final

from moldau.clients.admin.share_groups import ShareGroupAdmin, ShareGroupDescription
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools import share_tables as tables
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
from moldau.tools.cli.kafka.group_tools.reset import UNFIT_TOPIC, reset_partitions
from moldau.tools.cli.kafka.group_tools.tables import reset_lines
from moldau.tools.cli.kafka.java_errors import java_error, message
from moldau.tools.cli.kafka.options import KafkaParser

ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
STATES: Final = ("Empty", "Stable", "Dead")
SCENARIOS: Final = ("to-datetime", "to-earliest", "to-latest")
APART: Final = [("group", "all-groups"), ("group", "list"), ("topic", "list"), ("topic", "describe")]
WHOLE_ERRORS: Final = frozenset(
    {ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NON_EMPTY_GROUP}
)
TOPIC_ERRORS: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def main(arguments: list[str]) -> int:
    parser = _parser()
    actions = {"list": _list, "describe": _describe, "delete": _delete, "reset_offsets": _reset, "delete_offsets": _delete_offsets}
    return run_group_tool(
        parser,
        parser.parse_args(arguments),
        wrong=_wrong,
        admin=lambda cluster, within_s: ShareGroupAdmin(cluster, within_s=within_s),
        actions=actions,
        complain=_complain,
    )


def _complain(action: str, error: KafkaError) -> int:
    text = message(error) if action == "reset_offsets" else java_error(error)
    print_error(f"Executing share group command failed due to {text}")
    return 0


def _parser() -> KafkaParser:
    parser = group_parser(
        "share",
        ACTIONS,
        examples=[
            "--list --state",
            "--describe --group queue --members --verbose",
            "--reset-offsets --group queue --all-topics --to-earliest --dry-run",
        ],
    )
    add = parser.add_argument
    add("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="a topic; for a reset also some of its partitions; repeatable")
    add("--all-topics", action="store_true", help="reset: all that the group has read")
    add("--to-earliest", action="store_true", help="reset to the first offset")
    add("--to-latest", action="store_true", help="reset to the end")
    add("--to-datetime", metavar="TIME", help="reset to the first offset at or after YYYY-MM-DDThh:mm:ss.sss")
    return parser


def _wrong(options: argparse.Namespace) -> str | None:
    """Kafka's rules, in its words."""
    if options.describe:
        if not options.group and not options.all_groups:
            return "Option [describe] takes one of these options: [all-groups], [group]"
        wrong = wrong_describe(options)
        if wrong is not None:
            return wrong
    if options.delete:
        if not options.group and not options.all_groups:
            return "Option [delete] takes the options [group] or [all-groups]"
        if options.group and options.all_groups:
            return "Option [delete] takes either [all-groups] or [group], not both."
        if options.topic:
            return "Option [delete] does not take the option: [topic]"
    if options.delete_offsets and not (options.group and options.topic):
        return "Option [delete-offsets] takes the following options: [group], [topic]"
    if options.reset_offsets:
        wrong = _wrong_reset(options)
        if wrong is not None:
            return wrong
    wrong = wrong_pair(options, APART)
    if wrong is not None:
        return wrong
    if (options.delete_offsets or options.reset_offsets) and len(options.group) > 1:
        return TOO_MANY_GROUPS
    if len(given_of(options, ACTIONS)) != 1:
        return "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets."
    return wrong_filter("state", options.state, STATES)


def _wrong_reset(options: argparse.Namespace) -> str | None:
    wrong = wrong_reset_mode(options, is_needed=True)
    if wrong is not None:
        return wrong
    if not options.group:
        return "Option [reset-offsets] takes the option: [group]"
    if not options.topic and not options.all_topics:
        return "Option [reset-offsets] takes one of these options: [all-topics], [topic]"
    scenarios = given_of(options, SCENARIOS)
    if not scenarios:
        return "Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest], [to-latest]"
    return wrong_together(scenarios)


# ------------------------------------------------------------ list and describe


async def _list(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    found = sorted(await groups.list_groups(states=words(options.state)), key=lambda group: group.group_id)
    if options.state is None:
        for group in found:
            print(group.group_id)
        return
    print("\n".join(tables.listing_lines(found)))


async def _group_ids(groups: ShareGroupAdmin, options: argparse.Namespace) -> list[str]:
    found = [group.group_id for group in await groups.list_groups()] if options.all_groups else options.group
    return sorted(dict.fromkeys(found))


async def _describe(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    described = [await groups.describe(group_id) for group_id in await _group_ids(groups, options)]
    for group in described:
        if options.members:
            _note_empty(group)
            if group.members:
                print_block(tables.member_lines(group, verbose=options.verbose))
        elif options.state is not None:
            _note_empty(group)
            print_block(tables.state_lines(group, verbose=options.verbose))
        else:
            offsets = await groups.offsets(group.group_id)
            if offsets:
                print_block(tables.offset_lines(group.group_id, offsets, verbose=options.verbose))
            else:
                print(f"\nShare group '{group.group_id}' has no offset information.")


def _note_empty(group: ShareGroupDescription) -> None:
    if group.state == "Empty":
        print(f"\nShare group '{group.group_id}' has no active members.", file=sys.stderr)


# ------------------------------------------------------------ delete and reset


async def _delete(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    listed = {group.group_id: group for group in await groups.list_groups()}
    deleted, failed = [], []
    for group_id in sorted(listed) if options.all_groups else dict.fromkeys(options.group):
        if group_id not in listed:
            failed.append((group_id, f"java.lang.IllegalArgumentException: Group '{group_id}' is not a share group."))
        elif listed[group_id].group_state != "Empty":
            error = KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Share group '{group_id}' is not EMPTY.")
            failed.append((group_id, java_error(error)))
        else:
            try:
                await groups.delete(group_id)
                deleted.append(f"'{group_id}'")
            except KafkaError as error:
                failed.append((group_id, java_error(error)))
    if not failed:
        print(f"Deletion of requested share groups ({', '.join(deleted)}) was successful.")
        return
    print_error("Deletion of some share groups failed:")
    for group_id, why in failed:
        print(f"* Group '{group_id}' could not be deleted due to: {why}")
    if deleted:
        print(f"\nThese share groups were deleted successfully: {', '.join(deleted)}")


async def _delete_offsets(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    topics = sorted(dict.fromkeys(options.topic))
    answers: dict[str, KafkaError | None]
    try:
        answers = await groups.delete_offsets(options.group[0], topics)
    except KafkaError as error:
        answers = dict.fromkeys(topics, error)
        if error.code in WHOLE_ERRORS:
            print_error(message(error))
        elif error.code not in TOPIC_ERRORS:
            print_error(f"Encounter some unknown error: {java_error(error)}")
    print_block(tables.deleted_lines([(topic, _status(answers[topic])) for topic in sorted(answers)]))


def _status(error: KafkaError | None) -> str:
    return "Successful" if error is None else f"Error: {message(error)}"


async def _reset(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    group_id = options.group[0]
    try:
        if await state_of(groups, group_id) not in ("Empty", "Dead"):
            raise Failure(f"Share group '{group_id}' is not empty.")
        known = sorted(await groups.offsets(group_id)) if options.all_topics and not options.topic else []
        offsets = await reset_partitions(groups.groups, known, options)
        if options.execute:
            for refused in (await groups.alter_offsets(group_id, offsets)).values():
                if refused is not None:
                    raise refused
    except KafkaError as error:
        if error.code in (*UNFIT_TOPIC, ErrorCode.GROUP_ID_NOT_FOUND):
            raise
        raise Failure(message(error)) from error
    print_block(reset_lines([group_id], [(group_id, one, offsets[one]) for one in sorted(offsets)]))
