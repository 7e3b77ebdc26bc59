"""● Lives that hunt one kind of mistake: several rare events in a row, on purpose, where `life` waits for chance to bring them together.

python -m proof.fleet --hunt --seeds 100
python -m proof.fleet --hunt --plants --seeds 40
"""

from collections.abc import Awaitable, Callable
from typing import Final

from proof.fleet.clients import Operator
from proof.fleet.fleet import Member
from proof.fleet.life import Life

BETWEEN_HUNTS_S: Final = 1.5
QUIET_S: Final = 4.0
GONE_S: Final = 12.0
"""Longer than a session of three seconds, an election and a request of a producer together."""


class Hunt(Life):
    """A life whose faults are hunts.  Before each hunt all nodes run and all links are up."""

    async def _chaos(self, operator: Operator) -> None:
        self.operator = operator
        until_s = self.loop.time() + self.chaos_s
        while self.loop.time() < until_s:
            await self.loop_sleep(self.chance.expovariate(1 / BETWEEN_HUNTS_S))
            hunt = self.chance.choice(HUNTS)
            name = hunt.__name__.removeprefix("_")
            self.loop.trace.note(f"hunt {name}")
            self.result.done[f"fault: {name}"] += 1
            await hunt(self)
            self._mend_everything()
        self.is_chaos = False

    async def loop_sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        future = self.loop.create_future()
        self.loop.call_later(seconds, future.set_result, None)
        await future

    def _mend_everything(self) -> None:
        self.fleet.network.heal()
        for member in self.fleet.members.values():
            if member.disk_fails:
                self._repair(member)
            self._start(member.id)

    def _shuffled_members(self) -> list[Member]:
        members = list(self.fleet.members.values())
        self.chance.shuffle(members)
        return members

    async def _power_fails_by_degrees(self) -> None:
        """The disks fail one after the other within a moment, and then all nodes are without power."""
        for member in self._shuffled_members():
            member.failing = frozenset(self.fleet.folders)
            await self.loop_sleep(self.chance.choice((0.005, 0.05, 0.5)) * self.chance.random())
        for member in self.fleet.members.values():
            member.failing = frozenset()
            self.fleet.kill(member.id, with_power=True)

    async def _answers_are_lost(self) -> None:
        """A leader's answers to producers do not arrive, and then it is killed: the producers send again to the next leader."""
        leader = self._leader_of_partition()
        if leader is None:
            return
        for producer in self.producers:
            self.fleet.network.cut(leader.host, producer.machine.host, both_ways=False)
        await self.loop_sleep(self.chance.choice((0.1, 0.5, 2.0)) * self.chance.random())
        self.fleet.kill(leader.id, with_power=False)
        self.fleet.network.heal()
        await self.loop_sleep(self._a_while())

    async def _voter_forgets(self) -> None:
        """One voter reaches two others that do not reach each other, and loses its power again and again while both want its vote."""
        voters = [member for member in self._shuffled_members() if member.is_controller]
        between, *others = voters
        half = len(others) // 2
        for one in others[:half]:
            for other in others[half:]:
                self.fleet.network.cut(one.host, other.host)
        for _ in range(10):
            if between.is_up:
                self.fleet.kill(between.id, with_power=True)
            self._start(between.id)
            await self.loop_sleep(0.6 * self.chance.random())

    async def _moved_and_killed(self) -> None:
        """A partition moves, and a broker dies in the moments in which the move ends."""
        for _ in range(3):
            moving = self.loop.start(self.operator.machine, self.operator.reassign())
            await self.loop_sleep(0.3 * self.chance.random())
            leader = self._leader_of_partition()
            if leader is not None and self.chance.random() < 0.7:
                self.fleet.kill(leader.id, with_power=False)
            await self.loop_sleep(1.0)
            moving.cancel()
            self._mend_everything()

    async def _one_is_gone(self) -> None:
        """A broker is gone for longer than its session.  All producers must get on without it."""
        self._mend_everything()
        await self.loop_sleep(QUIET_S)
        if self._out_of_sync() is not None:
            return
        leader = self._leader_of_partition()
        if leader is None:
            return
        self.fleet.kill(leader.id, with_power=True)
        await self.loop_sleep(GONE_S / 2)
        before = [len(one.acknowledged) for one in self.producers]
        await self.loop_sleep(GONE_S / 2)
        if stuck := [one.number for one, count in zip(self.producers, before, strict=True) if len(one.acknowledged) == count]:
            self._wrong(f"{leader} is gone for {GONE_S:.0f} s, and producers {stuck} get nothing acknowledged")

    def _leader_of_partition(self) -> Member | None:
        leading = [
            member
            for member in self.fleet.brokers
            if member.broker is not None and any(each.is_leader for each in member.broker.replicas.hosted.values())
        ]
        return self.chance.choice(leading) if leading else None


HUNTS: Final[tuple[Callable[[Hunt], Awaitable[None]], ...]] = (
    Hunt._power_fails_by_degrees,
    Hunt._answers_are_lost,
    Hunt._voter_forgets,
    Hunt._moved_and_killed,
    Hunt._one_is_gone,
)
