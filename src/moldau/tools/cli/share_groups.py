"""● `moldau share-groups`: share groups (queues), who reads in them and how much is left; put them back, delete them."""

import argparse
from collections.abc import Sequence
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.share_group_admin import ShareGroupAdmin, ShareGroupDescription
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_reset import ResetRefused, reset_partitions
from moldau.tools.cli.kafka.group_tables import assignment_text
from moldau.tools.cli.parser import Parser, add_bootstrap
from moldau.tools.cli.terminal import say, table

MISSING: Final = "-"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        groups = ShareGroupAdmin(cluster)
        actions = {"list": _list, "members": _members, "lag": _lag, "reset": _reset, "forget": _forget, "delete": _delete}
        try:
            await actions[options.action](groups, options)
        except ResetRefused as refused:
            raise Failure(str(refused)) from refused
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau share-groups",
        "Share groups: members take records off the same partitions, each record goes to one of them.",
        examples=[
            "moldau share-groups list",
            "moldau share-groups members printers",
            "moldau share-groups lag printers",
            "moldau share-groups reset printers --to-earliest --topic jobs --execute",
            "moldau share-groups forget printers --topic jobs",
            "moldau share-groups delete printers",
        ],
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, about: str) -> Parser:
        made = actions.add_parser(name, help=about, description=about)
        add_bootstrap(made)
        return made

    action("list", "share groups with state")
    action("members", "members with the partitions they take records of").add_argument("groups", nargs="+", metavar="GROUP")
    action("lag", "the first record of each partition that is not done with, and how many are left").add_argument(
        "groups", nargs="+", metavar="GROUP"
    )
    reset = action("reset", "put a group without members somewhere else; shows what would be unless --execute is given")
    reset.add_argument("group", metavar="GROUP")
    reset.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="only these (all that it has read)")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true")
    where.add_argument("--to-latest", action="store_true")
    where.add_argument("--to-datetime", metavar="TIME")
    reset.add_argument("--execute", action="store_true", help="do it")
    forget = action("forget", "forget how far a group without members has come with topics")
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("--topic", action="append", required=True, metavar="TOPIC")
    action("delete", "forget groups without members, with all they have come to").add_argument("groups", nargs="+", metavar="GROUP")
    return parser


async def _list(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    listed = sorted(await groups.list_groups(), key=lambda group: group.group_id)
    if not listed:
        say("There are no share groups yet: the first share consumer makes one.")
        return
    table(("GROUP", "STATE"), [(group.group_id, group.group_state) for group in listed])


async def _described(groups: ShareGroupAdmin, group_id: str) -> ShareGroupDescription:
    try:
        return await groups.describe(group_id)
    except KafkaError as error:
        raise await _not_there(groups, group_id, error) from error


async def _not_there(groups: ShareGroupAdmin, group_id: str, error: KafkaError) -> Failure:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return Failure(f"group {group_id}: {error.detail}")
    from difflib import get_close_matches

    near = get_close_matches(group_id, [one.group_id for one in await groups.list_groups()], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return Failure(f"there is no share group {group_id}{hint}", "`moldau share-groups list` shows them all")


async def _members(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    rows = []
    for group_id in options.groups:
        group = await _described(groups, group_id)
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
        await _described(groups, group_id)
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
    if options.execute:
        for one, refused in (await groups.alter_offsets(group_id, offsets)).items():
            if refused is not None:
                raise Failure(f"{one}: {refused.detail}")
    starts = {one: offset.start_offset for one, offset in known.items() if offset.start_offset is not None}
    rows = [(one.topic, one.partition, starts.get(one, MISSING), offsets[one]) for one in sorted(offsets)]
    table(("TOPIC", "PARTITION", "OFFSET", "NEW OFFSET"), rows, right=("PARTITION", "OFFSET", "NEW OFFSET"))
    if not options.execute:
        say("Nothing is changed yet: add --execute to do it.")


async def _forget(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    try:
        answers = await groups.delete_offsets(options.group, options.topic)
    except KafkaError as error:
        raise await _refused(groups, options.group, error) from error
    for topic, refused in answers.items():
        if refused is not None:
            raise Failure(f"group {options.group}, topic {topic}: {refused.detail}")
        print(f"Group {options.group} has forgotten topic {topic}.")


async def _delete(groups: ShareGroupAdmin, options: argparse.Namespace) -> None:
    for group_id in options.groups:
        await _described(groups, group_id)
        try:
            await groups.delete(group_id)
        except KafkaError as error:
            raise await _refused(groups, group_id, error) from error
        print(f"Deleted group {group_id}.")


async def _refused(groups: ShareGroupAdmin, group_id: str, error: KafkaError) -> Failure:
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return Failure(f"group {group_id} has members", "Stop them first")
    return await _not_there(groups, group_id, error)
