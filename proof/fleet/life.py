"""● One life of a cluster: nodes start, clients work, faults strike.  Then all faults end, and within 30 seconds everything must be well.

result = Life(seed=7).run()
result.violations           in words, empty when nothing went wrong; the simulation stops at the first
result.digest               the same for the same seed, in every process
"""

import asyncio
import gc
import logging
import random
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

from moldau.protocol.records.batch import records_of
from moldau.storage.log import Log
from moldau.testing.files import DEFAULT_CAPACITY
from moldau.testing.loop import Machine, SimLoop, Stuck
from moldau.testing.trace import Trace
from moldau.types import TopicPartition
from proof.fleet.clients import PARTITIONS, TOPIC, Operator, Producer
from proof.fleet.fleet import SHAPES, Fleet, Member, Shape, known_while_starting
from proof.fleet.watch import Watch, stored

UP_WITHIN_S: Final = 30.0
CHAOS_S: Final = 20.0
ALIVE_WITHIN_S: Final = 30.0
SETTLED_WITHIN_S: Final = 30.0
STOP_WITHIN_S: Final = 15.0
BETWEEN_LOOKS_S: Final = 0.25
PRODUCERS: Final = 3
SLOW_MS: Final = 600


class Violated(Exception):
    """Something went wrong: the rest of the life proves nothing more."""


class User(Protocol):
    """A user of the cluster.  `acknowledged` grows as long as the user gets on; `kind` says what it counts."""

    kind: str
    is_to_end: bool

    @property
    def acknowledged(self) -> Sequence[object]: ...


class WatchedLoop(SimLoop):
    """A loop that calls `after_event` whenever nothing more happens at an instant."""

    after_event: Callable[[], None] = staticmethod(lambda: None)

    def jump(self) -> None:
        self.after_event()
        super().jump()


@dataclass(slots=True)
class Result:
    """The result of one seed."""

    seed: int
    shape: str = ""
    digest: str = ""
    events: int = 0
    looks: int = 0
    virtual_s: float = 0
    alive_s: float = 0
    """The seconds from healing until everything was in sync and acknowledged again."""
    violations: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)


class Life:
    """See the module.  Without `shape` and `spares_page_caches` the seed chooses."""

    properties: Mapping[str, str] = MappingProxyType({})
    """Properties of every node, beside those of every fleet."""

    def __init__(
        self,
        seed: int,
        *,
        shape: Shape | None = None,
        spares_page_caches: bool | None = None,
        features: Sequence[str] = (),
        chaos_s: float = CHAOS_S,
        keep_trace: bool = False,
    ) -> None:
        self.chaos_s: Final = chaos_s
        self.chance: Final = random.Random(seed)
        chosen = self.chance.choice(SHAPES)
        self.loop: Final = WatchedLoop(Trace(keep=keep_trace))
        is_spared = self.chance.random() < 0.25
        self.spares_page_caches: Final = is_spared if spares_page_caches is None else spares_page_caches
        """Whether acknowledged records need not be on stable storage, as with Kafka's defaults.  Then no power fails, except in hunts."""
        flush_policy = "os" if self.spares_page_caches else "ack"
        self.fleet: Final = Fleet(
            self.loop, self.chance, shape or chosen, flush_policy=flush_policy, features=features, properties=self.properties
        )
        self.watch: Final = Watch(self.fleet)
        self.result: Final = Result(seed, str(self.fleet.shape))
        self.producers: list[Producer] = []
        self.working: list[asyncio.Task[None]] = []
        self.wiped: int | None = None
        self.is_chaos = True
        self.between_faults_s: Final = self.chance.choice((0.3, 1.0, 3.0))
        self.faults: Final = self._faults()
        usual = [self.chance.random() ** 2 for _ in self.faults]
        self.moods: Final = [mood + 0.02 for mood in usual]
        """The weight of each fault.  Each life draws its own, so that a fault that is rare in one life is frequent in another."""
        self._over: asyncio.Future[None] | None = None
        self.fleet.on_wrong = self._wrong

    def run(self) -> Result:
        """Run the life.  Call `live` instead, because `bury` must be called before anything else runs."""
        result = self.result
        try:
            with known_while_starting(self.fleet):
                self.loop.run_until_complete(self._run())
        except Stuck as error:
            result.violations.append(f"stuck: {error}")
        except Violated:
            pass
        result.violations += [f"the loop caught {failure!r}" for failure in self.loop.failures]
        trace = self.loop.trace
        result.digest, result.events, result.looks, result.virtual_s = trace.digest, trace.events, self.watch.looks, self.loop.time()
        result.done["start"] = self.fleet.starts
        for user in self._users():
            result.done[user.kind] += len(user.acknowledged)
        return result

    def bury(self) -> None:
        """Throw away what remains of the nodes and the users."""
        for machine in self._machines():
            self.loop.kill(machine)
        self.loop.forget_the_dead()
        self.loop.close()

    def _wrong(self, text: str) -> None:
        self.result.violations.append(f"at {self.loop.time():.3f} s: {text}")
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def _run(self) -> None:
        self._over = self.loop.create_future()
        story = self.loop.create_task(self._story())
        await asyncio.wait([story, self._over], return_when=asyncio.FIRST_COMPLETED)
        self.loop.after_event = lambda: None
        if story.done():
            story.result()

    async def _story(self) -> None:
        fleet = self.fleet
        fleet.format()
        self.loop.after_event = self.watch.look
        for node_id in fleet.members:
            fleet.start(node_id)
        operator = self._new_operator()
        await self._within(UP_WITHIN_S, self.loop.start(operator.machine, operator.create_topics()), "no topic could be created")
        self.producers = [Producer(fleet, number) for number in range(PRODUCERS)]
        self.working = [self.loop.start(one.machine, one.run()) for one in self.producers]
        self._begin_more_work()
        await self._chaos(operator)
        await self._heal()

    def _new_operator(self) -> Operator:
        return Operator(self.fleet)

    def _begin_more_work(self) -> None:
        """Begin the work of users beside the producers."""

    def _faults(self) -> "Sequence[Fault]":
        return FAULTS

    def _users(self) -> Sequence[User]:
        """The users that must get on once all is healed."""
        return self.producers

    def _machines(self) -> list[Machine]:
        """The machines that still have something to do when the life is over."""
        return [member.machine for member in self.fleet.members.values()]

    async def _within(self, seconds: float, work: "asyncio.Task[Any]", otherwise: str) -> None:
        done, _ = await asyncio.wait([work], timeout=seconds)
        if not done:
            self._wrong(f"{otherwise} within {seconds:.0f} s")
            raise Violated
        work.result()

    # faults

    async def _chaos(self, operator: Operator) -> None:
        until_s = self.loop.time() + self.chaos_s
        self.operator = operator
        while True:
            await asyncio.sleep(self.chance.expovariate(1 / self.between_faults_s))
            if self.loop.time() >= until_s:
                break
            (fault,) = self.chance.choices(self.faults, self.moods)
            name = fault.__name__.removeprefix("_")
            self.loop.trace.note(f"fault {name}")
            self.result.done[f"fault: {name}"] += 1
            await fault(self)
        self.is_chaos = False

    def _some(self) -> Member:
        return self.chance.choice(list(self.fleet.members.values()))

    def _leader_or_some(self) -> Member:
        """A random node, often one that leads the quorum or a partition."""
        leading = [
            one
            for one in self.fleet.members.values()
            if (one.shared is not None and getattr(one.shared.driver, "node", None) is not None and one.shared.driver.is_leader)
            or (one.broker is not None and any(each.is_leader for each in one.broker.replicas.hosted.values()))
        ]
        return self.chance.choice(leading) if leading and self.chance.random() < 0.6 else self._some()

    def _a_while(self) -> float:
        return self.chance.choice((0.05, 0.5, 5.0)) * self.chance.random()

    def _later(self, delay_s: float, call: Callable[..., object], *args: object) -> None:
        self.loop.call_later(delay_s, self._unless_calm, call, *args)

    def _unless_calm(self, call: Callable[..., object], *args: object) -> None:
        if self.is_chaos:
            call(*args)

    def _start(self, node_id: int) -> None:
        if not self.fleet.members[node_id].is_up:
            self.fleet.start(node_id)

    def _die(self, member: Member, *, with_power: bool) -> None:
        if member.is_up:
            self.fleet.kill(member.id, with_power=with_power and not self.spares_page_caches)
            self._later(self._a_while(), self._start, member.id)

    async def _kill(self) -> None:
        self._die(self._leader_or_some(), with_power=False)

    async def _power(self) -> None:
        self._die(self._leader_or_some(), with_power=True)

    async def _power_of_all(self) -> None:
        if self._is_enough_lost():
            return
        for member in self.fleet.members.values():
            self._die(member, with_power=True)

    async def _kill_all(self) -> None:
        if self._is_enough_lost():
            return
        for member in self.fleet.members.values():
            self._die(member, with_power=False)

    def _is_enough_lost(self) -> bool:
        """Tells whether a disk has been lost, so that no fault should strike all nodes at once.

        Such a fault would leave a partition offline if its last leader had the lost disk.  Rarely the fault is tried all the same.
        """
        return self.wiped is not None and self.chance.random() < 0.9

    async def _stop(self) -> None:
        member = self._leader_or_some()
        if member.is_up:
            self.loop.create_task(self._stop_and_start(member))

    async def _stop_and_start(self, member: Member) -> None:
        await self.fleet.stop(member.id, within_s=STOP_WITHIN_S)
        await asyncio.sleep(self._a_while())
        self._unless_calm(self._start, member.id)

    async def _cut(self) -> None:
        one, other = self._leader_or_some(), self._some()
        if one is not other:
            self.fleet.network.cut(one.host, other.host, both_ways=self.chance.random() < 0.5)

    async def _isolate(self) -> None:
        alone = self._leader_or_some()
        for other in self.fleet.members.values():
            if other is not alone:
                if self.chance.random() < 0.8:
                    self.fleet.network.cut(alone.host, other.host, both_ways=False)
                if self.chance.random() < 0.8:
                    self.fleet.network.cut(other.host, alone.host, both_ways=False)

    async def _bridge(self) -> None:
        """Cut the nodes into two halves, with one node that reaches both."""
        hosts = self._shuffled()
        half = len(hosts) // 2
        for one in hosts[:half]:
            for other in hosts[half + 1 :]:
                self.fleet.network.cut(one, other)

    async def _ring(self) -> None:
        """Cut the nodes into a ring: each node reaches its neighbours only; of three nodes, each reaches one neighbour."""
        hosts = self._shuffled()
        count = len(hosts)
        for place, one in enumerate(hosts):
            for step in range(2, max(3, count - 1)):
                self.fleet.network.cut(one, hosts[(place + step) % count], both_ways=False)

    def _shuffled(self) -> list[str]:
        hosts = [one.host for one in self.fleet.members.values()]
        self.chance.shuffle(hosts)
        return hosts

    async def _mend(self) -> None:
        self.fleet.network.heal()

    async def _reset(self) -> None:
        self.fleet.network.reset(self._leader_or_some().host, chance=0.7)

    async def _slow_disk(self) -> None:
        self._leader_or_some().files.slow_ms = SLOW_MS * self.chance.random()

    async def _full_disk(self) -> None:
        member = self._leader_or_some()
        member.files.capacity = DEFAULT_CAPACITY - 1
        used = DEFAULT_CAPACITY - 1 - member.files.free_bytes("/")
        member.files.capacity = used + self.chance.randrange(3000)
        self._later(self._a_while(), self._make_room, member)

    def _make_room(self, member: Member) -> None:
        member.files.capacity = DEFAULT_CAPACITY

    async def _broken_disk(self) -> None:
        """Let the disk of one folder fail, or of all folders."""
        if self.spares_page_caches:
            return
        member = self._leader_or_some()
        folders = self.fleet.folders
        member.fail_disks(folders if self.chance.random() < 0.3 else [self.chance.choice(folders)])
        self._later(self._a_while(), self._mend_disk, member)

    def _mend_disk(self, member: Member) -> None:
        if self.chance.random() < 0.5:
            self._repair(member)
        else:
            self.loop.create_task(self._repair_in_order(member))

    def _repair(self, member: Member) -> None:
        """Start a node again on its mended disk, as its operator would: the node has exited, or goes on with a folder that failed."""
        member.failing = frozenset()
        self.fleet.kill(member.id, with_power=True)
        self._start(member.id)

    async def _repair_in_order(self, member: Member) -> None:
        """Stop a node whose disk works again as by SIGTERM.  Data that a failed sync left in doubt may be gone at its next start."""
        member.failing = frozenset()
        await self.fleet.stop(member.id, within_s=STOP_WITHIN_S)
        self._unless_calm(self._start_after_crash, member)

    def _start_after_crash(self, member: Member) -> None:
        if not member.is_up:
            member.files.crash(self.chance)
            self._start(member.id)

    async def _skew_clock(self) -> None:
        self._some().clock.skew_ms = self.chance.choice((-3_000_000, -500, 0, 500, 3_000_000))

    async def _wipe_disk(self) -> None:
        """Give a node an empty disk, under another directory id.  This happens to one node in a life."""
        if self.wiped is not None or not self._is_spare(member := self._some()):
            return
        self.wiped = member.id
        self.operator.may_remove_voters = False
        self.fleet.kill(member.id, with_power=True)
        member.replace_disk()
        member.format(is_first=False)
        self._later(self._a_while(), self._start, member.id)

    def _is_spare(self, member: Member) -> bool:
        """Tells whether the other nodes can keep every promise without this node's disk."""
        watch = self.watch
        image = watch.images[max(watch.images)]
        for topic in image.topics.values():
            for said in topic.partitions:
                if member.id in (*said.isr, *said.elr) and len({*said.isr, *said.elr} - {member.id}) < 2:
                    return False
        return not member.is_controller or self._has_all_voters()

    def _has_all_voters(self) -> bool:
        """Tells whether every node knows all voters, and goes on to.  With one voter removed and another's disk lost, the rest may be no
        majority.
        """
        if self.operator.unanswered_removals:
            return False
        drivers = [one.shared.driver for one in self.fleet.members.values() if one.shared is not None]
        sets = [driver.node.voters for driver in drivers if hasattr(driver, "node")]
        return len(sets) == len(self.fleet.members) and all(len(one) == len(self.fleet.shape.controller_ids) for one in sets)

    async def _swap_disks(self) -> None:
        """Swap the disks of two nodes.  Both must refuse to start; with their own disks back, both work as before."""
        members = self.chance.sample(list(self.fleet.members.values()), 2)
        if any(one.is_swapped for one in members):
            return
        for member in members:
            self.fleet.kill(member.id, with_power=False)
        one, other = members
        one.files, other.files = other.files, one.files
        for member in members:
            member.is_swapped = True
            self._start(member.id)
        await asyncio.sleep(1.0)
        for member in members:
            if member.is_up and member.broker is not None:
                self._wrong(f"{member} has started on the disk of another node")
            self.fleet.kill(member.id, with_power=False)
        one.files, other.files = other.files, one.files
        for member in members:
            member.is_swapped = False
            self._start(member.id)

    async def _administer(self) -> None:
        self.loop.start(self.operator.machine, self.operator.do_something())

    # the end

    async def _heal(self) -> None:
        fleet = self.fleet
        self.loop.trace.note("all is healed")
        fleet.network.heal()
        for member in fleet.members.values():
            member.files.capacity, member.files.slow_ms = DEFAULT_CAPACITY, fleet.usual_slow_ms
            if member.disk_fails:
                self._repair(member)
            self._start(member.id)
        healed_s = self.loop.time()
        users = self._users()
        before = [len(one.acknowledged) for one in users]
        wrong: str | None = "nobody has looked"
        while wrong is not None:
            await asyncio.sleep(BETWEEN_LOOKS_S)
            for work in self.working:
                if work.done():
                    work.result()
            self._start_those_that_gave_up()
            stuck = [one for one, count in zip(users, before, strict=True) if len(one.acknowledged) <= count]
            if self.watch.is_given_up():
                self.result.done["over: a partition is offline because its last leader lost its disk"] += 1
                return
            wrong = f"{stuck} get nothing acknowledged: {self.watch.unequal()}" if stuck else self._out_of_sync()
            if wrong is not None and self.loop.time() > healed_s + ALIVE_WITHIN_S:
                self._wrong(f"not alive {ALIVE_WITHIN_S:.0f} s after all was healed: {wrong}")
                raise Violated
        self.result.alive_s = self.loop.time() - healed_s
        for user in users:
            user.is_to_end = True
        await self._within(ALIVE_WITHIN_S, self.loop.create_task(_all(self.working)), "the users could not end")
        await self._until_equal()
        self._check_records()

    def _start_those_that_gave_up(self) -> None:
        for member in self.fleet.members.values():
            self._start(member.id)

    def _out_of_sync(self) -> str | None:
        for member in self.fleet.members.values():
            if member.is_up and member.is_told_to_stop:
                return f"{member} is still stopping"  # it has everything now, and is gone in a moment
        said = self.watch.unequal()
        return said if said is not None and ("in sync" in said or "started" in said or "moved" in said) else None

    async def _until_equal(self) -> None:
        until_s = self.loop.time() + SETTLED_WITHIN_S
        while (wrong := self.watch.unequal()) is not None:
            if self.loop.time() > until_s:
                self._wrong(f"in the end {wrong}")
                raise Violated
            await asyncio.sleep(BETWEEN_LOOKS_S)

    def _check_records(self) -> None:
        """Check that every acknowledged record is at its offset, once, and in the order in which its producer sent it."""
        for number in range(PARTITIONS):
            there = self._values(number)
            by_offset = dict(there)
            for producer in self.producers:
                if producer.partition != number:
                    continue
                for acknowledged in producer.acknowledged:
                    if by_offset.get(acknowledged.offset) != acknowledged.value:
                        self._wrong(f"{acknowledged} was acknowledged, and {by_offset.get(acknowledged.offset)} is there")
                        return
                mine = [value for _, value in there if value // 1_000_000 == producer.number]
                if mine != sorted(set(mine)):
                    self._wrong(f"records of producer {producer.number} are doubled or out of order: {mine}")

    def _values(self, number: int) -> list[tuple[int, int]]:
        log = self._log_of(TopicPartition(TOPIC, number))
        found = []
        for batch in stored(log, log.log_start_offset, log.high_watermark):
            found += [(one.offset, int(bytes(one.value or b"").rstrip(b"\0"))) for one in records_of(memoryview(batch.content))]
        return found

    def _log_of(self, topic_partition: TopicPartition) -> Log:
        """The log of the leader; there is one once all replicas are equal."""
        for member in self.fleet.brokers:
            assert member.broker is not None
            partition = member.broker.replicas.hosted.get(topic_partition)
            if partition is not None and partition.is_leader:
                return partition.log
        raise AssertionError(f"nobody leads {topic_partition}")


async def _all(work: "list[asyncio.Task[None]]") -> None:
    await asyncio.gather(*work)


def live(
    seed: int, *, kind: Callable[..., Life] = Life, shape: Shape | None = None, chaos_s: float = CHAOS_S, verbose: bool = False
) -> Result:
    """Run one life of this kind.

    Garbage is collected at its end only: a dead machine's `finally`s must not run at a moment that depends on memory.
    """
    usual, was_enabled = sys.unraisablehook, gc.isenabled()
    gc.disable()
    gc.freeze()  # the collection at the end need not look through older objects
    if not verbose:
        logging.disable()  # nodes that are killed over and over log thousands of lines
    try:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            life = kind(seed, shape=shape, chaos_s=chaos_s)
            result = life.run()
            sys.unraisablehook = lambda _: None
            life.bury()
            del life
            gc.collect()
        return result
    finally:
        sys.unraisablehook = usual
        gc.unfreeze()
        logging.disable(logging.NOTSET)
        if was_enabled:
            gc.enable()


Fault = Callable[[Any], Awaitable[None]]
FAULTS: Final[tuple[Fault, ...]] = (
    Life._kill,
    Life._power,
    Life._power_of_all,
    Life._kill_all,
    Life._stop,
    Life._cut,
    Life._isolate,
    Life._bridge,
    Life._ring,
    Life._mend,
    Life._mend,
    Life._reset,
    Life._slow_disk,
    Life._full_disk,
    Life._broken_disk,
    Life._skew_clock,
    Life._wipe_disk,
    Life._swap_disks,
    Life._administer,
    Life._administer,
)
