"""Real processes, a stock client, and nodes that die: every acknowledged record is there, once, in order."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.cluster import FIRST_CONTROLLER, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

WITHIN_S = 90.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        yield started


def create(cluster: Cluster, *topics: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 3) for name in topics]).values():
        future.result(WITHIN_S)


class Sender:
    """An idempotent producer that knows what was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[KafkaError] = []
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})

    def send(self, values: range) -> None:
        for value in values:
            self._producer.produce(self._topic, str(value).encode(), partition=0, callback=self._note)
            self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(WITHIN_S) == 0, "records were neither acknowledged nor refused in time"
        assert not self.failed, self.failed

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged.append(int(message.value() or b""))


def read(cluster: Cluster, topic: str, count: int, *, group: str) -> list[int]:
    """The values of `count` committed records, or of all that come in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[int] = []
    until = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(int(message.value() or b""))
    consumer.close()
    return found


def test_what_is_acknowledged_outlives_leaders_and_comes_in_order(cluster: Cluster) -> None:
    create(cluster, "orders")
    sender = Sender(cluster, "orders")
    sender.send(range(200))
    sender.flush()
    for begin in (200, 400):
        leader = cluster.leader("orders", 0)
        cluster.kill(leader)
        sender.send(range(begin, begin + 200))
        sender.flush()
        assert cluster.leader("orders", 0) != leader
        cluster.start_again(leader)
    assert sender.acknowledged == list(range(600))
    assert read(cluster, "orders", 600, group="readers") == list(range(600))


def test_a_leader_that_is_killed_is_replaced_long_before_its_session_ends() -> None:
    with Cluster(brokers=3, properties={"broker.session.timeout.ms": "120000"}) as cluster:
        create(cluster, "orders")
        leader = cluster.leader("orders", 0)
        began_s = time.monotonic()
        cluster.kill(leader)
        while cluster.leader("orders", 0) == leader:
            assert time.monotonic() - began_s < WITHIN_S, "the dead leader's session lasts two minutes: nobody has to wait for its end"


def test_transactions_span_brokers_and_survive_one_of_them(cluster: Cluster) -> None:
    create(cluster, "orders", "copies")
    sender = Sender(cluster, "orders")
    sender.send(range(120))
    sender.flush()
    copier = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "copier"})
    copier.init_transactions(WITHIN_S)
    for number, begin in enumerate(range(0, 120, 20)):
        if number == 3:
            cluster.kill(cluster.leader("copies", 0))

        def copy(begin: int = begin) -> None:
            copier.begin_transaction()
            for value in range(begin, begin + 20):
                copier.produce("copies", str(value).encode(), partition=value % 3)
            copier.commit_transaction(WITHIN_S)

        _again_after_abort(copier, copy)
    assert sorted(read(cluster, "copies", 120, group="readers")) == list(range(120))


def _again_after_abort(producer: Producer, work: Callable[[], None]) -> None:
    while True:
        try:
            return work()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(WITHIN_S)


def test_a_clean_stop_hands_over_and_a_group_goes_on(cluster: Cluster) -> None:
    create(cluster, "orders")
    sender = Sender(cluster, "orders")
    sender.send(range(100))
    sender.flush()
    assert read(cluster, "orders", 100, group="readers") == list(range(100))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    for node_id in (1, 2, 3):
        assert cluster.stop(node_id) == 0
        (found,) = consumer.committed([TopicPartition("orders", 0)], WITHIN_S)
        assert found.offset == 100, "offsets that a group committed move with their coordinator"
        cluster.start_again(node_id)
    consumer.close()
    sender.send(range(100, 200))
    sender.flush()
    assert read(cluster, "orders", 100, group="readers") == list(range(100, 200))


def test_controllers_of_their_own_elect_another_when_one_dies() -> None:
    with Cluster(brokers=2, controllers=3) as cluster:
        create_with = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for number in range(3):
            for future in create_with.create_topics([NewTopic(f"topic-{number}", 1, 2)]).values():
                future.result(WITHIN_S)
            node_id = FIRST_CONTROLLER + number
            cluster.kill(node_id)
            for future in create_with.create_topics([NewTopic(f"meanwhile-{number}", 1, 2)]).values():
                future.result(WITHIN_S)
            cluster.start_again(node_id)
        names = {topic.name for topic in cluster.metadata().topics}
        assert {f"topic-{number}" for number in range(3)} | {f"meanwhile-{number}" for number in range(3)} <= names


def test_a_broker_that_died_is_listed_for_a_while_and_one_that_stopped_is_not(cluster: Cluster) -> None:
    """librdkafka takes a broker that is missing in the metadata for gone for good, and waits a second longer for the new leader."""
    create(cluster, "orders", partitions=1)
    first = cluster.leader("orders", 0)
    cluster.kill(first)
    second = cluster.leader("orders", 0)
    assert first in {broker.node_id for broker in cluster.metadata().brokers}
    cluster.start_again(first)
    cluster.wait_for_brokers([first])
    cluster.stop(second)
    until_s = time.monotonic() + WITHIN_S
    while second in {broker.node_id for broker in cluster.metadata().brokers}:
        assert time.monotonic() < until_s
        time.sleep(0.05)
