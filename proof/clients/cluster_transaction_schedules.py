"""● Transactional producers around three brokers, under the faults of `transaction_schedules` and those of a cluster; each from a seed.

The coordinators of transactions and of groups, and the partitions' leaders, are on different brokers, and move.  Brokers ask each other
over connections of their own: for markers, and whether a partition is part of a transaction.

    python -m proof.clients.cluster_transaction_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold is what must hold in `transaction_schedules`.
"""

from proof.clients.cluster_faults import BROKERS, ClusterFaults
from proof.clients.plants import CLUSTER_TRANSACTION_PLANTS
from proof.clients.seeds import run_seeds
from proof.clients.transaction_schedules import TransactionSchedule
from proof.transactions.schedules.room import DATA


class ClusterTransactionSchedule(ClusterFaults, TransactionSchedule):
    """One seed.  `run` returns the violations."""

    kinds = ("die", "succeed", "reset", "cut", "apart", "broker", "move", "move", "transactions", "transactions", "clock")
    partitions = DATA

    def __init__(self, seed: int) -> None:
        super().__init__(seed, broker_count=BROKERS)


if __name__ == "__main__":
    raise SystemExit(run_seeds(ClusterTransactionSchedule, CLUSTER_TRANSACTION_PLANTS))
