"""◇ What happens to the consensus machine, and what it wants done: the words between `machine/node.py` and its driver."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from moldau.raft.messages import Payload, RaftAnswer, RaftRequest
from moldau.raft.roles import ElectionState
from moldau.raft.voters import HostPort, VoterSet
from moldau.types import OffsetAndEpoch

MAX_ENTRY_RECORDS: Final = 20_000
"""Records of one proposal: they are one batch, all or nothing."""


class Chance(Protocol):
    """What the node needs of a `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...


class Timeouts(NamedTuple):
    """The options that the machine goes by, in milliseconds."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500


# Events


class Tick(NamedTuple):
    """Time has passed; also what starts a node."""


class Proposal(NamedTuple):
    """Records that the leader's machine wants in the log, all or nothing, each already encoded."""

    records: tuple[bytes, ...]


class Synced(NamedTuple):
    """Everything below `end_offset` is on this node's stable storage, and what was truncated is gone from it."""

    end_offset: int


class Lost(NamedTuple):
    """What was to be appended from `end_offset` on could not be: the disk is full.  A leader resigns, a follower fetches it again later."""

    end_offset: int


class Resign(NamedTuple):
    """Lead no longer, and do not stand again: the process stops, or its machine has failed."""


class Received(NamedTuple):
    """A request of another replica; its answer comes with this token."""

    token: int
    request: RaftRequest


class Answered(NamedTuple):
    """To the request that was sent with this number; no answer: it failed.  `is_refused`: nobody listens where it was to go."""

    to: int
    number: int
    answer: RaftAnswer | None
    is_refused: bool = False


class SnapshotInstalled(NamedTuple):
    """The snapshot that was fetched is whole and on the disk; the log is empty behind it."""

    snapshot_id: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int


class SnapshotRefused(NamedTuple):
    """The snapshot that was fetched is not whole, or there is no room for it: another attempt comes later."""


class Upgrade(NamedTuple):
    """To kraft.version 1.  Answers with the offset after it, or INVALID_UPDATE_VERSION, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT."""


class SnapshotWritten(NamedTuple):
    """A snapshot of what was committed is on the disk; the log begins behind `start`."""

    newest: OffsetAndEpoch
    start: OffsetAndEpoch


Event: TypeAlias = (
    Tick | Proposal | Synced | Lost | Resign | Received | Answered | SnapshotInstalled | SnapshotRefused | SnapshotWritten | Upgrade
)


# What is to be done


class LeaderChange(NamedTuple):
    """The control records that open an epoch.  A leader also writes down the voters where the log does not say the same of them."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]
    written: VoterSet | None = None
    """Set when they and kraft.version are to be written."""
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
    """One batch to append.  `payload` is the records, or what the epoch opens with."""

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
    """Of the leader that they came from."""
    records: Payload | tuple[object, ...] | None


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot that is being fetched; the first chunk begins a new file, with the last it is whole."""

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
    """What the world must do, in the order of the fields."""

    election: ElectionState | None = None
    truncate_to: int | None = None
    entries: list[Entry | Fetched] = field(default_factory=list)
    snapshot_chunks: list[SnapshotChunk] = field(default_factory=list)
    high_watermark: int | None = None
    """Set when it moved (exclusive)."""
    leader: tuple[int, int] | None = None
    """Id and epoch, set when either is another than before."""
    sends: list[Send] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return self == EMPTY


EMPTY: Final = Ready()
