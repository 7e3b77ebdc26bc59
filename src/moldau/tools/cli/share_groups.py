"""● `moldau share-groups`: show share groups (queues), their members and how much is left; reset their offsets, delete them."""

import argparse
from collections.abc import Sequence
from typing import Final

from moldau.clients.admin.share_groups import ShareGroupAdmin
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.group_command import MISSING, add_reset, apply_reset, described, refused, run_action
from moldau.tools.cli.kafka.group_tools.reset import reset_partitions
from moldau.tools.cli.kafka.group_tools.tables import assignment_text
from moldau.tools.cli.parser import Parser, add_actions
from moldau.tools.cli.terminal import say, table

COMMAND: Final = "share-groups"


def main(arguments: list[str]) -> int:
    actions = {"list": _list, "members": _members, "lag": _lag, "reset": _reset, "forget": _forget, "delete": _delete}
    return run_action(_parser().parse_args(arguments), ShareGroupAdmin, actions)


def _parser() -> Parser:
    parser = Parser(
        "moldau share-groups",
        "Share groups: members take records off the same partitions, and each record goes to one member.",
        examples=[
            "moldau share-groups list",
            "moldau share-groups members printers",
            "moldau share-groups lag printers",
            "moldau share-groups reset printers --to-earliest --topic jobs --execute",
            "moldau share-groups forget printers --topic jobs",
            "moldau share-groups delete printers",
        ],
    )
    action = add_actions(parser)
    action("list", "show share groups with state")
    action("members", "show members with the partitions that they take records of").add_argument("groups", nargs="+", metavar="GROUP")
    action("lag", "show the first unfinished record of each partition, and how many records are left").add_argument(
        "groups", nargs="+", metavar="GROUP"
    )
    reset = action("reset", "set the offsets of a group without members; without --execute only show them")
    add_reset(reset, has="all that it has read")
    forget = action("forget", "forget the offsets of a group without members in some topics")
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("--topic", action="append", required=True, metavar="TOPIC")
    action("delete", "delete groups without members, with their offsets").add_argument("groups", nargs="+", metavar="GROUP")
    return parser


async def _list(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    listed = sorted(await groups.list_groups(), key=lambda group: group.group_id)
    if not listed:
        say("There are no share groups yet: the first share consumer makes one.")
        return
    table(("GROUP", "STATE"), [(group.group_id, group.group_state) for group in listed])


async def _members(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    rows = []
    for group_id in options.groups:
        group = await described(groups, group_id, command=COMMAND)
        for one in group.members:
            host = one.host.removeprefix("/")
            rows.append((group_id, one.client_id, host, one.epoch, assignment_text(one.assignment), one.member_id))
        if not group.members:
            say(f"Group {group_id} is empty: nobody is in it.")
    if rows:
        table(("GROUP", "CLIENT", "HOST", "EPOCH", "READS", "MEMBER"), rows)


async def _lag(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    rows: list[Sequence[object]] = []
    for group_id in options.groups:
        await described(groups, group_id, command=COMMAND)
        for one, offset in sorted((await groups.offsets(group_id)).items()):
            shown = (MISSING if value is None else value for value in (offset.start_offset, offset.lag))
            rows.append((group_id, one.topic, one.partition, *shown))
    numbers = ("PARTITION", "START OFFSET", "LAG")
    table(("GROUP", "TOPIC", *numbers), rows, right=numbers)


async def _reset(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    group_id = options.group
    try:
        if (await groups.describe(group_id)).members:
            raise Failure(f"group {group_id} has members", "Stop them first: they would go on from where they are")
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    known = await groups.offsets(group_id)
    offsets = await reset_partitions(groups.groups, sorted(known), options)
    if not offsets:
        raise Failure(f"group {group_id} has read nothing yet", "Name the topics with --topic")
    starts = {one: offset.start_offset for one, offset in known.items() if offset.start_offset is not None}
    await apply_reset(groups, group_id, starts, offsets, execute=options.execute)


async def _forget(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    try:
        answers = await groups.delete_offsets(options.group, options.topic)
    except KafkaError as error:
        raise await refused(groups, options.group, error, command=COMMAND) from error
    for topic, code in answers.items():
        if code is not None:
            raise Failure(f"group {options.group}, topic {topic}: {code.detail}")
        print(f"Group {options.group} has forgotten topic {topic}.")


async def _delete(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    for group_id in options.groups:
        await described(groups, group_id, command=COMMAND)
        try:
            await groups.delete(group_id)
        except KafkaError as error:
            raise await refused(groups, group_id, error, command=COMMAND) from error
        print(f"Deleted group {group_id}.")
