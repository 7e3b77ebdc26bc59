"""● The faults of three brokers around clients: partitions and coordinators move, a broker goes away, two brokers lose each other.

The other brokers hear of a move up to some seconds later, so metadata and coordinators may be those of before.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from moldau.types import TopicPartition
from proof.clients.room_schedule import RoomSchedule, Running
from proof.transactions.schedules.room import GROUP_OFFSETS, SHARE_STATE, TRANSACTION_STATE

BROKERS: Final = 3
COORDINATORS: Final[Mapping[str, TopicPartition]] = {
    "coordinator": GROUP_OFFSETS,
    "transactions": TRANSACTION_STATE,
    "states": SHARE_STATE,
}
"""The kinds of a fault that move a coordinator."""


class ClusterFaults(RoomSchedule):
    """Before a schedule in the order of base classes: its `_strike` knows several brokers."""

    partitions: Sequence[TopicPartition]
    """The partitions that move."""

    async def _strike(
        self, kind: str, living: Sequence[Running], *, cuts_s: Sequence[float], absences_s: Sequence[float] = (0.0, 0.5, 3.0)
    ) -> None:
        choice, world = self.choice, self.world
        node_id = choice.choice(list(world.hosts))
        if kind == "move":
            world.move(choice.choice(self.partitions), node_id, choice)
        elif kind in COORDINATORS:
            world.move(COORDINATORS[kind], node_id, choice)
        elif kind == "broker":
            await world.one_broker_dies(node_id, choice.choice(absences_s), choice)
        elif kind == "reset":
            world.network.reset(world.hosts[node_id], chance=choice.random())
        elif kind == "apart":
            other = choice.choice([each for each in world.hosts if each != node_id])
            await self._cut(world.hosts[node_id], world.hosts[other], cuts_s)
        elif kind == "cut" and living:
            await self._cut(world.hosts[node_id], choice.choice(living)[0].machine.host, cuts_s)

    async def _cut(self, one: str, other: str, cuts_s: Sequence[float]) -> None:
        self.world.network.cut(one, other, both_ways=self.choice.random() < 0.5)
        await asyncio.sleep(self.choice.choice(cuts_s))
        self.world.network.heal()
