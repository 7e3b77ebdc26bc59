"""◇ Tables of streams groups as kafka-streams-groups.sh lays them out.  Source: StreamsGroupCommand.java."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.clients.admin.streams_groups import StreamsGroupDescription, StreamsMember, Tasks
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.kafka.group_tools.tables import aligned
from moldau.types import TopicPartition

_LISTED: Final = (("GROUP", 15), ("STATE", 0))
_OFFSETS: Final = (("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("OFFSET-LAG", 0))
_OFFSETS_VERBOSE: Final = (
    *_OFFSETS[:3],
    ("CURRENT-OFFSET", 15),
    ("LEADER-EPOCH", 15),
    ("LOG-END-OFFSET", 15),
    ("OFFSET-LAG", 15),
)
_STATES: Final = (
    ("GROUP", 15),
    ("COORDINATOR (ID)", 25),
    ("STATE", 25),
    ("GROUP-EPOCH", 15),
    ("TARGET-ASSIGNMENT-EPOCH", 25),
    ("#MEMBERS", 0),
)
_MEMBERS: Final = (("GROUP", 15), ("MEMBER", 15), ("PROCESS", 15), ("CLIENT-ID", 15), ("ASSIGNMENTS", 0))
_ONLY_VERBOSE: Final = frozenset({"GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"})


class PartitionRow(NamedTuple):
    """The lag of a group on a partition.  Without a committed offset the lag is the whole partition."""

    partition: TopicPartition
    offset: int | None
    leader_epoch: int | None
    end_offset: int
    lag: int


def listing_lines(groups: Iterable[ListedGroup]) -> list[str]:
    return aligned(_LISTED, [(group.group_id, group.group_state) for group in groups], hidden=frozenset())


def offset_lines(group_id: str, rows: Iterable[PartitionRow], *, verbose: bool) -> list[str]:
    cells = [
        (group_id, row.partition.topic, row.partition.partition, row.offset, row.leader_epoch, row.end_offset, row.lag) for row in rows
    ]
    if verbose:
        return aligned(_OFFSETS_VERBOSE, cells, hidden=frozenset())
    return aligned(_OFFSETS, [(*row[:3], row[-1]) for row in cells], hidden=frozenset())


def state_lines(group: StreamsGroupDescription, *, verbose: bool) -> list[str]:
    coordinator = f"{group.coordinator} ({group.coordinator.node_id})"
    cells = (group.group_id, coordinator, group.state, group.epoch, group.target_epoch, len(group.members))
    return aligned(_STATES, [cells], hidden=frozenset() if verbose else _ONLY_VERBOSE)


def member_lines(group: StreamsGroupDescription, *, verbose: bool) -> list[str]:
    members = sorted(group.members, key=lambda member: member.member_id)
    if not verbose:
        cells = [(group.group_id, each.member_id, each.process_id, each.client_id, task_text(each.assignment)) for each in members]
        return aligned(_MEMBERS, cells, hidden=frozenset())
    return _verbose_member_lines(group, members)


def _verbose_member_lines(group: StreamsGroupDescription, members: Sequence[StreamsMember]) -> list[str]:
    """Kafka leaves no space between the topology's epoch and the member."""
    titles = (
        "GROUP",
        "TARGET-ASSIGNMENT-EPOCH",
        "TOPOLOGY-EPOCH",
        "MEMBER",
        "MEMBER-PROTOCOL",
        "MEMBER-EPOCH",
        "PROCESS",
        "CLIENT-ID",
        "ASSIGNMENTS",
    )
    rows = [
        (
            group.group_id,
            str(group.target_epoch),
            str(group.topology_epoch),
            each.member_id,
            "classic" if each.is_classic else "streams",
            str(each.epoch),
            each.process_id,
            each.client_id,
            task_text(each.assignment) + task_text(each.target, "TARGET-"),
        )
        for each in members
    ]
    width = {index: max((15, *(len(row[index]) for row in rows))) for index in (0, 3, 6, 7)}
    return [
        f"{row[0]:<{width[0]}} {row[1]:<25} {row[2]:<15}{row[3]:<{width[3]}} {row[4]:<15} {row[5]:<15} "
        f"{row[6]:<{width[6]}} {row[7]:<{width[7]}} {row[8]}"
        for row in (titles, *rows)
    ]


def task_text(tasks: Tasks, prefix: str = "") -> str:
    """`ACTIVE: 0:[0,1]; 1:[0]; STANDBY: 1:[1]; `."""
    roles = {"ACTIVE": tasks.active, "STANDBY": tasks.standby, "WARMUP": tasks.warmup}
    return "".join(_role_text(f"{prefix}{name}", role) for name, role in roles.items())


def _role_text(name: str, tasks: Mapping[str, Sequence[int]]) -> str:
    if not tasks:
        return ""
    return f"{name}: " + "".join(f"{subtopology_id}:[{','.join(map(str, partitions))}]; " for subtopology_id, partitions in tasks.items())


def reset_lines(plan: Sequence[tuple[str, TopicPartition, int]]) -> list[str]:
    """Columns of fixed widths.  A longer value moves the rest of its row."""
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *((group_id, *one, offset) for group_id, one, offset in plan)]
    return [f"{group_id:<30} {topic:<30} {partition!s:<10} {offset!s:<15}" for group_id, topic, partition, offset in rows]
