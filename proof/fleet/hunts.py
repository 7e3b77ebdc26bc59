"""● Lives that hunt one kind of mistake: several rare events in a row, on purpose, where `life` waits for chance to bring them together.

python -m proof.fleet --hunt --seeds 100
python -m proof.fleet --hunt --plants --seeds 40
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from moldau.metadata.features import ELR_VERSION
from moldau.metadata.image import PartitionRegistration
from moldau.raft.machine.node import RaftNode
from moldau.raft.roles import Unattached
from moldau.replication.partition import Partition
from moldau.types import TopicPartition
from proof.fleet.clients import PARTITIONS, TOPIC, Operator
from proof.fleet.fleet import SHAPES, Member
from proof.fleet.life import STOP_WITHIN_S, Life

BETWEEN_HUNTS_S: Final = 1.5
QUIET_S: Final = 4.0
BETWEEN_GLANCES_S: Final = 0.001
ANSWERED_S: Final = 0.01
"""A producer has its answer by then."""
SESSION_S: Final = 3.0
GONE_S: Final = 12.0
"""Longer than a session of three seconds, an election and a request of a producer together."""


class Hunt(Life):
    """A life whose faults are hunts.  Before each hunt all nodes run and all links are up.  `only`: the name of the one hunt."""

    def __init__(self, seed: int, *, only: str | None = None, **more: Any) -> None:
        self.hunts: Final = (*HUNTS, *HUNTS_IN_PAGE_CACHES) if only is None else (getattr(Hunt, f"_{only}"),)
        is_in_page_caches = None if only is None else self.hunts[0] not in (*HUNTS, *HUNTS_WITHOUT_ELR)
        features = (f"{ELR_VERSION}=0",) if self.hunts[0] in HUNTS_WITHOUT_ELR else ()
        super().__init__(seed, spares_page_caches=is_in_page_caches, features=features, **more)

    async def _chaos(self, operator: Operator) -> None:
        self.operator = operator
        until_s = self.loop.time() + self.chaos_s
        while self.loop.time() < until_s:
            await self.loop_sleep(self.chance.expovariate(1 / BETWEEN_HUNTS_S))
            fitting = HUNTS_IN_PAGE_CACHES if self.spares_page_caches else (*HUNTS, *HUNTS_WITHOUT_ELR)
            hunt = self.chance.choice([one for one in fitting if one in self.hunts])
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
            member.fail_disks(self.fleet.folders)
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
        if not await self._all_in_sync():
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

    async def _unclean_one_first(self) -> None:
        """The last replica but one loses its power, and comes back alone: it may have lost what only its page cache held (KIP-966).

        Only one node stops uncleanly, so nothing acknowledged may be lost.  The partition waits for the last one in sync.
        """
        found = await self._a_partition_in_sync()
        if found is None or self.fleet.shape == SHAPES[0]:  # with three voters, nobody would decide anything
            return
        _, leader, others = found
        first, last = self.chance.sample(others, 2)
        await self.fleet.stop(first.id, within_s=STOP_WITHIN_S)
        await self.loop_sleep(self.chance.choice((0.05, 0.5)) * self.chance.random())
        self.fleet.kill(leader.id, with_power=True)
        await self.loop_sleep(self.chance.choice((0.5, SESSION_S)) * self.chance.random())
        await self.fleet.stop(last.id, within_s=GONE_S)
        self._start(leader.id)
        await self.loop_sleep(2 * SESSION_S)

    async def _joins_from_an_earlier_life(self) -> None:
        """A leader's proposal to take a follower back arrives late: the follower has lost its power and lives again (KIP-903).

        Then all other replicas are killed.  The follower lacks what its power took, so it must not lead.
        """
        found = await self._a_partition_in_sync()
        controller = self._active_controller()
        if found is None or controller is None:
            return
        where, leader, others = found
        follower, third = self.chance.sample(others, 2)
        if controller in (leader, follower):
            return
        self.fleet.kill(follower.id, with_power=False)
        if not await self._until(lambda: not _may_be_in_sync(leader, follower), 2 * SESSION_S):
            return
        self._start(follower.id)

        def proposes() -> bool:
            partition = self._replica(leader, where)
            return partition is not None and partition.proposal is not None and follower.id in partition.proposal.isr

        # The leader sends its proposal in the same instant.  So the line is cut when the follower may be taken back, a moment before.
        await self._until(lambda: _may_be_in_sync(leader, follower), 2 * SESSION_S)
        network = self.fleet.network
        network.cut(leader.host, controller.host, both_ways=False)
        if not await self._until(proposes, 1.0):
            return
        epoch = _epoch_at(controller, follower)
        # Its machine crashes and is back soon: others see its connections reset, so its session need not end first.
        self.fleet.kill(follower.id, with_power=False)
        follower.files.crash(self.chance)
        network.cut(leader.host, follower.host)
        await self.loop_sleep(0.1)
        self._start(follower.id)
        if not await self._until(lambda: _epoch_at(controller, follower) != epoch, SESSION_S * 0.8):
            return  # as far as the controller knows the follower has lost nothing
        await self._until(lambda: _may_be_in_sync(controller, follower), 0.5)
        network.heal()
        network.cut(leader.host, follower.host)
        network.cut(third.host, follower.host)
        await self.loop_sleep(0.3 * self.chance.random())
        for member in (leader, third):
            self.fleet.kill(member.id, with_power=False)
        if self.fleet.shape == SHAPES[0]:
            network.heal()
            self._start(third.id if self.chance.random() < 0.5 else leader.id)
        await self.loop_sleep(2 * SESSION_S)

    async def _removed_after_its_vote(self) -> None:
        """A voter that is removed and joins again votes before it knows that it has joined, and is removed once more by the node that it
        voted for, before that node can tell it.
        """
        leader = self._active_controller()
        voters = [member for member in self._shuffled_members() if member.is_controller and member is not leader]
        if leader is None or self.operator.may_remove_voters is False:
            return
        voter = voters[0]
        removing = self.loop.start(self.operator.machine, self.operator.remove_voter(voter))
        is_out = await self._until(lambda: not _counts(leader, voter) and not _counts(voter, voter), 2.0)
        removing.cancel()
        if not is_out or not await self._until(lambda: _counts(leader, voter), 3.0):
            return
        network = self.fleet.network
        network.cut(leader.host, voter.host, both_ways=False)
        await self._until(lambda: all(_counts(one, voter) for one in voters[1:]), 1.0)
        self.fleet.kill(leader.id, with_power=False)
        if await self._until(lambda: _waits_for_winner(voter), 3.0):
            for one in voters[1:]:
                network.cut(one.host, voter.host, both_ways=False)
            if self.fleet.shape.controllers != 0 or len(voters) == 2:
                self._start(leader.id)
            await self._until(lambda: self._active_controller() is not None, 2.0)
            removing = self.loop.start(self.operator.machine, self.operator.remove_voter(voter))
            await self.loop_sleep(1.0)
            removing.cancel()

    async def _one_directory_fails(self) -> None:
        """The directory of each follower of a partition fails.  All power fails once the leader has acknowledged more than it had
        then, and one follower comes back last: the others are out of sync by then.  Nothing that was in doubt may have been acknowledged.
        """
        found = await self._a_partition_in_sync()
        if found is None:
            return
        number, leader, followers = found
        led = self._replica(leader, number)
        replicas = [self._replica(one, number) for one in followers]
        if led is None or None in replicas:
            return
        end = led.log.log_end_offset
        pause_s = self.chance.choice((0.0, 0.0, 0.02, 0.2))
        for follower, replica in zip(followers, replicas, strict=True):
            assert replica is not None
            follower.fail_disks([folder for folder in self.fleet.folders if replica.log.directory.startswith(f"{folder}/")])
            await self.loop_sleep(pause_s * self.chance.random())
        await self._until(lambda: led.acknowledged_offset > end, SESSION_S / 2)
        await self.loop_sleep(ANSWERED_S)
        for member in self.fleet.members.values():
            member.failing = frozenset()
            self.fleet.kill(member.id, with_power=True)
        for member in self.fleet.members.values():
            if member is not followers[-1]:
                self._start(member.id)
        await self.loop_sleep(self.chance.random() * QUIET_S)

    # what the hunters see

    async def _last_disk_is_replaced(self) -> None:
        """The other replicas of a partition are killed.  Then the last one in sync loses its power and its disk, and all come back.

        The others have everything that was acknowledged, so the empty one must not lead.
        """
        found = await self._a_partition_in_sync()
        if found is None or not self.fleet.shape.controllers:  # the brokers must not be the voters
            return
        number, leader, others = found
        for one in others:
            self.fleet.kill(one.id, with_power=False)
        if not await self._until(lambda: self._said(number).isr == (leader.id,), 3 * SESSION_S):
            return
        self.fleet.kill(leader.id, with_power=True)
        await self.loop_sleep(self.chance.choice((0.1, 2 * SESSION_S)))
        leader.replace_disk()
        leader.format(is_first=False)
        self._start(leader.id)
        await self.loop_sleep(self.chance.choice((0.1, 2 * SESSION_S)))
        self._mend_everything()
        await self.loop_sleep(2 * SESSION_S)

    async def _until(self, is_so: Callable[[], bool], within_s: float) -> bool:
        """Let time pass until it is so.  False if it does not become so."""
        until_s = self.loop.time() + within_s
        while not is_so():
            if self.loop.time() > until_s:
                return False
            await self.loop_sleep(BETWEEN_GLANCES_S)
        return True

    async def _all_in_sync(self) -> bool:
        self._mend_everything()
        return await self._until(lambda: self._out_of_sync() is None, QUIET_S)

    async def _a_partition_in_sync(self) -> tuple[int, Member, list[Member]] | None:
        """A partition whose replicas are all in sync: its number, its leader, and its followers.  None if that takes long."""
        if not await self._all_in_sync():
            return None
        number = self.chance.randrange(PARTITIONS)
        said = self._said(number)
        members = self.fleet.members
        return number, members[said.leader], [members[one] for one in said.replicas if one != said.leader]

    def _said(self, number: int) -> PartitionRegistration:
        images = self.watch.images
        return images[max(images)].topics[TOPIC].partitions[number]

    def _replica(self, member: Member, number: int) -> Partition | None:
        return None if member.broker is None else member.broker.replicas.hosted.get(TopicPartition(TOPIC, number))

    def _led_by(self, member: Member) -> list[Partition]:
        return [] if member.broker is None else [one for one in member.broker.replicas.hosted.values() if one.is_leader]

    def _active_controller(self) -> Member | None:
        for member in self.fleet.members.values():
            node = _node(member)
            if node is not None and node.is_leader:
                return member
        return None

    def _leader_of_partition(self) -> Member | None:
        leading = [member for member in self.fleet.brokers if self._led_by(member)]
        return self.chance.choice(leading) if leading else None


HUNTS: Final[tuple[Callable[[Hunt], Awaitable[None]], ...]] = (
    Hunt._power_fails_by_degrees,
    Hunt._answers_are_lost,
    Hunt._voter_forgets,
    Hunt._moved_and_killed,
    Hunt._one_is_gone,
    Hunt._one_directory_fails,
    Hunt._removed_after_its_vote,
)
HUNTS_IN_PAGE_CACHES: Final[tuple[Callable[[Hunt], Awaitable[None]], ...]] = (
    Hunt._answers_are_lost,
    Hunt._moved_and_killed,
    Hunt._unclean_one_first,
    Hunt._joins_from_an_earlier_life,
    Hunt._removed_after_its_vote,
)
"""The hunts of lives in which acknowledged records need not be on stable storage: at most one replica loses its page cache."""

HUNTS_WITHOUT_ELR: Final[tuple[Callable[[Hunt], Awaitable[None]], ...]] = (Hunt._last_disk_is_replaced,)
"""The hunts of lives without eligible leader replicas.  They are hunted one by one, because the features are those of a whole life."""


def _node(member: Member) -> RaftNode | None:
    return None if member.shared is None else getattr(member.shared.driver, "node", None)


def _counts(member: Member, voter: Member) -> bool:
    """Tells whether a node takes another one for a voter."""
    node = _node(member)
    return node is not None and voter.id in node.voters.by_id


def _waits_for_winner(member: Member) -> bool:
    node = _node(member)
    return node is not None and isinstance(node.role, Unattached) and node.role.election.has_voted and not node.role.election.has_leader


def _epoch_at(member: Member, broker: Member) -> int:
    """The broker epoch as a node knows it."""
    known = None if member.shared is None else member.shared.loader.image.brokers.get(broker.id)
    return -1 if known is None else known.epoch


def _may_be_in_sync(member: Member, broker: Member) -> bool:
    return member.shared is not None and member.shared.loader.image.is_active(broker.id)
