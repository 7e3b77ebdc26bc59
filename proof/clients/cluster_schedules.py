"""● The members of a group around three brokers, under the faults of `group_schedules` and those of a cluster; each from a seed.

The group's coordinator and the partitions' leaders move.  A broker goes away, and others lead what it led.

    python -m proof.clients.cluster_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold is what must hold in `group_schedules`.
"""

from proof.clients.cluster_faults import BROKERS, ClusterFaults
from proof.clients.group_schedules import PARTITIONS, GroupSchedule
from proof.clients.plants import CLUSTER_PLANTS
from proof.clients.seeds import run_seeds


class ClusterSchedule(ClusterFaults, GroupSchedule):
    """One seed.  `run` returns the violations."""

    kinds = ("join", "leave", "die", "reset", "cut", "broker", "broker", "move", "move", "move", "coordinator", "coordinator", "clock")
    partitions = PARTITIONS

    def __init__(self, seed: int) -> None:
        super().__init__(seed, broker_count=BROKERS)


if __name__ == "__main__":
    raise SystemExit(run_seeds(ClusterSchedule, CLUSTER_PLANTS))
