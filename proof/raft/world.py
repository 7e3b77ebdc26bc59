"""● The replicas of one life, the network between them, and the promises that must hold after every event."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final
from uuid import UUID

from moldau.raft.events import Send
from moldau.raft.history import FORMATTED, VoterChange
from moldau.raft.messages import Fetch, Vote, VoteAnswer
from moldau.raft.roles import Candidate, ElectionState, Leader
from moldau.raft.voters import Address, HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import OffsetAndEpoch
from proof.raft.replica import Broken, Disk, Driver, Item, Plant, base_of

LISTENER: Final = "CONTROLLER"
EVENTS_TOLD: Final = 60
FALSE_REFUSALS: Final = 0.005
"""The share of requests that are refused though a process listens."""


class World:
    """See the module.  `on_elected` is called with every new leader."""

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
        """The committed log, from offset 0 on."""
        self.commit_epochs: list[int] = []
        """For each item of the log, the epoch of the leader that committed it."""
        self.snapshot_voters: dict[OffsetAndEpoch, VoterChange] = {}
        self.lost_disks: dict[ReplicaKey, Disk] = {}
        self.value = 0
        self.told: deque[str] = deque(maxlen=EVENTS_TOLD if keeps_events else 1)
        self.keeps_events = keeps_events
        self.drivers: dict[int, Driver] = {}
        self.is_lossy = True
        self.on_elected: Callable[[Driver], None] = lambda driver: None
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
        self.check_sent(source, send.request)
        if isinstance(send.request, Vote) and not send.request.is_pre_vote:
            self.voted(source.key, send.request.epoch, source.key)
        if self.keeps_events:
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

    # promises

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
                if (voter.disk.election or ElectionState())[2:] != election[2:]:
                    self.fail(f"the vote of {voter.key} for {candidate} in epoch {answer.epoch} leaves before it is on the disk")
                is_asked = node is not None and isinstance(role, Candidate) and node.epoch == answer.epoch
                if is_asked and node is not None and node.voters.key_of(voter.key) is None:
                    self.fail(f"{voter.key} votes for {candidate}, of whose voters it is none: {node.voters}")

    def persisted(self, driver: Driver, before: ElectionState, now: ElectionState) -> None:
        """Check that an epoch's leader and vote stay on the disk through the epoch."""
        if now.epoch < before.epoch:
            self.fail(f"{driver.number} goes back from epoch {before.epoch} to {now.epoch}")
        if now.epoch == before.epoch:
            if before.has_leader and now.leader_id != before.leader_id:
                self.fail(f"{driver.number} forgets that {before.leader_id} leads epoch {now.epoch}: {now}")
            if before.has_voted and now[2:] != before[2:] and now.leader_id != driver.number:  # a leader has voted for itself
                self.fail(f"{driver.number} forgets its vote of epoch {now.epoch}: {before} becomes {now}")

    def check_sent(self, source: Driver, request: object) -> None:
        """Check that a replica reports only records that are on its disk."""
        end_offset = request.end_offset if isinstance(request, Vote) else request.offset if isinstance(request, Fetch) else 0
        if end_offset > source.disk.synced_offset:
            self.fail(f"{source.number} says that it has the log up to {end_offset}, its disk has {source.disk.synced_offset}: {request}")
        if isinstance(request, Fetch) and source.disk.ghosts:
            self.fail(f"{source.number} fetches, and what it truncated may come back: {request}")

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
        if high_watermark > disk.end_offset:
            self.fail(f"{driver.number} takes everything below {high_watermark} for committed, its log ends at {disk.end_offset}")
        if high_watermark < driver.checked:
            if high_watermark < disk.start.offset:
                return
            self.fail(f"the high watermark of {driver.number} goes back from {driver.checked} to {high_watermark}")
        self.check_commits_its_own(driver, high_watermark)
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

    def check_commits_its_own(self, driver: Driver, high_watermark: int) -> None:
        """Check that a leader counts copies only of entries of its own epoch."""
        node, disk = driver.node, driver.disk
        assert node is not None
        number = disk.index_of(high_watermark)
        if isinstance(node.role, Leader) and number and disk.items[number - 1].epoch != node.epoch:
            self.fail(f"{driver.number} leads epoch {node.epoch} and commits {disk.items[number - 1]} by counting")

    def first_committed(self, driver: Driver, item: Item) -> None:
        if self.log and self.log[-1].next_offset != item.base_offset:
            self.fail(f"{driver.number} commits {item} behind {self.log[-1]}")
        node = driver.node
        assert node is not None
        voters = node.history.voters
        having = 0
        for voter in voters.by_id.values():
            disk = self.lost_disks.get(voter.key) or self.drivers[voter.id].disk  # a disk that was lost since had the item in time
            if voter.directory_id in (UUID(int=0), disk.directory_id) and disk.synced_offset >= item.next_offset:
                place = disk.index_of(item.base_offset)
                having += item.next_offset <= disk.start.offset or disk.items[place : place + 1] == [item]
        if having < voters.majority:
            self.fail(f"{driver.number} commits {item}, which {having} of the voters {voters} have on their disks")
        self.log.append(item)
        self.commit_epochs.append(node.epoch)

    def check_complete(self, driver: Driver) -> None:
        """Check that a new leader has all items that were committed in the epochs before."""
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
            if driver.node is None or not isinstance(role := driver.node.role, Leader):
                continue
            known = self.leaders.get(role.election.epoch)
            if known is None:
                self.check_leader(driver)
                self.check_complete(driver)
                self.on_elected(driver)
            elif known != driver.number:
                self.check_leader(driver)
