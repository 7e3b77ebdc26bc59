"""◇ Tables of groups as kafka-consumer-groups.sh lays them out: columns as wide as their longest cell, and never narrower than Kafka's.

Source: ConsumerGroupCommand.java.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from moldau.clients.admin.groups import GroupDescription, MemberDescription
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.types import TopicPartition

MISSING: Final = "-"

_OFFSETS: Final = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("LEADER-EPOCH", 15),
    ("CURRENT-OFFSET", 15),
    ("LOG-END-OFFSET", 15),
    ("LAG", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 0),
)
_STATES: Final = (
    ("GROUP", 15),
    ("COORDINATOR (ID)", 25),
    ("ASSIGNMENT-STRATEGY", 20),
    ("STATE", 20),
    ("GROUP-EPOCH", 15),
    ("TARGET-ASSIGNMENT-EPOCH", 25),
    ("#MEMBERS", 0),
)
_MEMBERS: Final = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("GROUP-INSTANCE-ID", 17),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 15),
    ("CURRENT-EPOCH", 15),
    ("CURRENT-ASSIGNMENT", 20),
    ("TARGET-EPOCH", 15),
    ("TARGET-ASSIGNMENT", 20),
    ("UPGRADED", 0),
)
_RESET: Final = (("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("NEW-OFFSET", 0))
_ONLY_VERBOSE: Final = frozenset(
    {"LEADER-EPOCH", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"}
)


class PartitionRow(NamedTuple):
    """One partition of a group.  None is shown as missing."""

    group_id: str
    partition: TopicPartition
    leader_epoch: int | None
    offset: int | None
    end_offset: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.end_offset is None else self.end_offset - self.offset


def offset_lines(rows: Sequence[PartitionRow], *, verbose: bool) -> list[str]:
    cells = [
        (
            row.group_id,
            row.partition.topic,
            row.partition.partition,
            row.leader_epoch,
            row.offset,
            row.end_offset,
            row.lag,
            row.member.member_id if row.member else None,
            row.member.host if row.member else None,
            row.member.client_id if row.member else None,
        )
        for row in rows
    ]
    return aligned(_OFFSETS, cells, hidden=frozenset() if verbose else _ONLY_VERBOSE)


def state_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    node = group.coordinator
    cells = (
        group.group_id,
        f"{node}  ({node.node_id})",
        group.assignor or None,
        group.state,
        group.epoch,
        group.target_epoch,
        len(group.members),
    )
    return aligned(_STATES, [cells], hidden=frozenset() if verbose else _ONLY_VERBOSE)


def member_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    """Static ids are shown when a member has one, UPGRADED when a member still speaks the classic protocol."""
    hidden = set() if verbose else set(_ONLY_VERBOSE)
    if not any(member.instance_id for member in group.members):
        hidden.add("GROUP-INSTANCE-ID")
    if not verbose or not any(member.is_upgraded is False for member in group.members):
        hidden.add("UPGRADED")
    cells = [
        (
            group.group_id,
            member.member_id,
            member.instance_id or "",
            member.host,
            member.client_id,
            len(member.assignment),
            member.epoch,
            assignment_text(member.assignment),
            group.target_epoch if member.target is not None else None,
            assignment_text(member.target or ()),
            None if member.is_upgraded is None else str(member.is_upgraded).lower(),
        )
        for member in group.members
    ]
    return aligned(_MEMBERS, cells, hidden=frozenset(hidden), ends_with_space=not verbose)


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """`topic:0,1;other:0`."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in topics.items()) or MISSING


def reset_lines(group_ids: Iterable[str], offsets: Iterable[tuple[str, TopicPartition, int]]) -> list[str]:
    """`group_ids`: all groups.  The names of groups that are not reset count for the width of the column, too."""
    columns = (("GROUP", max((15, *map(len, group_ids)))), *_RESET[1:])
    return aligned(columns, [(group_id, one.topic, one.partition, offset) for group_id, one, offset in offsets], hidden=frozenset())


def listing_lines(groups: Sequence[ListedGroup], *, with_type: bool, with_state: bool) -> list[str]:
    width = max((15, *(len(group.group_id) for group in groups))) + 10
    rows = [("GROUP", "TYPE", "STATE"), *((group.group_id, group.group_type.capitalize(), group.group_state) for group in groups)]
    return [
        f"{name:<{width}}" + (f" {kind:<20}" if with_type else "") + (f" {state:<20}" if with_state else "") for name, kind, state in rows
    ]


def deleted_lines(answers: Sequence[tuple[str, str, str]]) -> list[str]:
    """`answers`: topic, partition, status."""
    width = max((15, *(len(topic) for topic, _, _ in answers)))
    return [f"{topic:<{width}} {partition:<10} {status:<15}" for topic, partition, status in [("TOPIC", "PARTITION", "STATUS"), *answers]]


def aligned(
    columns: Sequence[tuple[str, int]],
    rows: Sequence[Sequence[object]],
    *,
    hidden: frozenset[str],
    ends_with_space: bool = False,
) -> list[str]:
    """A width of 0 stands for the last column, which is not padded."""
    shown = [index for index, (name, _) in enumerate(columns) if name not in hidden]
    table = [[name for name, _ in columns], *([MISSING if cell is None else str(cell) for cell in row] for row in rows)]
    widths = {index: max(columns[index][1], *(len(row[index]) for row in table)) if columns[index][1] else 0 for index in shown}
    lines = [" ".join(f"{row[index]:<{widths[index]}}" for index in shown) for row in table]
    return [f"{line} " for line in lines] if ends_with_space else lines


_LONGEST_UNQUOTED: Final = 24


def plan_csv(plan: Iterable[tuple[str, TopicPartition, int]], *, has_groups: bool) -> str:
    """The text that --from-file reads; with the groups' names when there are several."""
    rows = [
        [*([_csv_text(name)] if has_groups else []), _csv_text(one.topic), str(one.partition), str(offset)] for name, one, offset in plan
    ]
    return "".join(",".join(row) + "\n" for row in rows)


def _csv_text(text: str) -> str:
    """The text quoted as Kafka's CSV writer quotes it: long texts too, not only texts that need quotes.  Source: Jackson's CsvEncoder."""
    is_plain = len(text) <= _LONGEST_UNQUOTED and not any(letter in '",' or letter < " " for letter in text)
    return text if is_plain else '"' + text.replace('"', '""') + '"'
