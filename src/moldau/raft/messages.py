"""◇ What replicas of the metadata log say to each other, without the form that it has on the wire: see `wire.py` for that.

Every answer names the epoch of its sender and the leader that it knows, `leader_at` where that leader listens.  Offsets are exclusive ends.
Source: KIP-595, 630, 853, 996, 1166.
"""

from typing import Final, NamedTuple, TypeAlias

from moldau.errors import ErrorCode
from moldau.raft.voters import HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import NO_LEADER, OffsetAndEpoch

Payload: TypeAlias = bytes | bytearray | memoryview

UNKNOWN_HIGH_WATERMARK: Final = (1 << 63) - 1
"""What a follower says that does not want to be told when the high watermark moves alone."""


class Vote(NamedTuple):
    """Ask for a vote, or (pre-vote) whether one would be given."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey | None
    """Who is asked; None in requests of old versions."""
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
    """`leader_id` leads its epoch no more; who should try to follow, best first."""

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
    """Where a voter listens and what it can speak is not what the leader's voters say."""

    epoch: int
    voter: Voter


class AddVoter(NamedTuple):
    """Let it vote.  With `waits_for_commit` the answer comes once the change cannot be lost."""

    voter: Voter
    timeout_ms: int
    waits_for_commit: bool = True


class RemoveVoter(NamedTuple):
    """Let it vote no more."""

    voter: ReplicaKey


class AskVersions(NamedTuple):
    """What can you speak?  Of one that is to become a voter."""


RaftRequest: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot | UpdateVoter | AddVoter | RemoveVoter | AskVersions


class VoteAnswer(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None
    is_granted: bool = False


class EpochAnswer(NamedTuple):
    """To BeginEpoch, EndEpoch and UpdateVoter."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None


class ChangeAnswer(NamedTuple):
    """To AddVoter and RemoveVoter."""

    error: ErrorCode
    detail: str | None = None


class VersionsAnswer(NamedTuple):
    """To AskVersions: the range of kraft.version."""

    error: ErrorCode
    min_kraft_version: int = 0
    max_kraft_version: int = 0


class Batch(NamedTuple):
    """What the machine must know of a batch that it fetched."""

    base_offset: int
    next_offset: int
    epoch: int
    voters: VoterSet | None = None
    kraft_version: int | None = None


class FetchAnswer(NamedTuple):
    """Records from the fetch's offset on, or where the logs part, or which snapshot to fetch instead."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    leader_at: HostPort | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    batches: tuple[Batch, ...] = ()
    """What `records` holds, for the one who fetched."""
    records: Payload | tuple[object, ...] | None = None
    read_from: int = -1
    """For the leader's driver: the records are to be read from this offset on."""


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
