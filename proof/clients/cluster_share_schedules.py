"""● Share consumers around three brokers, under the faults of `share_schedules` and those of a cluster; each from a seed.

The coordinators of the group and of the states, and the partitions' leaders, are on different brokers, and move.  A member has a session
with each leader.  The leaders ask the states' coordinator over connections of their own.

    python -m proof.clients.cluster_share_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold is what must hold in `share_schedules`.
"""

from proof.clients.cluster_faults import BROKERS, ClusterFaults
from proof.clients.plants import CLUSTER_SHARE_PLANTS
from proof.clients.seeds import run_seeds
from proof.clients.share_schedules import PARTITIONS, ShareSchedule


class ClusterShareSchedule(ClusterFaults, ShareSchedule):
    """One seed.  `run` returns the violations."""

    kinds = ("join", "leave", "die", "reset", "cut", "apart", "broker", "move", "move", "coordinator", "states", "states")
    partitions = PARTITIONS

    def __init__(self, seed: int) -> None:
        super().__init__(seed, broker_count=BROKERS)


if __name__ == "__main__":
    raise SystemExit(run_seeds(ClusterShareSchedule, CLUSTER_SHARE_PLANTS))
