"""● A queue in simulation: a share group and producers on a cluster that is killed, loses power or its network, or has its clock moved.

    result = QueueSimulation(seed=7, rounds=2).run()
    result.violations          empty when nothing went wrong

What must hold: a record whose send was acknowledged is accepted in the end, unless it used up its deliveries; a record whose acceptance was
confirmed is not in the answer to any fetch that was sent afterwards; only sent records are delivered, and none more often than allowed.
"""

import random
from collections.abc import Mapping
from typing import Final

from moldau.testing.loop import Machine
from proof.cluster.simulation import CALM_S, ROUND_S, Simulation
from proof.shares.clients import DELIVERIES, QueueClient, QueueMember, QueueNotes, QueueProducer
from proof.shares.consumer import QueueConsumer

MEMBERS: Final = 3
"""The number of members.  The last one is our own client."""
QUEUE_PROPERTIES: Final[Mapping[str, str]] = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "4000",
    "group.share.delivery.count.limit": str(DELIVERIES),
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "10000",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.prune.interval.ms": "10000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "10000",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}


class QueueSimulation(Simulation):
    """See the module."""

    def __init__(self, seed: int, *, rounds: int = 1, properties: Mapping[str, str] | None = None, verbose: bool = False) -> None:
        super().__init__(seed, rounds=rounds, properties={**QUEUE_PROPERTIES, **(properties or {})}, verbose=verbose)
        self.queue: Final = QueueNotes()
        self._workers: list[tuple[Machine, QueueClient]] = []

    async def _run(self) -> None:
        self._format()
        self._start_broker()
        for number in range(MEMBERS + 1):
            machine = Machine(f"client-{number}")
            self.network.add(machine)
            kind = QueueProducer if number == 0 else QueueMember if number < MEMBERS else QueueConsumer
            self._workers.append((machine, kind(number, self.network, self.queue, random.Random(self.choice.getrandbits(64)))))
        self._clients = self._workers  # type: ignore[assignment]  # the fault of a cut network strikes these
        for _ in range(self.rounds):
            await self._round()
            if self.result.violations:
                return

    async def _round(self) -> None:
        end_s = self.loop.time() + ROUND_S
        working = [self.loop.start(machine, client.run(end_s)) for machine, client in self._workers]
        await self._faults(end_s)
        self._disk_recovers()
        self.clock.skew_ms = 0
        for number, work in enumerate(working):
            await self._within(work, self.loop.time() + CALM_S, f"client {number} is still busy")
        members = [(machine, client) for machine, client in self._workers if not isinstance(client, QueueProducer)]
        calm_s = self.loop.time() + 3 * CALM_S
        for _, client in members:
            client.is_calm = True
        emptying = [self.loop.start(machine, client.run(calm_s)) for machine, client in members]
        for number, work in enumerate(emptying):
            await self._within(work, calm_s + CALM_S, f"member {number} is still busy")
        for _, client in members:
            client.is_calm = False
        left = sorted(self.queue.left)
        if left:
            self._violated(f"{len(left)} of {len(self.queue.sent)} records were never accepted: {left[:5]}")
        self.result.violations += self.queue.violations
        self.result.done = dict(self.notes.done) | dict(self.queue.done)
