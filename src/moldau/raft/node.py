"""◇ The consensus machine of one replica of the metadata log: events in, what the world must do out.

    node.step(event, now_ms)      a tick, a proposal, "your appends are durable"
    ready = node.ready()          election to persist · entries to append · how far is committed · which role
    node.advance(ready)           the driver has done it

The driver does what a `Ready` holds in this order: persist the election, append the entries, tell of the commit.  The same events
give the same `Ready`s: the node knows no clock, no disk and no chance.

Guarantees: an epoch or a vote is acted on only after `advance` of the `Ready` that asked to persist it; the high watermark (exclusive)
never goes back and moves only past an entry of the leader's own epoch; in one epoch a node votes once.

A lone voter elects itself at once.  Messages between voters (Vote, BeginQuorumEpoch, Fetch) are events still to come: until then a set
of more than one voter stays Unattached.  Source: KafkaRaftClient, QuorumState, LeaderState; KIP-595, 853, 996.  Called by `driver.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.raft.roles import ALLOWED, Candidate, ElectionState, Leader, Resigned, Role, Unattached
from moldau.raft.voters import VoterSet

MAX_ENTRY_RECORDS: Final = 20_000
"""Records of one proposal: they are one batch, all or nothing."""


class Tick(NamedTuple):
    """Time has passed; also what starts a node."""


class Proposal(NamedTuple):
    """Records that the leader's machine wants in the log, all or nothing, each already encoded."""

    records: tuple[bytes, ...]


class Synced(NamedTuple):
    """Everything below `end_offset` is on this node's stable storage."""

    end_offset: int


class Resign(NamedTuple):
    """Lead no longer: the process stops, or its machine has failed."""


Event: TypeAlias = Tick | Proposal | Synced | Resign


class LeaderChange(NamedTuple):
    """The control records that open an epoch.  A leader also writes down the voters where the log does not say the same of them."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]
    kraft_version: int | None = None
    """Set when it and the voters are to be written."""

    @property
    def records_count(self) -> int:
        return 1 if self.kraft_version is None else 3


class Entry(NamedTuple):
    """One batch to append.  `payload` is the records, or what the epoch opens with."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    payload: tuple[bytes, ...] | LeaderChange

    @property
    def next_offset(self) -> int:
        return self.base_offset + (self.payload.records_count if isinstance(self.payload, LeaderChange) else len(self.payload))


@dataclass(slots=True)
class Ready:
    """What the world must do, in the order of the fields."""

    election: ElectionState | None = None
    entries: list[Entry] = field(default_factory=list)
    high_watermark: int | None = None
    """Set when it moved (exclusive)."""


class RaftNode:
    """See the module.  `end_offset` is exclusive and includes entries that are still to be appended."""

    def __init__(
        self,
        *,
        node_id: int,
        directory_id: UUID,
        voters: VoterSet,
        kraft_version: int,
        election: ElectionState,
        end_offset: int,
        last_epoch: int,
        has_written_voters: bool,
    ) -> None:
        """`has_written_voters`: the log says that these are the voters, and where they listen."""
        assert last_epoch <= election.epoch or election == ElectionState(), (
            f"the log is at epoch {last_epoch}, the election at {election.epoch}"
        )
        self.node_id: Final = node_id
        self.directory_id: Final = directory_id
        self.voters = voters
        self.kraft_version = kraft_version
        self.has_written_voters = has_written_voters
        self.end_offset = end_offset
        self.high_watermark: int | None = None
        """None until the first commit of a leader's epoch is known."""
        self.role: Role = Unattached(election if election.epoch >= last_epoch else ElectionState(last_epoch))
        self._persisted = election
        self._ready = Ready()

    # What is

    @property
    def epoch(self) -> int:
        return self.role.election.epoch

    @property
    def leader_id(self) -> int:
        return self.role.election.leader_id

    @property
    def is_leader(self) -> bool:
        """May append: its election is on the disk, and it has not resigned."""
        return isinstance(self.role, Leader) and self._persisted == self.role.election

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.node_id, self.directory_id)

    # What happens

    def step(self, event: Event, now_ms: int) -> int | ErrorCode | None:
        """A proposal answers with the offset after it (exclusive), or NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST: then nothing happened."""
        match event:
            case Tick():
                self._tick()
            case Proposal(records):
                return self._propose(records, now_ms)
            case Synced(end_offset):
                self._synced(end_offset)
            case Resign():
                if isinstance(self.role, Leader):
                    self._become(Resigned(self.role.election))
        return None

    def ready(self) -> Ready:
        """What is to be done now; empty when nothing is."""
        return self._ready

    def advance(self, ready: Ready, now_ms: int) -> None:
        assert ready is self._ready, "advance with what ready() gave"
        self._ready = Ready()
        if ready.election is not None:
            self._persisted = ready.election
            self._election_persisted(now_ms)

    # How

    def _tick(self) -> None:
        if isinstance(self.role, Unattached) and self._ready.election is None and self.voters.is_only(self.node_id, self.directory_id):
            vote = ElectionState(self.epoch + 1, voted_id=self.node_id, voted_directory_id=self.directory_id)
            self._become(Candidate(vote, granted={self.node_id}))

    def _election_persisted(self, now_ms: int) -> None:
        """What waited for the disk: the vote counts now, the epoch may be opened."""
        role = self.role
        if isinstance(role, Candidate) and len(role.granted) >= self.voters.majority:
            election = ElectionState(role.election.epoch, leader_id=self.node_id)
            self._become(Leader(election, self.end_offset, tuple(sorted(role.granted))))
        elif isinstance(role, Leader) and self.end_offset == role.epoch_start_offset:
            written = self.kraft_version if self.kraft_version > 0 and not self.has_written_voters else None
            self.has_written_voters = True
            change = LeaderChange(self.node_id, tuple(self.voters.by_id), role.granting_voters, written)
            self._append(change, now_ms)

    def _propose(self, records: tuple[bytes, ...], now_ms: int) -> int | ErrorCode:
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not 0 < len(records) <= MAX_ENTRY_RECORDS:
            return ErrorCode.INVALID_REQUEST
        self._append(records, now_ms)
        return self.end_offset

    def _append(self, payload: tuple[bytes, ...] | LeaderChange, now_ms: int) -> None:
        entry = Entry(self.end_offset, self.epoch, now_ms, payload)
        self._ready.entries.append(entry)
        self.end_offset = entry.next_offset

    def _synced(self, end_offset: int) -> None:
        assert end_offset <= self.end_offset, f"{end_offset} is beyond the log's end {self.end_offset}"
        role = self.role
        if not isinstance(role, Leader):
            return
        role.end_offsets[self.node_id] = end_offset
        replicated = self.voters.replicated_offset(role.end_offsets)
        if replicated > role.epoch_start_offset and (self.high_watermark is None or replicated > self.high_watermark):
            self.high_watermark = self._ready.high_watermark = replicated

    def _become(self, role: Role) -> None:
        assert type(role) in ALLOWED[type(self.role)], f"{type(self.role).__name__} does not become {type(role).__name__}"
        assert role.election.epoch >= self.epoch, "an epoch never goes back"
        self.role = role
        if role.election != self._persisted:
            self._ready.election = role.election


def count_committed(entries: Sequence[Entry], high_watermark: int) -> int:
    """How many of the entries, from the first, lie below the high watermark."""
    for number, entry in enumerate(entries):
        if entry.next_offset > high_watermark:
            assert entry.base_offset >= high_watermark, "a batch is committed whole"
            return number
    return len(entries)
