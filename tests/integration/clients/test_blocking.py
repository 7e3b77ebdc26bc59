"""The client without an event loop, on our broker and on Apache Kafka: it fences and is fenced, reads committed records, authenticates."""

import uuid
from collections.abc import Iterator

import pytest

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.connection import Wire
from moldau.clients.blocking.fetch import OffsetGone, PartitionReader
from moldau.clients.blocking.offsets import LATEST, committed, list_offsets
from moldau.clients.blocking.produce import BatchWriter
from moldau.clients.blocking.transactions import OffsetMark, add_offset, begin, end
from moldau.clients.cluster import parse_bootstrap
from moldau.clients.errors import AuthenticationError
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.kafka.apache import ApacheKafka
from proof.kafka.secured import PASSWORD, USER, SecuredKafka, unsecured_token
from pyspark_moldau.options import read_options
from pyspark_moldau.session import cluster_of

pytestmark = pytest.mark.slow

SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
BY_NAME = {"ours": BrokerProcess, "apache": ApacheKafka}
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.java)])
def broker(request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    with BY_NAME[request.param](properties=SOON) as running:
        yield running


@pytest.fixture
def cluster(broker: NodeProcess) -> Iterator[BlockingCluster]:
    with BlockingCluster(parse_bootstrap(broker.bootstrap), Wire(answer_within_s=20), give_up_after_s=30) as cluster:
        yield cluster


@pytest.fixture
def place(cluster: BlockingCluster) -> TopicPartition:
    """The partition of a topic that only one test uses."""
    return a_topic(cluster)


def a_topic(cluster: BlockingCluster) -> TopicPartition:
    name = f"t-{uuid.uuid4()}"
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    cluster.any().send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    return TopicPartition(name, 0)


def some(count: int, codec: Codec = Codec.NONE) -> bytearray:
    return build_batch([NewRecord(1, str(number).encode(), b"v" * number) for number in range(count)], codec=codec, is_transactional=True)


def test_what_is_committed_is_read(cluster: BlockingCluster, place: TopicPartition) -> None:
    for turn, is_commit in enumerate((True, False, True)):
        producer = begin(cluster, place.topic, timeout_ms=60_000)
        writer = BatchWriter(cluster, producer)
        for codec in Codec:
            writer.add(place, some(20, codec))
        writer.flush()
        add_offset(cluster, producer, OffsetMark(place.topic, (place.topic,), turn, f"mark {turn}"))
        end(cluster, producer, commit=is_commit)
    begin(cluster, place.topic, timeout_ms=60_000)  # waits for the markers of the last transaction
    assert committed(cluster, place.topic) == {place: (2, "mark 2")}
    last = list_offsets(cluster, {place: LATEST}, read_committed=True)[place]
    topic_id = cluster.refresh([place.topic]).topic_id_of(place.topic)
    reader = PartitionReader(cluster, place, topic_id, 0, last, read_committed=True, fetch_bytes=2_000)
    found = [offset for columns in reader.read() for offset in columns.offsets.tolist()]
    assert found == [*range(100), *range(202, 302)]


def test_a_second_driver_fences_the_first(cluster: BlockingCluster, place: TopicPartition) -> None:
    first = begin(cluster, place.topic, timeout_ms=60_000)
    writer = BatchWriter(cluster, first)
    writer.add(place, some(5))
    writer.flush()
    second = begin(cluster, place.topic, timeout_ms=60_000)
    for attempt in (lambda: writer.add(place, some(5)) or writer.flush(), lambda: end(cluster, first, commit=True)):  # type: ignore[func-returns-value]
        with pytest.raises(KafkaError) as caught:
            attempt()
        assert caught.value.code in FENCED
    successor = BatchWriter(cluster, second)
    successor.add(place, some(7))
    successor.flush()
    end(cluster, second, commit=True)
    begin(cluster, place.topic, timeout_ms=60_000)
    last = list_offsets(cluster, {place: LATEST}, read_committed=True)[place]
    reader = PartitionReader(cluster, place, uuid.UUID(int=0), 0, last, read_committed=True)
    assert sum(len(columns) for columns in reader.read()) == 7


def test_a_driver_that_is_frozen_for_too_long_commits_nothing(cluster: BlockingCluster, place: TopicPartition) -> None:
    frozen = begin(cluster, place.topic, timeout_ms=300)
    writer = BatchWriter(cluster, frozen)
    writer.add(place, some(5))
    writer.flush()
    aborted_at = 6  # five records and the marker: the broker has ended the transaction by itself

    def ended() -> None:
        if list_offsets(cluster, {place: LATEST}, read_committed=True)[place] < aborted_at:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "not yet")

    cluster.retrying(ended)
    with pytest.raises(KafkaError) as caught:
        end(cluster, frozen, commit=True)
    assert caught.value.code in FENCED
    reader = PartitionReader(cluster, place, uuid.UUID(int=0), 0, aborted_at, read_committed=True)
    assert list(reader.read()) == []


def test_what_is_not_there_is_said(cluster: BlockingCluster, place: TopicPartition) -> None:
    with pytest.raises(OffsetGone):
        list(PartitionReader(cluster, place, uuid.UUID(int=0), 50, 60).read())
    other = cluster.refresh([a_topic(cluster).topic]).topics
    (other_id,) = {one.topic_id for name, one in other.items() if name != place.topic}
    cluster.give_up_after_s = 0.5
    with pytest.raises(KafkaError) as caught:
        list(PartitionReader(cluster, TopicPartition("anew", 0), uuid.uuid4(), 0, 1).read())
    assert caught.value.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert other_id


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    with SecuredKafka() as kafka:
        yield kafka


@pytest.mark.java
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_sasl_over_tls(secured: SecuredKafka, mechanism: str) -> None:
    with cluster_of(read_options(secured_options(secured, mechanism)), "source") as cluster:
        assert cluster.refresh().nodes


@pytest.mark.java
def test_a_wrong_password_is_said(secured: SecuredKafka) -> None:
    options = secured_options(secured, "PLAIN") | {"kafka.sasl.password": "wrong"}
    with cluster_of(read_options(options), "source") as cluster, pytest.raises(AuthenticationError):
        cluster.refresh()


def secured_options(kafka: SecuredKafka, mechanism: str) -> dict[str, str]:
    assert kafka.certificates is not None
    return {
        "kafka.bootstrap.servers": kafka.sasl,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(kafka.certificates.authority),
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": USER,
        "kafka.sasl.password": PASSWORD,
        "kafka.sasl.oauthbearer.token": unsecured_token(),
    }
