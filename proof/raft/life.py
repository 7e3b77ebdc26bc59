"""● The events of one life of replicas: faults and a client, then healing."""

from typing import Final
from uuid import UUID

from moldau.raft.events import Proposal, Received, Tick
from moldau.raft.history import FORMATTED, VoterChange
from moldau.raft.messages import AddVoter, RemoveVoter
from moldau.raft.roles import Leader
from moldau.raft.voters import Voter, VoterSet
from proof.raft.replica import Disk, Driver
from proof.raft.world import World

CHAOS_MS: Final = 5000
HEALED_WITHIN_MS: Final = 30_000
HUNTED: Final = 0.5
"""The share of lives in which new leaders are hunted."""


class Life:
    """The faults and clients of one world, then its healing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance
        self.lost: set[int] = set()

    def run(self) -> None:
        world = self.world
        for driver in world.drivers.values():
            driver.start()
        if self.chance.random() < HUNTED:
            world.on_elected = self.hunt
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

    def hunt(self, leader: Driver) -> None:
        """Kill or silence a new leader before it has done much, so that epochs follow each other with few entries."""
        if not self.world.is_lossy:
            return
        fate = self.chance.random()
        if fate < 0.4:
            self.world.later(self.chance.random() * 20, self.crash_this, leader, leader.life)
        elif fate < 0.5:
            self.world.later(self.chance.random() * 20, self.silence, leader)

    def crash_this(self, driver: Driver, life: int) -> None:
        if driver.node is not None and driver.life == life and self.world.is_lossy:
            self.world.note(f"{driver.number} crashes soon after it was elected")
            driver.crash()
            self.world.later(self.chance.random() * self.chance.choice((5, 100, 800)), self.restart, driver, driver.life)

    def silence(self, driver: Driver) -> None:
        """Cut off everything that a replica sends, for a while."""
        cuts = {(driver.number, other) for other in self.world.drivers if other != driver.number} - self.world.cuts
        self.world.cuts |= cuts
        self.world.later(self.chance.random() * 600, self.world.cuts.difference_update, cuts)

    def stall(self) -> None:
        """Let the whole machine stand still, so that all time-outs end almost at once."""
        drivers = [driver for driver in self.world.drivers.values() if driver.node is not None]
        self.world.note("all stall")
        for driver in drivers:
            driver.skew += 1000
            self.world.later(self.chance.random() * self.chance.choice((2, 30)), self.wake, driver, driver.life)

    def wake(self, driver: Driver, life: int) -> None:
        if driver.node is not None and driver.life == life:
            driver.step(Tick())

    def lag_and_lose(self) -> None:
        """Cut one follower off for a while.  Then another one's disk is lost, the leader dies, and the first follower is back."""
        leaders = [one for one in self.world.drivers.values() if one.node is not None and one.node.is_leader]
        if not leaders or leaders[0].node is None:
            return
        leader = leaders[0]
        voters = [self.world.drivers[one] for one in leaders[0].node.voters.by_id if one != leader.number]
        if len(voters) < 2:
            return
        behind, lost = self.chance.sample(voters, 2)
        cuts = {pair for other in self.world.drivers for pair in ((behind.number, other), (other, behind.number)) if other != behind.number}
        cuts -= self.world.cuts
        self.world.cuts |= cuts

        def turn() -> None:
            if self.world.is_lossy:  # otherwise all is healed meanwhile
                self.lose_disk(lost)
                self.crash_this(leader, leader.life)
                self.world.cuts -= cuts

        self.world.later(100 + self.chance.random() * 400, turn)

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
        """Cut the network into a ring: each replica reaches its neighbours only."""
        numbers = list(self.world.drivers)
        self.chance.shuffle(numbers)
        count = len(numbers)
        for place, one in enumerate(numbers):
            for step in range(2, count - 1):
                self.world.cuts.add((one, numbers[(place + step) % count]))

    def bridge(self) -> None:
        """Cut the network into two halves, with one replica that reaches both."""
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
        """Add a random replica to the voters, with its present directory: it may have lost its disk, or vote already."""
        leader, new = self.leader_or_some(), self.some()
        voter = Voter(new.number, new.disk.directory_id, self.world.addresses(new.number))
        self.world.note(f"{leader.number} is to add {voter.key}")
        leader.step(Received(-1, AddVoter(voter, 2000, waits_for_commit=self.chance.random() < 0.5)))

    def remove_voter(self) -> None:
        """Remove a random voter, perhaps the leader.  A voter that lost its disk goes first.  One voter always stays."""
        leader = self.leader_or_some()
        if leader.node is None or len(leader.node.voters) < 2:
            return
        voters = list(leader.node.voters.by_id.values())
        gone = [one for one in voters if self.world.drivers[one.id].disk.directory_id != one.directory_id]
        voter = self.chance.choice(gone or voters)
        self.world.note(f"{leader.number} is to remove {voter.key}")
        leader.step(Received(-1, RemoveVoter(voter.key)))

    def replace_voter(self) -> None:
        self.remove_voter()
        self.add_voter()

    def lose_some_disk(self) -> None:
        self.lose_disk(self.some())

    def lose_disk(self, driver: Driver) -> None:
        """Replace a disk: the node comes back with nothing, under another directory id.  A world loses one disk at most."""
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
        self.world.later(self.chance.random() * 100, self.start_anew, driver)

    def start_anew(self, driver: Driver) -> None:
        """Start a replica after its disk was lost, unless it has started since: one that was down comes back as after any crash."""
        if driver.node is None:
            driver.start()

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
    Life.lose_some_disk,
    Life.lag_and_lose,
    Life.stall,
    Life.add_voter,
    Life.add_voter,
    Life.remove_voter,
    Life.replace_voter,
)
