"""● The members of a group around three brokers, under the faults of `group_schedules` and those of a cluster; each from a seed.

The group's coordinator and the partitions' leaders move.  A broker goes away, and others lead what it led.  The other brokers hear of a
move up to some seconds later, so metadata and coordinators may be those of before.

    python -m proof.clients.cluster_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold is what must hold in `group_schedules`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from proof.clients.group_schedules import PARTITIONS, GroupSchedule
from proof.clients.plants import CLUSTER_PLANTS
from proof.clients.room_schedule import Running
from proof.clients.seeds import run_seeds
from proof.transactions.schedules.room import GROUP_OFFSETS

BROKERS: Final = 3


class ClusterSchedule(GroupSchedule):
    """One seed.  `run` returns the violations."""

    kinds = ("join", "leave", "die", "reset", "cut", "broker", "broker", "move", "move", "move", "coordinator", "coordinator", "clock")

    def __init__(self, seed: int) -> None:
        super().__init__(seed, broker_count=BROKERS)

    async def _strike(
        self, kind: str, living: Sequence[Running], *, cuts_s: Sequence[float], absences_s: Sequence[float] = (0.0, 0.5, 3.0)
    ) -> None:
        choice, world = self.choice, self.world
        node_id = choice.choice(list(world.hosts))
        if kind == "move":
            world.move(choice.choice(PARTITIONS), node_id, choice)
        elif kind == "coordinator":
            world.move(GROUP_OFFSETS, node_id, choice)
        elif kind == "broker":
            await world.one_broker_dies(node_id, choice.choice(absences_s), choice)
        elif kind == "reset":
            world.network.reset(world.hosts[node_id], chance=choice.random())
        elif kind == "cut" and living:
            world.network.cut(world.hosts[node_id], choice.choice(living)[0].machine.host, both_ways=choice.random() < 0.5)
            await asyncio.sleep(choice.choice(cuts_s))
            world.network.heal()


if __name__ == "__main__":
    raise SystemExit(run_seeds(ClusterSchedule, CLUSTER_PLANTS))
