"""◇ The machine that the metadata log drives, as the driver sees it; and what the driver tells of the quorum.  See `driver.py`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from moldau.raft.voters import ReplicaKey, VoterSet
from moldau.types import OffsetAndEpoch


class CommittedBatch(NamedTuple):
    """One batch of the machine's records, in order.  Control batches come with no records: they too move the offset."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[bytes | memoryview]
    next_offset: int
    """Exclusive."""
    size: int


class ReplicaStatus(NamedTuple):
    """One that has the log or fetches it.  Times are of the wall clock, -1 for never."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumStatus(NamedTuple):
    """What DescribeQuorum tells; offsets are exclusive."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: VoterSet
    replicas: Sequence[ReplicaStatus]
    """The voters."""
    observers: Sequence[ReplicaStatus]


class Listener(Protocol):
    """The machine that the log drives."""

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        """Everything below the snapshot's offset; also in mid-life, in place of all that was told before."""
        ...

    def committed(self, batches: Sequence[CommittedBatch]) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Told when another node leads or nobody does (-1), and when this node leads and everything before its epoch has been seen."""
        ...

    def caught_up(self) -> None:
        """Told once: all that was committed when this node learned of it first has been seen."""
        ...
