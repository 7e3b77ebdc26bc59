"""● One replica of the metadata log in the laboratory: its disk, and a driver that does the work of `raft/driver.py`.

A disk remembers which items were synced; a clock runs a little fast or slow.  An election is persisted before messages that rest on it
leave.  Entries are synced later, and a crash loses those that were not.  `world.py` and `life.py` call this module; `plants.py` overrides
steps of the driver.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.raft.events import (
    Answered,
    Entry,
    Fetched,
    LeaderChange,
    Lost,
    Ready,
    Received,
    Send,
    SnapshotInstalled,
    SnapshotWritten,
    Synced,
    Tick,
    Timeouts,
    VotersChange,
)
from moldau.raft.history import FORMATTED, LogHistory, VoterChange
from moldau.raft.machine.node import RaftNode
from moldau.raft.messages import Batch, FetchAnswer, FetchSnapshotAnswer, RaftAnswer, Vote, VoteAnswer
from moldau.raft.roles import NEVER, Candidate, ElectionState
from moldau.raft.voters import ReplicaKey, VoterSet
from moldau.types import OffsetAndEpoch

if TYPE_CHECKING:
    from proof.raft.world import World

TIMEOUTS: Final = Timeouts(election_ms=200, fetch_ms=400, election_backoff_max_ms=200, request_ms=400, fetch_max_wait_ms=100)
NOTHING: Final = OffsetAndEpoch(0, 0)
CHUNK: Final = b"half of a snapshot"
CRASHES_WITH_ELECTION: Final = 0.08
"""The share of elections on their way to the disk that meet a crash."""
CRASHES_OF_CANDIDATES: Final = 0.1
CANDIDATE_LIVES_MS: Final = 8
"""CRASHES_OF_CANDIDATES is the share of candidates that crash within this time after they asked for votes.  They are back at once."""


class Broken(AssertionError):
    """A promise was broken."""


class Item(NamedTuple):
    """A batch as it lies in a log."""

    base_offset: int
    next_offset: int
    epoch: int
    payload: object
    voters: VoterSet | None = None
    kraft_version: int | None = None


base_of = attrgetter("base_offset")


@dataclass(slots=True)
class Disk:
    """The files that are left when the process ends or the power fails."""

    directory_id: UUID
    formatted: VoterChange
    election: ElectionState | None = None
    start: OffsetAndEpoch = NOTHING
    start_voters: VoterChange | None = None
    items: list[Item] = field(default_factory=list)
    synced: int = 0
    """The number of items that outlive a crash."""
    ghosts: list[Item] = field(default_factory=list)
    """The truncated items that may be back after a crash."""
    truncations: int = 0

    @property
    def end_offset(self) -> int:
        return self.items[-1].next_offset if self.items else self.start.offset

    @property
    def synced_offset(self) -> int:
        return self.items[self.synced - 1].next_offset if self.synced else self.start.offset

    def index_of(self, offset: int) -> int:
        return bisect_left(self.items, offset, key=base_of)

    def truncate(self, offset: int) -> None:
        number = self.index_of(offset)
        if number < self.synced:
            self.ghosts = self.items[number : self.synced]
        del self.items[number:]
        self.synced = min(self.synced, number)
        self.truncations += 1

    def crash(self, chance: Random) -> None:
        if self.ghosts and len(self.items) == self.synced and chance.random() < 0.5:
            self.items += self.ghosts
        else:
            del self.items[chance.randint(self.synced, len(self.items)) :]
        self.ghosts = []
        self.synced = len(self.items)

    def history(self) -> LogHistory:
        epochs: list[tuple[int, int]] = []
        for item in self.items:
            if not epochs or epochs[-1][0] < item.epoch:
                epochs.append((item.epoch, item.base_offset))
        history = LogHistory(start=self.start, end_offset=self.end_offset, epochs=epochs, changes=[self.start_voters or self.formatted])
        for item in self.items:
            if item.voters is not None or item.kraft_version is not None:
                history.change_voters(item.base_offset, item.voters, item.kraft_version)
        return history


class Driver:
    """The work of `raft/driver.py` for a machine; plants override its steps."""

    def __init__(self, world: "World", number: int, disk: Disk) -> None:
        self.world = world
        self.number = number
        self.disk = disk
        self.life = 0
        self.node: RaftNode | None = None
        self.rate = world.chance.uniform(0.8, 1.25)
        self.skew = world.chance.randrange(100_000)
        self.slow_ms = 3
        self.is_full = False
        self.persisting: Ready | None = None
        self.syncing = False
        self.tick_at = -1.0
        self.tokens: dict[int, tuple[int, int, int, int]] = {}
        self.pre_votes: set[int] = set()
        self.token = 0
        self.checked = 0
        self.snapshots: dict[OffsetAndEpoch, VoterChange] = {}

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.number, self.disk.directory_id)

    def now_ms(self) -> int:
        return int(self.world.now * self.rate) + self.skew

    # life

    def start(self) -> None:
        disk = self.disk
        may_vote = disk.election is not None or disk.end_offset == 0
        history = disk.history()
        self.node = self.world.plant.node(
            self.key,
            history,
            election=disk.election or ElectionState(),
            chance=self.world.chance,
            now_ms=self.now_ms(),
            timeouts=TIMEOUTS,
            may_vote=may_vote or history.voters.is_only(*self.key),
            addresses=self.world.addresses(self.number),
            bootstrap=self.world.bootstrap,
        )
        self.checked = disk.start.offset
        self.step(Tick())

    def crash(self) -> None:
        self.life += 1
        self.node = None
        if self.persisting is not None and self.world.chance.random() < 0.5:
            self.disk.election = self.persisting.election
        self.persisting, self.syncing, self.tick_at = None, False, -1.0
        self.tokens.clear()
        self.disk.crash(self.world.chance)

    def crash_for_a_moment(self, life: int) -> None:
        if life == self.life and self.node is not None:
            self.crash()
            self.world.later(self.world.chance.random() * 10, self.start_again, self.life)

    def start_again(self, life: int) -> None:
        if life == self.life and self.node is None:
            self.start()

    # the loop

    def step(self, event: Any) -> Any:
        node = self.node
        if node is None:
            return None
        said = node.step(event, self.now_ms())
        self.work()
        return said

    def work(self) -> None:
        node = self.node
        assert node is not None
        while self.persisting is None:
            ready = node.ready()
            if ready.election is not None:
                self.persist(ready)
                return
            if ready.is_empty:
                node.advance(ready, self.now_ms())
                break
            self.carry_out(ready)
            node.advance(ready, self.now_ms())
        if self.persisting is None:
            self.set_timer(node)

    def persist(self, ready: Ready) -> None:
        self.persisting = ready
        delay_ms = self.world.chance.random() * self.slow_ms
        if self.world.is_lossy and self.world.chance.random() < CRASHES_WITH_ELECTION:
            self.world.later(delay_ms * self.world.chance.random(), self.crash_for_a_moment, self.life)
        self.world.later(delay_ms, self.persisted, self.life)

    def persisted(self, life: int) -> None:
        ready, node = self.persisting, self.node
        if life != self.life or ready is None or node is None:
            return
        assert ready.election is not None
        self.world.persisted(self, self.disk.election or ElectionState(), ready.election)
        self.disk.election = ready.election
        self.carry_out(ready)
        node.advance(ready, self.now_ms())
        self.persisting = None
        self.step(Tick())
        is_candidate = self.node is not None and isinstance(self.node.role, Candidate)
        if is_candidate and self.world.is_lossy and self.world.chance.random() < CRASHES_OF_CANDIDATES:
            self.world.later(self.world.chance.random() * CANDIDATE_LIVES_MS, self.crash_for_a_moment, self.life)

    def set_timer(self, node: RaftNode) -> None:
        due_ms = node.next_due_ms
        if due_ms >= NEVER:
            return
        at = max((due_ms - self.skew + 1) / self.rate, self.world.now)
        if self.tick_at < 0 or at < self.tick_at:
            self.tick_at = at
            self.world.at(at, self.tick, self.life, at)

    def tick(self, life: int, at: float) -> None:
        if life == self.life and at == self.tick_at:
            self.tick_at = -1.0
            self.step(Tick())

    def carry_out(self, ready: Ready) -> None:
        if ready.truncate_to is not None:
            self.world.truncated(self, ready.truncate_to)
            self.disk.truncate(ready.truncate_to)
            self.want_sync()
        for entry in list(ready.entries):
            if not self.append(entry):
                break
        for chunk in ready.snapshot_chunks:
            if chunk.is_last:
                self.install(chunk.snapshot_id)
        if ready.high_watermark is not None:
            self.world.committed(self, ready.high_watermark)
        for send in ready.sends:
            self.world.send(self, send)
        for reply in ready.replies:
            self.reply(reply.token, reply.answer)

    def append(self, entry: Entry | Fetched) -> bool:
        if self.is_full:
            assert self.node is not None
            self.node.step(Lost(self.disk.end_offset), self.now_ms())
            return False
        if isinstance(entry, Fetched):
            assert isinstance(entry.records, tuple)
            items: list[Item] = list(entry.records)  # type: ignore[arg-type]
        else:
            items = [item_of(entry)]
        if items[0].base_offset != self.disk.end_offset:
            raise Broken(f"{self.number} appends at {items[0].base_offset}, its log ends at {self.disk.end_offset}")
        self.disk.items += items
        self.want_sync()
        return True

    def want_sync(self) -> None:
        if not self.syncing:
            self.syncing = True
            self.begin_sync(self.life)

    def begin_sync(self, life: int) -> None:
        delay_ms = self.world.chance.random() * self.slow_ms
        self.world.later(delay_ms, self.end_sync, life, len(self.disk.items), self.disk.truncations)

    def end_sync(self, life: int, count: int, truncations: int) -> None:
        if life != self.life or self.node is None:
            return
        if truncations != self.disk.truncations:
            self.begin_sync(life)
            return
        if self.persisting is not None:
            self.world.later(1, self.end_sync, life, count, truncations)
            return
        self.disk.synced, self.disk.ghosts = max(self.disk.synced, count), []
        self.syncing = False
        if count < len(self.disk.items):
            self.want_sync()
        self.step(Synced(self.disk.synced_offset))

    # messages

    def received(self, source: int, life: int, to: int, send: Send) -> None:
        if self.node is None:
            return
        self.token += 1
        self.tokens[self.token] = source, life, to, send.number
        if isinstance(send.request, Vote) and send.request.is_pre_vote:
            self.pre_votes.add(self.token)
        self.step(Received(self.token, send.request))

    def reply(self, token: int, answer: RaftAnswer) -> None:
        if token not in self.tokens:
            return  # no replica waits for this answer: the world itself asked
        source, life, to, number = self.tokens.pop(token)
        if isinstance(answer, FetchAnswer) and answer.read_from >= 0:
            first = self.disk.index_of(answer.read_from)
            found = tuple(self.disk.items[first : first + self.world.chance.choice((1, 1, 2, 4))])
            batches = tuple(Batch(one.base_offset, one.next_offset, one.epoch, one.voters, one.kraft_version) for one in found)
            answer = answer._replace(batches=batches, records=found)
        elif isinstance(answer, FetchSnapshotAnswer) and answer.error is ErrorCode.NONE:
            if answer.snapshot_id in self.snapshots:
                answer = answer._replace(size=2 * len(CHUNK), data=CHUNK)
            else:
                answer = answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        elif isinstance(answer, VoteAnswer) and answer.is_granted and token not in self.pre_votes:
            self.world.granted(self, source, answer)
        self.world.carry(self.number, source, self.world.drivers[source].answered, life, to, number, answer)

    def answered(self, life: int, to: int, number: int, answer: RaftAnswer | None, is_refused: bool = False) -> None:
        if life == self.life:
            self.step(Answered(to, number, answer, is_refused))

    # snapshots

    def write_snapshot(self) -> None:
        """Write a snapshot of all committed records.  The log then begins behind it."""
        node, disk = self.node, self.disk
        if node is None or self.persisting is not None or not node.high_watermark or node.high_watermark <= disk.start.offset:
            return
        number = disk.index_of(node.high_watermark)
        if not number or disk.items[number - 1].next_offset != node.high_watermark or number > disk.synced:
            return
        snapshot_id = OffsetAndEpoch(node.high_watermark, disk.items[number - 1].epoch)
        change = node.history.voters_at(snapshot_id.offset)
        self.adopt(snapshot_id, change, disk.items[number:], disk.synced - number)
        self.step(SnapshotWritten(snapshot_id, snapshot_id))

    def adopt(self, snapshot_id: OffsetAndEpoch, change: VoterChange, rest: list[Item], synced: int) -> None:
        self.snapshots = {snapshot_id: change}
        self.disk.start, self.disk.items, self.disk.synced, self.disk.ghosts = snapshot_id, rest, synced, []
        self.disk.start_voters = change if change.offset == FORMATTED else change._replace(offset=snapshot_id.offset - 1)
        self.disk.truncations += 1
        if self.syncing:
            self.want_sync()

    def install(self, snapshot_id: OffsetAndEpoch) -> None:
        self.world.later(self.slow_ms, self.installed, self.life, snapshot_id)

    def installed(self, life: int, snapshot_id: OffsetAndEpoch) -> None:
        if life != self.life or self.node is None:
            return
        if self.persisting is not None:
            self.world.later(1, self.installed, life, snapshot_id)
            return
        change = self.world.snapshot_voters[snapshot_id]
        self.adopt(snapshot_id, change, [], 0)
        self.checked = max(self.checked, snapshot_id.offset)
        is_told = change.offset != FORMATTED
        self.step(SnapshotInstalled(snapshot_id, change.voters if is_told else None, change.kraft_version))
        self.want_sync()


def item_of(entry: Entry) -> Item:
    voters, kraft_version = None, None
    match entry.payload:
        case LeaderChange():
            voters = entry.payload.written
            kraft_version = None if voters is None else entry.payload.kraft_version
        case VotersChange():
            voters, kraft_version = entry.payload.voters, entry.payload.kraft_version
    return Item(entry.base_offset, entry.next_offset, entry.epoch, entry.payload, voters, kraft_version)


class Plant:
    """A mistake, or none."""

    node: Callable[..., RaftNode] = RaftNode
    driver: type[Driver] = Driver
    name = "none"
