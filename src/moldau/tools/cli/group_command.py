"""● The common parts of `moldau groups` and `moldau share-groups`: options, errors of missing or non-empty groups, and a reset that is
shown before it is done.
"""

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools.reset import ResetRefused
from moldau.tools.cli.parser import Parser
from moldau.tools.cli.terminal import say, table
from moldau.types import TopicPartition

MISSING: Final = "-"

D_co = TypeVar("D_co", covariant=True)
G = TypeVar("G")


class Groups(Protocol[D_co]):
    """An administrator of groups of one kind; `D_co` is its description of a group."""

    async def list_groups(self) -> Sequence[ListedGroup]: ...

    async def describe(self, group_id: str) -> D_co: ...

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, KafkaError | None]: ...


Action = Callable[[G, argparse.Namespace], Awaitable[None]]


def run_action(options: argparse.Namespace, admin: Callable[[Cluster], G], actions: Mapping[str, Action[G]]) -> int:
    """Run `options.action` with an administrator of the cluster that `options` name, and return the exit code."""

    async def work(cluster: Cluster) -> int:
        try:
            await actions[options.action](admin(cluster), options)
        except ResetRefused as refused:
            raise Failure(str(refused)) from refused
        return 0

    return on_cluster(options, work)


def add_reset(reset: Parser, *, has: str) -> argparse._MutuallyExclusiveGroup:
    """Add the options of a reset, and return the group of its targets, to which the caller may add more.

    `has`: the partitions that are meant when no topic is named, in words.
    """
    reset.add_argument("group", metavar="GROUP")
    reset.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help=f"only these ({has})")
    reset.add_argument("--execute", action="store_true", help="do it")
    where = reset.add_mutually_exclusive_group(required=True)
    for name in ("to-earliest", "to-latest"):
        where.add_argument(f"--{name}", action="store_true")
    where.add_argument("--to-datetime", metavar="TIME")
    return where


async def described(groups: Groups[D_co], group_id: str, *, command: str) -> D_co:
    """Errors: Failure."""
    try:
        return await groups.describe(group_id)
    except KafkaError as error:
        raise await refused(groups, group_id, error, command=command) from error


async def refused(groups: Groups[object], group_id: str, error: KafkaError, *, command: str) -> Failure:
    """The error of a refused action, in words.  `command`: `groups` or `share-groups`, which lists the groups."""
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return Failure(f"group {group_id} has members", "Stop them first")
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return Failure(f"group {group_id}: {error.detail}")
    from difflib import get_close_matches

    near = get_close_matches(group_id, [one.group_id for one in await groups.list_groups()], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    kind = command.removesuffix("s").replace("-", " ")
    return Failure(f"there is no {kind} {group_id}{hint}", f"`moldau {command} list` shows them all")


async def apply_reset(
    groups: Groups[object],
    group_id: str,
    before: Mapping[TopicPartition, int],
    offsets: Mapping[TopicPartition, int],
    *,
    execute: bool,
) -> None:
    """Shows the offsets that the group would get, and with `execute` sets them.  Errors: Failure."""
    if execute:
        for one, error in (await groups.alter_offsets(group_id, offsets)).items():
            if error is not None:
                raise Failure(f"{one}: {error.detail}")
    rows = [(one.topic, one.partition, before.get(one, MISSING), offsets[one]) for one in sorted(offsets)]
    table(("TOPIC", "PARTITION", "OFFSET", "NEW OFFSET"), rows, right=("PARTITION", "OFFSET", "NEW OFFSET"))
    if not execute:
        say("Nothing is changed yet: add --execute to do it.")
