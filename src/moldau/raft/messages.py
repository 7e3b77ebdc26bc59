"""◇ The messages between replicas of the metadata log, without their wire format: see `wire.py` for that.

Every answer names its sender's epoch, the known leader, and in `leader_at` that leader's address.  Offsets are exclusive ends.
Source: KIP-595, 630, 853, 996, 1166.
"""

from typing import Final, NamedTuple, TypeAlias

from moldau.errors import ErrorCode
from moldau.raft.voters import HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import NO_LEADER, OffsetAndEpoch

Payload: TypeAlias = bytes | bytearray | memoryview

UNKNOWN_HIGH_WATERMARK: Final = (1 << 63) - 1
"""The high watermark in a fetch of a follower that does not want to be told when only the high watermark moves."""


class Vote(NamedTuple):
    """Ask for a vote, or (pre-vote) whether one would be given."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey | None
    """The voter that is asked; None in requests of old versions."""
    last_epoch: int
    end_offset: int
    is_pre_vote: bool


class BeginEpoch(NamedTuple):
    """`leader_id` leads this epoch."""

    epoch: int
    leader_id: int
    leader_at: HostPort | None
    voter: ReplicaKey | None


class EndEpoch(NamedTuple):
    """`leader_id` leads its epoch no more.  The request names its preferred successors, best first."""

    epoch: int
    leader_id: int
    leader_at: HostPort | None
    preferred: tuple[ReplicaKey, ...]


class Fetch(NamedTuple):
    """Everything below `offset` is on the replica's disk, the last of it of `last_epoch`."""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    high_watermark: int
    max_wait_ms: int


class FetchSnapshot(NamedTuple):
    """The bytes of a snapshot from `position` on."""

    epoch: int
    replica: ReplicaKey
    snapshot_id: OffsetAndEpoch
    position: int


class UpdateVoter(NamedTuple):
    """A voter tells that its address or its kraft.version range differ from the leader's entry."""

    epoch: int
    voter: Voter


class AddVoter(NamedTuple):
    """Make a replica a voter.  With `waits_for_commit` the answer comes once the change cannot be lost."""

    voter: Voter
    timeout_ms: int
    waits_for_commit: bool = True


class RemoveVoter(NamedTuple):
    """Make a replica a voter no more."""

    voter: ReplicaKey


class AskVersions(NamedTuple):
    """Ask a future voter for its versions."""


RaftRequest: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot | UpdateVoter | AddVoter | RemoveVoter | AskVersions


class VoteAnswer(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None
    is_granted: bool = False


class EpochAnswer(NamedTuple):
    """The answer to BeginEpoch, EndEpoch and UpdateVoter."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None


class ChangeAnswer(NamedTuple):
    """The answer to AddVoter and RemoveVoter."""

    error: ErrorCode
    detail: str | None = None


class VersionsAnswer(NamedTuple):
    """The answer to AskVersions: the range of kraft.version."""

    error: ErrorCode
    min_kraft_version: int = 0
    max_kraft_version: int = 0


class Batch(NamedTuple):
    """The machine's knowledge of a batch that it fetched."""

    base_offset: int
    next_offset: int
    epoch: int
    voters: VoterSet | None = None
    kraft_version: int | None = None


class FetchAnswer(NamedTuple):
    """The answer to a fetch: records from its offset on, or the point where the logs part, or the snapshot to fetch instead."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    batches: tuple[Batch, ...] = ()
    """The batches in `records`, for the fetching replica."""
    records: Payload | tuple[object, ...] | None = None
    read_from: int = -1
    """For the leader's driver: the offset from which to read the records."""


class FetchSnapshotAnswer(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(-1, -1)
    size: int = -1
    position: int = -1
    data: Payload | None = None


RaftAnswer: TypeAlias = VoteAnswer | EpochAnswer | FetchAnswer | FetchSnapshotAnswer | ChangeAnswer | VersionsAnswer
