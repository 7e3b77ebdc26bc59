"""● `moldau groups`: consumer groups, who reads what in them and how far they are; put them back, delete them."""

import argparse
from collections.abc import Sequence
from typing import Final

from moldau.clients.admin import LATEST, Admin
from moldau.clients.cluster import Cluster
from moldau.clients.group_admin import GroupAdmin, GroupDescription
from moldau.clients.lag import count_lag
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_reset import ResetRefused, reset_offsets
from moldau.tools.cli.kafka.group_tables import assignment_text
from moldau.tools.cli.parser import Parser, add_bootstrap
from moldau.tools.cli.terminal import say, table
from moldau.types import TopicPartition

LAG_BYTES: Final = 64 * 1024 * 1024


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        groups = GroupAdmin(cluster)
        actions = {"list": _list, "members": _members, "lag": _lag, "reset": _reset, "delete": _delete}
        try:
            await actions[options.action](groups, options)
        except ResetRefused as refused:
            raise Failure(str(refused)) from refused
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau groups",
        "Consumer groups: who is in them, how far they are, and how much they have still to read.",
        examples=[
            "moldau groups list",
            "moldau groups members billing",
            "moldau groups lag billing",
            "moldau groups reset billing --to-earliest --topic orders --execute",
            "moldau groups delete billing",
        ],
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, about: str) -> Parser:
        made = actions.add_parser(name, help=about, description=about)
        add_bootstrap(made)
        return made

    action("list", "groups with protocol, state and members")
    action("members", "members with what they read").add_argument("groups", nargs="+", metavar="GROUP")
    lag = action("lag", "how far the group is in each partition, and how many records are left")
    lag.add_argument("groups", nargs="+", metavar="GROUP")
    lag.add_argument(
        "--count-bytes", type=int, default=LAG_BYTES, metavar="BYTES", help="read at most so much to count records (%(default)s); 0: do not"
    )
    reset = action("reset", "put a group without members somewhere else; shows what would be unless --execute is given")
    reset.add_argument("group", metavar="GROUP")
    reset.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="only these (all that it has offsets of)")
    where = reset.add_mutually_exclusive_group(required=True)
    for name in ("to-earliest", "to-latest", "to-current"):
        where.add_argument(f"--{name}", action="store_true")
    where.add_argument("--to-offset", type=int, metavar="OFFSET")
    where.add_argument("--shift-by", type=int, metavar="N")
    where.add_argument("--to-datetime", metavar="TIME")
    where.add_argument("--by-duration", metavar="PnDTnHnMnS")
    where.add_argument("--from-file", metavar="FILE", help="lines of topic,partition,offset")
    reset.add_argument("--execute", action="store_true", help="do it")
    action("delete", "forget groups without members, with their offsets").add_argument("groups", nargs="+", metavar="GROUP")
    return parser


async def _list(groups: GroupAdmin, options: argparse.Namespace) -> None:
    listed = sorted(await groups.list_groups(), key=lambda group: group.group_id)
    if not listed:
        say("There are no groups yet.  `moldau consume hello --group mine` makes one.")
        return
    rows = [(one.group_id, one.group_type.lower(), one.protocol_type or "-", one.group_state) for one in listed]
    table(("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)


async def _described(groups: GroupAdmin, group_id: str) -> GroupDescription:
    try:
        return await groups.describe(group_id)
    except KafkaError as error:
        raise await _not_there(groups, group_id, error) from error


async def _not_there(groups: GroupAdmin, group_id: str, error: KafkaError) -> Failure:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return Failure(f"group {group_id}: {error.detail}")
    from difflib import get_close_matches

    near = get_close_matches(group_id, [one.group_id for one in await groups.list_groups()], n=1)
    return Failure(f"there is no group {group_id}" + (f"; did you mean {near[0]}?" if near else ""), "`moldau groups list` shows them all")


async def _members(groups: GroupAdmin, options: argparse.Namespace) -> None:
    rows = []
    for group_id in options.groups:
        group = await _described(groups, group_id)
        for member in group.members:
            rows.append(
                (
                    group_id,
                    member.client_id,
                    member.instance_id or "-",
                    member.host.removeprefix("/"),
                    "-" if member.epoch is None else member.epoch,
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
        group = await _described(groups, group_id)
        owners = {partition: member.client_id for member in group.members for partition in member.assignment}
        committed = await groups.offsets(group_id)
        partitions = sorted({*owners, *committed})
        ends = await Admin(groups.cluster).list_offsets(dict.fromkeys(partitions, LATEST))
        positions: dict[TopicPartition, tuple[int, int]] = {}
        for one in partitions:
            end = ends[one]
            if one in committed and not isinstance(end, KafkaError):
                positions[one] = (committed[one].offset, end.offset)
        lags = await count_lag(groups.cluster, positions, max_bytes=options.count_bytes)
        for one in partitions:
            offset, end_offset = positions.get(one, (None, None))
            lag = lags.get(one)
            counted = "-" if lag is None else f"{'' if lag.is_complete else '≤'}{lag.records}"
            shown = (offset, end_offset, counted, lag.offsets if lag else None, owners.get(one))
            rows.append((group_id, one.topic, one.partition, *("-" if cell is None else cell for cell in shown)))
    numbers = ("PARTITION", "OFFSET", "END", "LAG", "KAFKA LAG")
    table(("GROUP", "TOPIC", *numbers, "READ BY"), rows, right=numbers)


async def _reset(groups: GroupAdmin, options: argparse.Namespace) -> None:
    group_id = options.group
    options.group, options.all_topics = [group_id], not options.topic
    try:
        state = (await groups.describe(group_id)).state
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
    if options.execute:
        for one, refused in (await groups.alter_offsets(group_id, offsets)).items():
            if refused is not None:
                raise Failure(f"{one}: {refused.detail}")
    rows = [(one.topic, one.partition, committed[one].offset if one in committed else "-", offsets[one]) for one in sorted(offsets)]
    table(("TOPIC", "PARTITION", "OFFSET", "NEW OFFSET"), rows, right=("PARTITION", "OFFSET", "NEW OFFSET"))
    if not options.execute:
        say("Nothing is changed yet: add --execute to do it.")


async def _delete(groups: GroupAdmin, options: argparse.Namespace) -> None:
    for group_id in options.groups:
        try:
            await groups.delete(group_id)
        except KafkaError as error:
            if error.code is ErrorCode.NON_EMPTY_GROUP:
                raise Failure(f"group {group_id} has members", "Stop them first") from error
            raise await _not_there(groups, group_id, error) from error
        print(f"Deleted group {group_id}.")
