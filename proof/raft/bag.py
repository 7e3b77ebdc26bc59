"""● Consensus machines with a bag of messages between them: no loop, no bytes, thousands of lives a minute.

    run(seed)                       raises Broken for what must never be, with the seed and the last events
    run(seed, plant=PLANTS[…])      the same with a mistake planted: it must be found

Every replica has a disk that remembers what was synced, a clock that runs a little fast or slow, and a driver as `raft/driver.py` is one:
elections are persisted before what rests on them leaves, entries are synced later, a crash loses what was not.  Faults: one-way cuts,
bridges and rings, crashes, slow and full disks, disks that are lost (a new directory), changes of voters, snapshots.

After every event: one leader an epoch; one vote an epoch and replica; a leader has all that is committed; committed logs are equal; what
is committed is on the disks of a majority of those who vote; the high watermark never goes back.  At the end all is healed: within
`HEALED_WITHIN_MS` there is a leader, and what it is given is committed everywhere.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import attrgetter
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.raft.events import (
    Answered,
    Entry,
    Fetched,
    LeaderChange,
    Lost,
    Proposal,
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
from moldau.raft.messages import AddVoter, Batch, FetchAnswer, FetchSnapshotAnswer, RaftAnswer, RemoveVoter, Vote, VoteAnswer
from moldau.raft.node import RaftNode
from moldau.raft.roles import NEVER, ElectionState, Leader
from moldau.raft.voters import Address, HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import OffsetAndEpoch

LISTENER: Final = "CONTROLLER"
TIMEOUTS: Final = Timeouts(election_ms=200, fetch_ms=400, election_backoff_max_ms=200, request_ms=400, fetch_max_wait_ms=100)
CHAOS_MS: Final = 5000
HEALED_WITHIN_MS: Final = 30_000
NOTHING: Final = OffsetAndEpoch(0, 0)
CHUNK: Final = b"half of a snapshot"
EVENTS_TOLD: Final = 60
CRASHES_WITH_ELECTION: Final = 0.08
"""Of the elections that go to the disk so many meet a crash on the way."""
FALSE_REFUSALS: Final = 0.005
"""Of the requests so many are refused though somebody listens."""


class Broken(AssertionError):
    """What must never be."""


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
    """What is left when the process ends, or the power."""

    directory_id: UUID
    formatted: VoterChange
    election: ElectionState | None = None
    start: OffsetAndEpoch = NOTHING
    start_voters: VoterChange | None = None
    items: list[Item] = field(default_factory=list)
    synced: int = 0
    """So many items outlive a crash."""
    ghosts: list[Item] = field(default_factory=list)
    """Truncated, and perhaps back after a crash."""
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
    """What `raft/driver.py` is to a machine; plants override its steps."""

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
            is_empty = ready.is_empty
            self.carry_out(ready)
            node.advance(ready, self.now_ms())
            if is_empty:
                break
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
        self.disk.election = ready.election
        self.carry_out(ready)
        node.advance(ready, self.now_ms())
        self.persisting = None
        self.step(Tick())

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
        self.step(Received(self.token, send.request))

    def reply(self, token: int, answer: RaftAnswer) -> None:
        if token not in self.tokens:
            return  # of nobody: the world itself asked
        source, life, to, number = self.tokens.pop(token)
        if isinstance(answer, FetchAnswer) and answer.read_from >= 0:
            first = self.disk.index_of(answer.read_from)
            found = tuple(self.disk.items[first : first + self.world.chance.randint(1, 4)])
            batches = tuple(Batch(one.base_offset, one.next_offset, one.epoch, one.voters, one.kraft_version) for one in found)
            answer = answer._replace(batches=batches, records=found)
        elif isinstance(answer, FetchSnapshotAnswer) and answer.error is ErrorCode.NONE:
            if answer.snapshot_id in self.snapshots:
                answer = answer._replace(size=2 * len(CHUNK), data=CHUNK)
            else:
                answer = answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        elif isinstance(answer, VoteAnswer) and answer.is_granted:
            self.world.granted(self, source, answer)
        self.world.carry(self.number, source, self.world.drivers[source].answered, life, to, number, answer)

    def answered(self, life: int, to: int, number: int, answer: RaftAnswer | None, is_refused: bool = False) -> None:
        if life == self.life:
            self.step(Answered(to, number, answer, is_refused))

    # snapshots

    def write_snapshot(self) -> None:
        """Of all that is committed; the log begins behind it."""
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


class World:
    """See the module."""

    def __init__(self, seed: int, plant: Plant, *, keeps_events: bool = False) -> None:
        self.seed = seed
        self.plant = plant
        self.chance = Random(seed)
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.count = 0
        self.cuts: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.log: list[Item] = []
        """What is committed, from offset 0 on."""
        self.commit_epochs: list[int] = []
        """Of whose leader it was."""
        self.snapshot_voters: dict[OffsetAndEpoch, VoterChange] = {}
        self.lost_disks: dict[ReplicaKey, Disk] = {}
        self.value = 0
        self.told: deque[str] = deque(maxlen=EVENTS_TOLD if keeps_events else 1)
        self.keeps_events = keeps_events
        self.drivers: dict[int, Driver] = {}
        self.is_lossy = True
        count = self.chance.choice((3, 3, 3, 5, 4))
        self.is_dynamic = self.chance.random() < 0.7
        self.directories = {number: UUID(int=number << 32) for number in range(1, count + 2)}
        self.bootstrap = [HostPort(f"n{number}", 9093) for number in range(1, count + 1)]
        voting = VoterSet(self.voter(number) for number in range(1, count + 1))
        formatted = VoterChange(FORMATTED, voting, int(self.is_dynamic))
        for number in range(1, count + 2):  # the last one observes
            self.drivers[number] = plant.driver(self, number, Disk(self.directories[number], formatted))
        self.voter_count = count

    def voter(self, number: int) -> Voter:
        directory = self.directories[number] if self.is_dynamic else UUID(int=0)
        return Voter(number, directory, self.addresses(number))

    def addresses(self, number: int) -> tuple[Address, ...]:
        return (Address(LISTENER, f"n{number}", 9093),)

    # time

    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        self.count += 1
        heappush(self.queue, (when, self.count, call, args))

    def later(self, delay_ms: float, call: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay_ms, call, *args)

    def run_until(self, when: float, is_done: Callable[[], bool] | None = None) -> bool:
        while self.queue and self.queue[0][0] <= when:
            self.now, _, call, args = heappop(self.queue)
            call(*args)
            if is_done is not None and is_done():
                return True
        self.now = max(self.now, when)
        return is_done is not None and is_done()

    def note(self, text: str) -> None:
        if self.keeps_events:
            self.told.append(f"{self.now:9.1f} {text}")

    # the network

    def send(self, source: Driver, send: Send) -> None:
        target = int(send.at.host[1:])
        if isinstance(send.request, Vote) and not send.request.is_pre_vote:
            self.voted(source.key, send.request.epoch, source.key)
        self.note(f"{source.number} -> {target}: {send.request}")
        driver = self.drivers[target]
        is_alarm_false = self.is_lossy and self.chance.random() < FALSE_REFUSALS
        if is_alarm_false or (driver.node is None and self.chance.random() < 0.8):  # nobody listens there
            is_refused = is_alarm_false or self.chance.random() < 0.8
            self.later(1, source.answered, source.life, send.to, send.number, None, is_refused)
            return
        self.carry(source.number, target, driver.received, source.number, source.life, send.to, send)

    def carry(self, source: int, target: int, call: Callable[..., None], *args: Any) -> None:
        if (source, target) in self.cuts or (self.is_lossy and self.chance.random() < 0.02):
            return
        delay_ms = self.chance.random() * 4
        if self.chance.random() < 0.03:
            delay_ms *= self.chance.choice((10, 100))
        self.later(delay_ms, call, *args)

    # what must be

    def fail(self, text: str) -> None:
        raise Broken(f"seed {self.seed}: {text}\n" + "\n".join(self.told))

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        before = self.votes.setdefault((voter, epoch), candidate)
        if before != candidate:
            self.fail(f"{voter} voted for {before} and for {candidate} in epoch {epoch}")

    def granted(self, voter: Driver, candidate: int, answer: VoteAnswer) -> None:
        node = self.drivers[candidate].node
        role = None if node is None else node.role
        if voter.node is not None and voter.node.role.election.has_voted:
            election = voter.node.role.election
            if election.epoch == answer.epoch and election.voted_id == candidate and role is not None:
                self.voted(voter.key, answer.epoch, ReplicaKey(candidate, election.voted_directory_id))

    def truncated(self, driver: Driver, offset: int) -> None:
        self.note(f"{driver.number} truncates to {offset}")

    def check_leader(self, driver: Driver) -> None:
        node = driver.node
        if node is None or not isinstance(node.role, Leader):
            return
        known = self.leaders.setdefault(node.epoch, driver.number)
        if known != driver.number:
            self.fail(f"{known} and {driver.number} both lead epoch {node.epoch}")

    def committed(self, driver: Driver, high_watermark: int) -> None:
        disk = driver.disk
        if high_watermark < driver.checked:
            if high_watermark < disk.start.offset:
                return
            self.fail(f"the high watermark of {driver.number} goes back from {driver.checked} to {high_watermark}")
        number = disk.index_of(driver.checked)
        at = bisect_left(self.log, disk.items[number].base_offset, key=base_of) if number < len(disk.items) else 0
        while number < len(disk.items) and disk.items[number].next_offset <= high_watermark:
            item = disk.items[number]
            if at < len(self.log):
                if self.log[at] != item:
                    self.fail(f"{driver.number} commits {item}, but {self.log[at]} is committed")
            else:
                self.first_committed(driver, item)
            number += 1
            at += 1
            driver.checked = item.next_offset

    def first_committed(self, driver: Driver, item: Item) -> None:
        if self.log and self.log[-1].next_offset != item.base_offset:
            self.fail(f"{driver.number} commits {item} behind {self.log[-1]}")
        node = driver.node
        assert node is not None
        voters = node.history.voters
        having = 0
        for voter in voters.by_id.values():
            disk = self.lost_disks.get(voter.key) or self.drivers[voter.id].disk  # one that is lost since had it when it said so
            if voter.directory_id in (UUID(int=0), disk.directory_id) and disk.synced_offset >= item.next_offset:
                place = disk.index_of(item.base_offset)
                having += item.next_offset <= disk.start.offset or disk.items[place : place + 1] == [item]
        if having < voters.majority:
            self.fail(f"{driver.number} commits {item}, which {having} of the voters {voters} have on their disks")
        self.log.append(item)
        self.commit_epochs.append(node.epoch)

    def check_complete(self, driver: Driver) -> None:
        """A new leader has all that was committed in the epochs before."""
        node, disk = driver.node, driver.disk
        assert node is not None
        count = bisect_left(self.commit_epochs, node.epoch)
        if not count:
            return
        item = self.log[count - 1]
        if disk.end_offset < item.next_offset:
            self.fail(f"{driver.number} leads epoch {node.epoch} without {item}")
        place = disk.index_of(item.base_offset)
        if item.next_offset > disk.start.offset and disk.items[place : place + 1] != [item]:
            self.fail(f"{driver.number} leads epoch {node.epoch} with {disk.items[place : place + 1]} in place of {item}")

    def check(self) -> None:
        for driver in self.drivers.values():
            node = driver.node
            if node is not None and isinstance(node.role, Leader):
                if node.epoch not in self.leaders:
                    self.check_leader(driver)
                    self.check_complete(driver)
                elif self.leaders[node.epoch] != driver.number:
                    self.check_leader(driver)


def run(seed: int, plant: Plant | None = None, *, keeps_events: bool = False) -> World:
    """Errors: Broken."""
    world = World(seed, plant or Plant(), keeps_events=keeps_events)
    try:
        Life(world).run()
    except AssertionError as error:
        if isinstance(error, Broken):
            raise
        raise Broken(f"seed {seed}: {error!r}\n" + "\n".join(world.told)) from error
    return world


class Life:
    """Faults and clients of one world, then its healing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance
        self.lost: set[int] = set()

    def run(self) -> None:
        world = self.world
        for driver in world.drivers.values():
            driver.start()
        world.later(self.chance.random() * 50, self.client)
        world.later(self.chance.random() * 300, self.fault)
        world.run_until(CHAOS_MS, self.look)
        self.heal()

    def look(self) -> bool:
        self.world.check()
        return False

    def client(self) -> None:
        world = self.world
        leaders = [driver for driver in world.drivers.values() if driver.node is not None and driver.node.is_leader]
        if leaders:
            world.value += 1
            values = tuple(b"%d.%d" % (world.value, part) for part in range(self.chance.randint(1, 3)))
            self.chance.choice(leaders).step(Proposal(values))
        world.later(self.chance.random() * 60, self.client)

    def fault(self) -> None:
        world, chance = self.world, self.chance
        if world.now > CHAOS_MS:
            return
        self.chance.choice(FAULTS)(self)
        world.later(chance.random() * chance.choice((20, 300, 600)), self.fault)

    def some(self) -> Driver:
        return self.chance.choice(list(self.world.drivers.values()))

    def leader_or_some(self) -> Driver:
        leaders = [one for one in self.world.drivers.values() if one.node is not None and isinstance(one.node.role, Leader)]
        return self.chance.choice(leaders) if leaders and self.chance.random() < 0.7 else self.some()

    # faults

    def crash(self) -> None:
        driver = self.leader_or_some()
        if driver.node is not None:
            self.world.note(f"{driver.number} crashes")
            driver.crash()
            self.world.later(self.chance.random() * self.chance.choice((5, 100, 800)), self.restart, driver, driver.life)

    def crash_all(self) -> None:
        for driver in self.world.drivers.values():
            if driver.node is not None:
                driver.crash()
                self.world.later(self.chance.random() * 100, self.restart, driver, driver.life)

    def restart(self, driver: Driver, life: int) -> None:
        if driver.life == life and driver.node is None and driver.number not in self.lost:
            self.world.note(f"{driver.number} starts again")
            driver.start()

    def cut_one(self) -> None:
        one, other = self.some().number, self.some().number
        if one != other:
            self.world.note(f"cut {one} -> {other}")
            self.world.cuts.add((one, other))
            if self.chance.random() < 0.5:
                self.world.cuts.add((other, one))

    def isolate(self) -> None:
        driver = self.leader_or_some()
        self.world.note(f"isolate {driver.number}")
        for other in self.world.drivers:
            if other != driver.number:
                if self.chance.random() < 0.8:
                    self.world.cuts.add((driver.number, other))
                if self.chance.random() < 0.8:
                    self.world.cuts.add((other, driver.number))

    def ring(self) -> None:
        """Each reaches its neighbours only."""
        numbers = list(self.world.drivers)
        self.chance.shuffle(numbers)
        count = len(numbers)
        for place, one in enumerate(numbers):
            for step in range(2, count - 1):
                self.world.cuts.add((one, numbers[(place + step) % count]))

    def bridge(self) -> None:
        """Two halves, and one that reaches both."""
        numbers = list(self.world.drivers)
        self.chance.shuffle(numbers)
        half = len(numbers) // 2
        for one in numbers[:half]:
            for other in numbers[half + 1 :]:
                self.world.cuts |= {(one, other), (other, one)}

    def mend(self) -> None:
        self.world.note("mend")
        self.world.cuts.clear()

    def slow_disk(self) -> None:
        self.some().slow_ms = self.chance.choice((1, 5, 50, 300))

    def full_disk(self) -> None:
        driver = self.leader_or_some()
        driver.is_full = True
        self.world.later(self.chance.random() * 500, self.make_room, driver)

    def make_room(self, driver: Driver) -> None:
        driver.is_full = False

    def snapshot(self) -> None:
        driver = self.some()
        driver.write_snapshot()
        self.world.snapshot_voters.update(driver.snapshots)

    def add_voter(self) -> None:
        """One that does not vote, as it is now; perhaps one that has lost its disk since."""
        leader, new = self.leader_or_some(), self.some()
        voter = Voter(new.number, new.disk.directory_id, self.world.addresses(new.number))
        self.world.note(f"{leader.number} is to add {voter.key}")
        leader.step(Received(-1, AddVoter(voter, 2000, waits_for_commit=self.chance.random() < 0.5)))

    def remove_voter(self) -> None:
        """Any of them, the leader too; never so many that lost disks could be a majority."""
        leader = self.leader_or_some()
        if leader.node is None or len(leader.node.voters) < 3:
            return
        voters = list(leader.node.voters.by_id.values())
        gone = [one for one in voters if self.world.drivers[one.id].disk.directory_id != one.directory_id]
        voter = self.chance.choice(gone or voters)
        self.world.note(f"{leader.number} is to remove {voter.key}")
        leader.step(Received(-1, RemoveVoter(voter.key)))

    def replace_voter(self) -> None:
        self.remove_voter()
        self.add_voter()

    def lose_disk(self) -> None:
        """A disk is replaced: the node comes back with nothing, under another directory id.  One of the voters at most."""
        driver = self.some()
        sets = [(one.node.history if one.node is not None else one.disk.history()).voters for one in self.world.drivers.values()]
        if not self.world.is_dynamic or self.lost or len(sets[0]) < 3 or any(one != sets[0] for one in sets):
            return
        self.lost.add(driver.number)
        if driver.node is not None:
            driver.crash()
        self.world.note(f"{driver.number} loses its disk")
        self.world.lost_disks[driver.key] = driver.disk
        directory = UUID(int=(driver.number << 32) + 1)
        driver.disk = Disk(directory, VoterChange(FORMATTED, VoterSet(), 1))
        driver.snapshots = {}
        self.world.later(self.chance.random() * 100, driver.start)

    # the end

    def heal(self) -> None:
        world = self.world
        world.cuts.clear()
        world.is_lossy = False
        for driver in world.drivers.values():
            driver.is_full, driver.slow_ms = False, 3
            if driver.node is None:
                driver.start()
        wanted = world.log[-1].next_offset if world.log else 0

        def is_alive() -> bool:
            world.check()
            if not world.log or world.log[-1].next_offset <= wanted + 1:
                return False
            return all(driver.checked >= wanted for driver in world.drivers.values())

        if not world.run_until(world.now + HEALED_WITHIN_MS, is_alive):
            roles = "; ".join(
                f"{one.number} ends {one.disk.end_offset} voters {one.node.voters} {one.node.role}"
                for one in world.drivers.values()
                if one.node is not None
            )
            world.fail(f"not alive {HEALED_WITHIN_MS} ms after healing, committed {wanted}: {roles}")


FAULTS: Final = (
    Life.crash,
    Life.crash,
    Life.crash,
    Life.crash_all,
    Life.cut_one,
    Life.cut_one,
    Life.isolate,
    Life.isolate,
    Life.ring,
    Life.bridge,
    Life.mend,
    Life.mend,
    Life.mend,
    Life.slow_disk,
    Life.full_disk,
    Life.snapshot,
    Life.snapshot,
    Life.lose_disk,
    Life.add_voter,
    Life.add_voter,
    Life.remove_voter,
    Life.replace_voter,
)
