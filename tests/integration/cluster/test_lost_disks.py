"""Lost disks: the other replicas fill the empty disks that came in their place."""

import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.child import CLUSTER_ID
from moldau.testing.cluster import Cluster, ClusterNode
from moldau.testing.process import moldau_command

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

WITHIN_S = 90.0
PARTITIONS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Brokers of two folders each, and one controller."""
    made = Cluster(brokers=3, controllers=1)
    for node in made.nodes.values():
        if node.is_broker:
            node.extra = {**node.extra, "log.dirs": f"{node.directory}/one,{node.directory}/two"}
    with made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(WITHIN_S)
        produce(made, 100)
        yield made


def produce(cluster: Cluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for index in range(PARTITIONS):
        for number in range(count):
            producer.produce("orders", b"%d" % number, partition=index)
    assert producer.flush(WITHIN_S) == 0


def wait_until_whole(cluster: Cluster) -> None:
    until_s = time.monotonic() + WITHIN_S
    while any(len(one.isr_nodes) < 3 for one in cluster.metadata("orders").topics[0].partitions):
        assert time.monotonic() < until_s, cluster.metadata("orders")


def logs_of(node: ClusterNode) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in node.directory.glob("*/orders-*/*.log")}


def is_equal_everywhere(cluster: Cluster) -> bool:
    for number in (1, 2, 3):
        cluster.stop(number)
    one, two, three = (logs_of(cluster.nodes[number]) for number in (1, 2, 3))
    return len(one) == PARTITIONS and one == two == three


def test_a_broker_that_lost_all_its_disks_is_filled_again(cluster: Cluster) -> None:
    cluster.kill(1)
    produce(cluster, 50)
    for folder in ("one", "two"):
        shutil.rmtree(cluster.nodes[1].directory / folder)
    cluster.start_again(1)  # formats the new folders
    wait_until_whole(cluster)
    produce(cluster, 50)
    assert is_equal_everywhere(cluster)


def test_a_broker_that_lost_one_of_its_disks_is_filled_again(cluster: Cluster) -> None:
    """The folder that is left keeps its records: they are not fetched anew."""
    node = cluster.nodes[1]
    cluster.stop(1)
    produce(cluster, 50)
    shutil.rmtree(node.directory / "two")
    arguments = ("-t", CLUSTER_ID, "-c", str(node.properties_file), "--no-initial-controllers", "--ignore-formatted")
    subprocess.run(moldau_command("storage", "format", *arguments), env=node.environment(), check=True, capture_output=True)
    cluster.start_again(1)
    wait_until_whole(cluster)
    produce(cluster, 50)
    assert is_equal_everywhere(cluster)
