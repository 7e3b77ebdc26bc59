"""A producer whose parts run in several processes: each has a connection of its own, and the broker bears it as Kafka does."""

from collections.abc import Iterator

import pytest

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.connection import Connection, ConnectionLost, Wire
from moldau.clients.blocking.offsets import EARLIEST, LATEST, committed, list_offsets
from moldau.clients.blocking.produce import BatchWriter
from moldau.clients.blocking.transactions import OffsetMark, TransactionalProducer, add_offset, add_partitions, begin, end
from moldau.clients.cluster import parse_bootstrap
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.kafka.apache import ApacheKafka

pytestmark = pytest.mark.slow

PARTITIONS = 4
BY_NAME = {"ours": BrokerProcess, "apache": ApacheKafka}


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.java)])
def broker(request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    with BY_NAME[request.param]() as running:
        with cluster_of(running) as cluster:
            topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
            cluster.any().send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        yield running


def cluster_of(broker: NodeProcess) -> BlockingCluster:
    return BlockingCluster(parse_bootstrap(broker.bootstrap), Wire(answer_within_s=20), give_up_after_s=20)


def adding(connection: Connection, producer: TransactionalProducer, partition: int) -> int:
    """Adds a partition to the transaction; returns the error code."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
    )
    response = connection.send(request, version=3)
    return response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def ending(connection: Connection, producer: TransactionalProducer) -> int:
    request = EndTxnRequest(
        transactional_id=producer.transactional_id, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=True
    )
    return connection.send(request, version=3).error_code


def ended_by(connection: Connection, producer: TransactionalProducer) -> None:
    while code := ending(connection, producer):
        assert code == 51, code  # the markers of the transaction before are being written


def added_by(connection: Connection, producer: TransactionalProducer, partition: int) -> None:
    while code := adding(connection, producer, partition):
        assert code == 51, code


@pytest.mark.parametrize("version", [1, 2])
def test_parts_write_over_connections_of_their_own(broker: NodeProcess, version: int) -> None:
    name = f"parts-{version}"
    clusters = [cluster_of(broker) for _ in range(5)]
    before = visible(clusters[0])
    for turn in range(3):
        producer = begin(clusters[turn], name, timeout_ms=60_000)._replace(transaction_version=version)
        if version == 1:
            for number in range(PARTITIONS):
                add_partitions(clusters[(turn + number) % 5], producer, [TopicPartition("t", number)])
        for number in reversed(range(PARTITIONS)):
            writer = BatchWriter(clusters[(2 * turn + number) % 5], producer)
            for _ in range(3):
                writer.add(TopicPartition("t", number), build_batch([NewRecord(1, b"k", b"v")] * 5, is_transactional=True))
            assert writer.flush()[TopicPartition("t", number)].records == 15
        add_offset(clusters[(turn + 1) % 5], producer, OffsetMark(name, ("t",), turn + 1, "mark"))
        end(clusters[(turn + 3) % 5], producer, commit=True)
    begin(clusters[0], name, timeout_ms=60_000)  # waits for the markers of the last transaction
    assert visible(clusters[0]) - before == 3 * PARTITIONS * (15 + 1), "records, and a marker each"
    assert committed(clusters[0], name) == {TopicPartition("t", 0): (3, "mark")}
    for cluster in clusters:
        cluster.close()


def test_one_transaction_over_connections_of_any_age(broker: NodeProcess) -> None:
    """No connection is closed: each one that is asked has to answer."""
    with cluster_of(broker) as cluster:
        node = cluster.refresh(["t"]).nodes[1]
        connections = [Connection.open(node.host, node.port, Wire()) for _ in range(4)]
        producer = begin(cluster, "ages", timeout_ms=60_000)
        for turn, number in enumerate((3, 1, 0, 2, 1, 3, 0)):
            added_by(connections[number], producer, turn % PARTITIONS)
        ended_by(connections[0], producer)
        for connection in connections:
            connection.close()


def test_what_was_given_up_does_not_end_the_next_transaction() -> None:
    """Only our broker is asked: Kafka ends the next transaction half-way there (KAFKA-17754)."""
    with BrokerProcess() as broker, cluster_of(broker) as cluster:
        topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        cluster.any().send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        node = cluster.refresh(["t"]).nodes[1]
        given_up, present = (Connection.open(node.host, node.port, Wire()) for _ in range(2))
        producer = begin(cluster, "late", timeout_ms=60_000)
        added_by(given_up, producer, 0)
        ended_by(present, producer)
        added_by(present, producer, 1)
        with pytest.raises(ConnectionLost):
            ending(given_up, producer)
        ended_by(present, producer)


def visible(cluster: BlockingCluster) -> int:
    partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=True)
    return sum(ends.values()) - sum(list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)).values())
