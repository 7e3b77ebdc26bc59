"""◇ The partitions that a consumer reads: their positions, their buffered records, and the reasons why one is not fetched now.

    unset ──reset or committed──▶ fetching ──▶ buffered ──handed out──▶ …
      ▲                                │
      └───── offset out of range ──────┘

Guarantee: `take` hands out a partition's records in order, each once, and never after the partition was given up.  A seek or a new
assignment voids every fetch that was sent before it.  Called by `fetcher` and `consumer`.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from moldau.clients.records import Fetched, Records
from moldau.types import TopicPartition

UNKNOWN: Final = -1


class Position:
    """The position in one partition.  `offset` None: it has to be found out, from `reset_to` or the reset policy."""

    __slots__ = (
        "buffered",
        "buffered_bytes",
        "fetch_offset",
        "fetching_from",
        "high_watermark",
        "is_paused",
        "last_epoch",
        "last_stable_offset",
        "log_start_offset",
        "offset",
        "preferred_node",
        "preferred_until_ms",
        "reset_to",
        "retry_at_ms",
        "topic_partition",
        "version",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.offset: int | None = None
        self.fetch_offset: int | None = None
        """The offset of the next fetch: behind the buffered records."""
        self.reset_to: int | None = None
        """The timestamp or special value to begin at; None: the policy decides."""
        self.last_epoch = UNKNOWN
        self.version = 0
        """A number that changes with each seek: answers to earlier requests are then ignored."""
        self.is_paused = False
        self.buffered: deque[Records] = deque()
        self.buffered_bytes = 0
        self.fetching_from: int | None = None
        self.preferred_node: int | None = None
        self.preferred_until_ms = 0
        self.retry_at_ms = 0
        self.high_watermark = self.last_stable_offset = self.log_start_offset = UNKNOWN

    def seek(self, offset: int | None, *, reset_to: int | None = None) -> None:
        self.offset = self.fetch_offset = offset
        self.reset_to = reset_to
        self.last_epoch = UNKNOWN
        self.version += 1
        self.buffered.clear()
        self.buffered_bytes = 0
        self.fetching_from = None
        self.retry_at_ms = 0

    def fetched(self, fetched: Fetched) -> None:
        self.buffered.extend(fetched.records)
        self.buffered_bytes += sum(records.size for records in fetched.records)
        self.fetch_offset = fetched.next_offset
        if not self.buffered:
            self.offset = fetched.next_offset

    def taken(self, records: Records) -> None:
        """Note that these records are handed out."""
        self.offset = records.next_offset if self.buffered else self.fetch_offset
        if records.leader_epoch != UNKNOWN:
            self.last_epoch = records.leader_epoch

    def give_back(self, records: Records) -> None:
        """Take records back that were not handed out after all: they come next."""
        self.buffered.appendleft(records)
        self.buffered_bytes += records.size
        self.offset = records.columns.offset(0)


class Positions:
    """The positions of all assigned partitions."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, Position] = {}

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.by_partition

    def __getitem__(self, topic_partition: TopicPartition) -> Position:
        return self.by_partition[topic_partition]

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self.by_partition)

    @property
    def buffered_bytes(self) -> int:
        return sum(position.buffered_bytes for position in self.by_partition.values())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those that stay go on where they are."""
        known = self.by_partition
        self.by_partition = {one: known.get(one) or Position(one) for one in partitions}
        for one, position in known.items():
            if one not in self.by_partition:
                position.seek(None)  # a task that still holds the position hands nothing out

    def take(self, max_records: int | None) -> list[Records]:
        """Buffered records of partitions that are not paused, each partition in its turn."""
        found: list[Records] = []
        left = max_records
        for one, position in list(self.by_partition.items()):
            if position.is_paused or not position.buffered:
                continue
            while position.buffered and (left is None or left > 0):
                records = position.buffered.popleft()
                if left is not None and len(records) > left:
                    records, rest = records.first(left)
                    if rest is not None:
                        position.buffered.appendleft(rest)
                        position.buffered_bytes += 1
                position.buffered_bytes = max(0, position.buffered_bytes - records.size) if position.buffered else 0
                if left is not None:
                    left -= len(records)
                position.taken(records)
                found.append(records)
            # A served partition goes to the end of the order.
            self.by_partition[one] = self.by_partition.pop(one)
            if left is not None and left <= 0:
                break
        return found

    def offsets(self) -> dict[TopicPartition, tuple[int, int]]:
        """(next offset, leader epoch of the record before) of the partitions that have a position."""
        return {one: (position.offset, position.last_epoch) for one, position in self.by_partition.items() if position.offset is not None}


def lag_of(position: Position, *, reads_committed: bool) -> int | None:
    """Offsets from the position to the end.  None: nothing was fetched yet."""
    end = position.last_stable_offset if reads_committed else position.high_watermark
    return None if end == UNKNOWN or position.offset is None else max(0, end - position.offset)
