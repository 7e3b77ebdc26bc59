"""● `moldau groups`: show groups, their members and their lag; reset their offsets, delete them."""

import argparse
from collections.abc import Sequence
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.groups import GroupAdmin, GroupDescription
from moldau.clients.admin.lag import count_lag
from moldau.clients.admin.streams_groups import StreamsGroupAdmin
from moldau.clients.admin.values import LATEST
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.group_command import MISSING, add_reset, apply_reset, described, refused, run_action
from moldau.tools.cli.kafka.group_tools.reset import reset_offsets
from moldau.tools.cli.kafka.group_tools.tables import assignment_text
from moldau.tools.cli.parser import Parser, add_actions
from moldau.tools.cli.terminal import say, table
from moldau.types import TopicPartition

COMMAND: Final = "groups"
LAG_BYTES: Final = 64 * 1024 * 1024


def main(arguments: list[str]) -> int:
    actions = {"list": _list, "members": _members, "lag": _lag, "reset": _reset, "delete": _delete}
    return run_action(_parser().parse_args(arguments), GroupAdmin, actions)


def _parser() -> Parser:
    parser = Parser(
        "moldau groups",
        "Consumer and streams groups: who is in them, how far they are, and how much they have still to read.",
        examples=[
            "moldau groups list",
            "moldau groups members billing",
            "moldau groups lag billing",
            "moldau groups reset billing --to-earliest --topic orders --execute",
            "moldau groups delete billing",
        ],
    )
    action = add_actions(parser)
    action("list", "show groups with protocol, state and members")
    action("members", "show members with the partitions that they read").add_argument("groups", nargs="+", metavar="GROUP")
    lag = action("lag", "show how far the group is in each partition, and how many records are left")
    lag.add_argument("groups", nargs="+", metavar="GROUP")
    lag.add_argument(
        "--count-bytes", type=int, default=LAG_BYTES, metavar="BYTES", help="read at most this to count records (%(default)s); 0: no counts"
    )
    reset = action("reset", "set the offsets of a group without members; without --execute only show them")
    where = add_reset(reset, has="all that it has offsets of")
    where.add_argument("--to-current", action="store_true")
    where.add_argument("--to-offset", type=int, metavar="OFFSET")
    where.add_argument("--shift-by", type=int, metavar="N")
    where.add_argument("--by-duration", metavar="PnDTnHnMnS")
    where.add_argument("--from-file", metavar="FILE", help="lines of topic,partition,offset")
    action("delete", "delete groups without members, with their offsets").add_argument("groups", nargs="+", metavar="GROUP")
    return parser


class Readers:
    """Groups that read topics and commit offsets: consumer groups of both protocols, and streams groups by their active tasks."""

    def __init__(self, groups: GroupAdmin) -> None:
        self._groups = groups
        self.list_groups = groups.list_groups
        self.alter_offsets = groups.alter_offsets

    async def describe(self, group_id: str) -> GroupDescription:
        """Errors: KafkaError, GROUP_ID_NOT_FOUND among them."""
        try:
            return await self._groups.describe(group_id)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            try:
                return await StreamsGroupAdmin(self._groups.cluster).describe_as_readers(group_id)
            except KafkaError:
                raise error from None


async def _list(groups: GroupAdmin, options: argparse.Namespace) -> None:
    listed = sorted(await groups.list_groups(), key=lambda group: group.group_id)
    if not listed:
        say("There are no groups yet.  `moldau consume hello --group mine` makes one.")
        return
    rows = [(one.group_id, one.group_type.lower(), one.protocol_type or MISSING, one.group_state) for one in listed]
    table(("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)


async def _members(groups: GroupAdmin, options: argparse.Namespace) -> None:
    rows = []
    for group_id in options.groups:
        group = await described(Readers(groups), group_id, command=COMMAND)
        for member in group.members:
            rows.append(
                (
                    group_id,
                    member.client_id,
                    member.instance_id or MISSING,
                    member.host.removeprefix("/"),
                    MISSING if member.epoch is None else member.epoch,
                    assignment_text(member.assignment),
                    member.member_id,
                )
            )
        if not group.members:
            say(f"Group {group_id} is {group.state.lower()}: nobody is in it.")
    if rows:
        table(("GROUP", "CLIENT", "INSTANCE", "HOST", "EPOCH", "READS", "MEMBER"), rows)


async def _lag(groups: GroupAdmin, options: argparse.Namespace) -> None:
    """LAG counts records; KAFKA LAG is the difference of the offsets, which counts markers and gaps too."""
    rows: list[Sequence[object]] = []
    for group_id in options.groups:
        group = await described(Readers(groups), group_id, command=COMMAND)
        owners = {partition: member.client_id for member in group.members for partition in member.assignment}
        committed = await groups.offsets(group_id)
        partitions = sorted({*owners, *committed})
        ends = await Admin(groups.cluster).partitions.list_offsets(dict.fromkeys(partitions, LATEST))
        positions: dict[TopicPartition, tuple[int, int]] = {}
        for one in partitions:
            end = ends[one]
            if one in committed and not isinstance(end, KafkaError):
                positions[one] = (committed[one].offset, end.offset)
        lags = await count_lag(groups.cluster, positions, max_bytes=options.count_bytes)
        for one in partitions:
            offset, end_offset = positions.get(one, (None, None))
            lag = lags.get(one)
            counted = MISSING if lag is None else f"{'' if lag.is_complete else '≤'}{lag.records}"
            shown = (offset, end_offset, counted, lag.offsets if lag else None, owners.get(one))
            rows.append((group_id, one.topic, one.partition, *(MISSING if cell is None else cell for cell in shown)))
    numbers = ("PARTITION", "OFFSET", "END", "LAG", "KAFKA LAG")
    table(("GROUP", "TOPIC", *numbers, "READ BY"), rows, right=numbers)


async def _reset(groups: GroupAdmin, options: argparse.Namespace) -> None:
    group_id = options.group
    options.group, options.all_topics = [group_id], not options.topic
    try:
        state = (await Readers(groups).describe(group_id)).state
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        state = "Dead"
    if state not in ("Empty", "Dead"):
        raise Failure(f"group {group_id} has members ({state})", "Stop them first: they would go on from where they are")
    committed = await groups.offsets(group_id)
    offsets = await reset_offsets(groups, group_id, options)
    if not offsets:
        raise Failure(f"group {group_id} has no offsets to reset", "Name the topics with --topic")
    await apply_reset(groups, group_id, {one: known.offset for one, known in committed.items()}, offsets, execute=options.execute)


async def _delete(groups: GroupAdmin, options: argparse.Namespace) -> None:
    for group_id in options.groups:
        try:
            await groups.delete(group_id)
        except KafkaError as error:
            raise await refused(groups, group_id, error, command=COMMAND) from error
        print(f"Deleted group {group_id}.")
