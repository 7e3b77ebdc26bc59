"""A test may kill and pause processes that it shares with others: they are well again before the next test."""

import pytest

from moldau.sync import Producer
from moldau.testing.cluster import Cluster
from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("process-fixtures")]


@pytest.mark.parametrize("turn", range(2))
def test_a_process_is_well_again(moldau_process: BrokerProcess, turn: int) -> None:
    with Producer(moldau_process.bootstrap) as producer:
        assert producer.send("turns", b"x").result(60).offset == turn
    moldau_process.expect("turns", ["x"] * (turn + 1))
    moldau_process.kill()


@pytest.mark.parametrize("turn", range(2))
def test_a_cluster_is_whole_again(moldau_cluster: Cluster, turn: int) -> None:
    assert {broker.node_id for broker in moldau_cluster.metadata().brokers} == {1, 2, 3}
    with Producer(moldau_cluster.bootstrap) as producer:
        assert producer.send("turns", b"x").result(60).offset == turn
    moldau_cluster.expect("turns", ["x"] * (turn + 1))
    moldau_cluster.create_topic(f"of-turn-{turn}")
    assert len(moldau_cluster.metadata(f"of-turn-{turn}").topics[0].partitions[0].replica_nodes) == 3
    moldau_cluster.pause(1)
    moldau_cluster.kill(2)
    moldau_cluster.kill(3)
