"""◇ The driver's interface to the machine that replays the metadata log, and the quorum's status.  See `driver.py`."""

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
    """The offset after the batch (exclusive)."""
    size: int


class ReplicaStatus(NamedTuple):
    """A replica that has the log or fetches it.  Times are of the wall clock, -1 for never."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumStatus(NamedTuple):
    """The content of DescribeQuorum; offsets are exclusive."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: VoterSet
    replicas: Sequence[ReplicaStatus]
    """The voters."""
    observers: Sequence[ReplicaStatus]


class Listener(Protocol):
    """The machine that replays the log."""

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        """Load everything below the snapshot's offset; in mid-life it replaces all that was loaded before."""
        ...

    def committed(self, batches: Sequence[CommittedBatch]) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Called when another node leads or none does (-1), and when this node leads and everything before its epoch was loaded."""
        ...

    def caught_up(self) -> None:
        """Called once, when all records have been loaded that were committed when this node first learned of them."""
        ...
