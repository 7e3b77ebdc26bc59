"""◇ Tables of share groups as kafka-share-groups.sh lays them out.  Source: ShareGroupCommand.java."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.clients.admin.share_groups import ShareGroupDescription, ShareOffset
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.kafka.group_tools.tables import aligned, assignment_text
from moldau.types import TopicPartition

_OFFSETS: Final = (("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("LEADER-EPOCH", 13), ("START-OFFSET", 13), ("LAG", 0))
_STATES: Final = (
    ("GROUP", 15),
    ("COORDINATOR (ID)", 25),
    ("STATE", 15),
    ("GROUP-EPOCH", 12),
    ("ASSIGNMENT-EPOCH", 17),
    ("#MEMBERS", 0),
)
_MEMBERS: Final = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 12),
    ("MEMBER-EPOCH", 13),
    ("ASSIGNMENT", 0),
)
_LISTED: Final = (("GROUP", 15), ("STATE", 0))
_DELETED: Final = (("TOPIC", 15), ("STATUS", 0))
_ONLY_VERBOSE: Final = frozenset({"LEADER-EPOCH", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "MEMBER-EPOCH"})


def listing_lines(groups: Iterable[ListedGroup]) -> list[str]:
    return aligned(_LISTED, [(group.group_id, group.group_state) for group in groups], hidden=frozenset())


def offset_lines(group_id: str, offsets: Mapping[TopicPartition, ShareOffset], *, verbose: bool) -> list[str]:
    cells = [
        (group_id, one.topic, one.partition, offset.leader_epoch, offset.start_offset, offset.lag)
        for one, offset in sorted(offsets.items())
    ]
    return aligned(_OFFSETS, cells, hidden=_hidden(verbose))


def state_lines(group: ShareGroupDescription, *, verbose: bool) -> list[str]:
    coordinator = f"{group.coordinator}  ({group.coordinator.node_id})"
    cells = (group.group_id, coordinator, group.state, group.epoch, group.target_epoch, len(group.members))
    return aligned(_STATES, [cells], hidden=_hidden(verbose))


def member_lines(group: ShareGroupDescription, *, verbose: bool) -> list[str]:
    cells = [
        (
            group.group_id,
            member.member_id,
            member.host,
            member.client_id,
            len(member.assignment),
            member.epoch,
            assignment_text(member.assignment) if member.assignment else "",
        )
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]
    return aligned(_MEMBERS, cells, hidden=_hidden(verbose))


def deleted_lines(answers: Sequence[tuple[str, str]]) -> list[str]:
    """`answers`: topic, status."""
    return aligned(_DELETED, answers, hidden=frozenset())


def _hidden(verbose: bool) -> frozenset[str]:
    return frozenset() if verbose else _ONLY_VERBOSE
