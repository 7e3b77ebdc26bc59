"""◇ The events of the consensus machine, and its orders to the world: the words between `machine/node.py` and its driver."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from moldau.raft.messages import Payload, RaftAnswer, RaftRequest
from moldau.raft.roles import ElectionState
from moldau.raft.voters import HostPort, VoterSet
from moldau.types import OffsetAndEpoch

MAX_ENTRY_RECORDS: Final = 20_000
"""The most records of one proposal: they are one batch, all or nothing."""


class Chance(Protocol):
    """The part of `random.Random` that the node needs."""

    def randrange(self, stop: int, /) -> int: ...


class Timeouts(NamedTuple):
    """The machine's options, in milliseconds."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500


# Events


class Tick(NamedTuple):
    """Time has passed.  A Tick also starts a node."""


class Proposal(NamedTuple):
    """Records that the leader's machine wants in the log, all or nothing, each already encoded."""

    records: tuple[bytes, ...]


class Synced(NamedTuple):
    """Everything below `end_offset` is on this node's stable storage, and truncated records are gone from it."""

    end_offset: int


class Lost(NamedTuple):
    """The disk was full, so appends from `end_offset` on failed.  A leader resigns, a follower fetches the records again later."""

    end_offset: int


class Resign(NamedTuple):
    """Lead no longer, and do not stand again: the process stops, or its machine has failed."""


class Received(NamedTuple):
    """A request of another replica; its answer comes with this token."""

    token: int
    request: RaftRequest


class Answered(NamedTuple):
    """The answer to the request that was sent with this number; None: it failed.  `is_refused`: no process listened at the address."""

    to: int
    number: int
    answer: RaftAnswer | None
    is_refused: bool = False


class SnapshotInstalled(NamedTuple):
    """The fetched snapshot is whole and on the disk; the log is empty behind it."""

    snapshot_id: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int


class SnapshotRefused(NamedTuple):
    """The fetched snapshot is not whole, or there is no room for it: another attempt comes later."""


class Upgrade(NamedTuple):
    """Change to kraft.version 1.

    The answer is the offset after the change, or INVALID_UPDATE_VERSION, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT.
    """


class SnapshotWritten(NamedTuple):
    """A snapshot of committed records is on the disk; the log begins behind `start`."""

    newest: OffsetAndEpoch
    start: OffsetAndEpoch


Event: TypeAlias = (
    Tick | Proposal | Synced | Lost | Resign | Received | Answered | SnapshotInstalled | SnapshotRefused | SnapshotWritten | Upgrade
)


# Orders


class LeaderChange(NamedTuple):
    """The control records that open an epoch.  A leader also writes the voters if the log does not have them so."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]
    written: VoterSet | None = None
    """The voters, if they and kraft.version are to be written."""
    kraft_version: int = 0

    @property
    def records_count(self) -> int:
        return 1 if self.written is None else 3


class VotersChange(NamedTuple):
    """Control records that change the voters, and kraft.version where it is set."""

    voters: VoterSet
    kraft_version: int | None = None

    @property
    def records_count(self) -> int:
        return 1 if self.kraft_version is None else 2


EntryPayload: TypeAlias = tuple[bytes, ...] | LeaderChange | VotersChange


class Entry(NamedTuple):
    """One batch to append.  `payload` is the records, or the opening of an epoch."""

    base_offset: int
    epoch: int
    payload: EntryPayload

    @property
    def next_offset(self) -> int:
        payload = self.payload
        return self.base_offset + (payload.records_count if isinstance(payload, LeaderChange | VotersChange) else len(payload))


class Fetched(NamedTuple):
    """Batches of the leader to append as they are."""

    base_offset: int
    next_offset: int
    epoch: int
    """The epoch of the leader that they came from."""
    records: Payload | tuple[object, ...] | None


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot that is being fetched.  The first chunk begins a new file; the last one completes it."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: Payload
    is_last: bool


class Send(NamedTuple):
    """A request.  `to` is a voter, or a bootstrap server by a number below -1."""

    to: int
    at: HostPort
    number: int
    request: RaftRequest


class Reply(NamedTuple):
    token: int
    answer: RaftAnswer


@dataclass(slots=True)
class Ready:
    """The orders to the world, to be done in the order of the fields."""

    election: ElectionState | None = None
    truncate_to: int | None = None
    entries: list[Entry | Fetched] = field(default_factory=list)
    snapshot_chunks: list[SnapshotChunk] = field(default_factory=list)
    high_watermark: int | None = None
    """The new high watermark (exclusive), if it moved."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader, if either has changed."""
    sends: list[Send] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (
            self.sends
            or self.replies
            or self.entries
            or self.snapshot_chunks
            or self.high_watermark is not None
            or self.leader is not None
            or self.truncate_to is not None
            or self.election is not None
        )
