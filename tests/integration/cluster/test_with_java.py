"""Clusters of our nodes and of Apache Kafka's, under stock clients.

No acknowledged record is lost, doubled or out of order, and the replicas are equal.
"""

import os
from pathlib import Path

import pytest

from proof.cluster.process_load import ORDERS, PARTITIONS
from proof.cluster.processes import QUICK, SHARES
from proof.cluster.stored import epochs
from proof.kafka.mixed import MixedCluster
from proof.kafka.moving import Moving

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("cluster")]

MOVES = int(os.environ.get("MOLDAU_LEADERSHIP_MOVES", "6"))


def test_a_cluster_moves_from_kafka_to_ours_node_by_node_and_back(tmp_path: Path) -> None:
    """The cluster ends on our nodes: the last of Kafka's nodes to stop would wait for a majority of the controllers."""
    with MixedCluster(brokers=3, java={1, 2, 3}, properties={**QUICK, **SHARES}, directory=tmp_path) as cluster:
        moving = Moving(cluster, seed=5, has_java=True)
        assert moving.run(4, ["replaced node by node", "leader killed", "replaced node by node", "replaced node by node"]) == []


@pytest.mark.parametrize(
    ("java", "faults"),
    [
        pytest.param({2, 3}, ["leader moved", "leader killed", "controller killed", "leader moved"], id="brokers"),
        pytest.param({101, 102, 103}, ["leader killed", "controller killed"], id="controllers"),
        pytest.param({3, 103}, ["controller killed", "leader moved", "controller paused"], id="one voter and one broker"),
        pytest.param({1, 101, 102}, ["controller killed", "leader moved", "controller paused"], id="two voters and one broker"),
    ],
)
def test_what_clients_were_promised_holds_on_a_cluster_of_both(java: set[int], faults: list[str], tmp_path: Path) -> None:
    with MixedCluster(brokers=3, controllers=3, java=java, properties=QUICK, directory=tmp_path) as cluster:
        moving = Moving(cluster, seed=5, moves=MOVES)
        assert moving.run(len(faults), faults) == []
        assert all(epochs(cluster.nodes[each].log_dir / f"{ORDERS}-{index}") for each in (1, 2, 3) for index in range(PARTITIONS))
