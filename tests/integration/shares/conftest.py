"""A broker whose locks outlast any test that does not ask for short ones, a topic for each test, members that do as they are told."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.process import BrokerProcess
from proof.shares.member import ShareMember, configure_group

QUICK = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "60000",
}


TIERED = {
    "remote.log.storage.system.enable": "true",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "0",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    store = {"rsm.config.storage.url": f"file://{tmp_path_factory.mktemp('tier')}"}
    with BrokerProcess(properties=QUICK | TIERED | store) as broker:
        yield broker


@pytest.fixture
def address(broker: BrokerProcess) -> tuple[str, int]:
    return "127.0.0.1", broker.port


@pytest.fixture
def partition_count() -> int:
    return 2


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest, partition_count: int) -> str:
    """A topic, named after the test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partition_count, 1)])[name].result(30)
    return name


@pytest.fixture
def group(address: tuple[str, int], topic: str) -> str:
    """A share group that begins with the first record."""
    configure_group(address, "g-" + topic, share_auto_offset_reset="earliest")
    return "g-" + topic


@pytest.fixture
def produce(broker: BrokerProcess, topic: str, partition_count: int) -> Callable[..., list[bytes]]:
    def produce(count: int, start: int = 0) -> list[bytes]:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        values = [b"%06d" % number for number in range(start, start + count)]
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partition_count)
        assert producer.flush(30) == 0
        return values

    return produce


@pytest.fixture
def join(address: tuple[str, int], group: str, topic: str) -> Iterator[Callable[..., ShareMember]]:
    members: list[ShareMember] = []

    def join(**more: bool) -> ShareMember:
        member = ShareMember(address, group, topic, **more)
        members.append(member)
        member.join()
        return member

    yield join
    for member in members:
        member.close()
