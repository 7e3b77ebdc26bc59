"""Clusters of ours and Apache Kafka's under stock clients: nothing acknowledged is lost, doubled or out of order, replicas are equal.

Kafka's brokers that are stopped after all controllers wait for them for minutes, so nothing here stops everything at once.
"""

import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.records.batch import batches
from proof.cluster.process_load import ORDERS, PARTITIONS
from proof.cluster.processes import BETWEEN_LOOKS_S, QUICK, WHOLE_WITHIN_S, Hurting
from proof.kafka.mixed import MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("cluster")]

MOVES = int(os.environ.get("MOLDAU_LEADERSHIP_MOVES", "6"))


class Moving(Hurting):
    """Whose leaders are moved from broker to broker, too."""

    def __init__(self, cluster: MixedCluster, seed: int, *, has_copier: bool = True) -> None:
        """Not `has_copier`: where nodes are away for long, librdkafka waits beyond the time of its transaction (its issue 5511)."""
        super().__init__(cluster, seed, has_copier=has_copier)
        self._kinds["leader moved"] = self._move_leaders
        self._kinds["replaced node by node"] = lambda: self._replace_all(cluster)

    def _move_leaders(self) -> None:
        for number in range(MOVES):
            self._move_leader(number % PARTITIONS, 1 + (number // PARTITIONS + number) % 3)

    def _replace_all(self, cluster: MixedCluster) -> None:
        """Each node that was Kafka's is ours, and the other way round."""
        for node_id in cluster.nodes:
            assert cluster.stop(node_id) == 0
            cluster.replace(node_id)
            cluster.start_again(node_id)
            self._wait_until_whole(f"node {node_id} replaced")

    def _move_leader(self, index: int, wanted: int) -> None:
        """By making another replica the preferred one, as kafka-reassign-partitions and kafka-leader-election do."""
        replicas = [wanted, *(each for each in (1, 2, 3) if each != wanted)]
        topic = ReassignableTopic(name=ORDERS, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        asked = self.cluster.nodes[1 + index].ask(AlterPartitionReassignmentsRequest(topics=[topic]), version=1)
        assert asked.error_code == ErrorCode.NONE
        until_s = time.monotonic() + WHOLE_WITHIN_S
        while self.cluster.leader(ORDERS, index) != wanted:
            elect = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=ORDERS, partitions=[index])])
            assert self.cluster.nodes[1 + index].ask(elect, version=2).error_code == ErrorCode.NONE
            assert time.monotonic() < until_s, f"{ORDERS}-{index} is not led by {wanted}"
            self._calm(BETWEEN_LOOKS_S)


def test_a_cluster_moves_from_kafka_to_ours_node_by_node_and_back(tmp_path: Path) -> None:
    """And to ours again: the last of Kafka's to stop would wait for a majority of the controllers."""
    with MixedCluster(brokers=3, java={1, 2, 3}, properties=QUICK, directory=tmp_path) as cluster:
        moving = Moving(cluster, seed=5, has_copier=False)
        assert moving.run(4, ["replaced node by node", "leader killed", "replaced node by node", "replaced node by node"]) == []


def epochs(folder: Path) -> list[str]:
    """Of a stopped replica, those that have records: a leader notes the others, too."""
    lines = (folder / "leader-epoch-checkpoint").read_text(encoding="ascii").split("\n")[2:]
    log = b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))
    end = max(header.next_offset for _, header in batches(memoryview(log)))
    entries = [*(line.split() for line in lines if line), ["", str(end)]]
    return [f"{epoch}@{start}" for (epoch, start), (_, end) in pairwise(entries) if start != end]


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
        moving = Moving(cluster, seed=5)
        assert moving.run(len(faults), faults) == []
        for index in range(PARTITIONS):
            found = {tuple(epochs(cluster.nodes[each].log_dir / f"{ORDERS}-{index}")) for each in (1, 2, 3)}
            assert len(found) == 1, "which epoch began where"
            assert found != {()}
