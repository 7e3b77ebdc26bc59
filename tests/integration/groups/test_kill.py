"""SIGKILL of the broker under a group at work: offsets survive, the group goes on, nothing is lost."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, TopicPartition

from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("groups")]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_after_its_coordinator_was_killed(
    broker: BrokerProcess, crowd, topic: str, produce: Callable[..., list[bytes]], protocol: str
) -> None:
    members = [crowd.join("g-" + topic, topic, **{"group.protocol": protocol, "enable.auto.commit": False}) for _ in range(2)]
    crowd.settles(2, 2)
    first = produce(topic, 40)
    crowd.wait_for(lambda: len(crowd.seen) == 40, "reading")
    for member in members:
        member.commit(offsets=[TopicPartition(topic, one.partition, 10) for one in member.assignment()], asynchronous=False)
    broker.kill()
    broker.start()
    second = produce(topic, 40, start=40)
    crowd.wait_for(lambda: set(crowd.values()) >= {*first, *second}, "reading on", within_s=90)
    assert [value for value in crowd.values() if value in first] == first, "committed records do not come again"
    crowd.settles(2, 2)


def test_committed_offsets_survive(broker: BrokerProcess, crowd, topic: str, produce: Callable[..., list[bytes]]) -> None:
    produce(topic, 40)
    consumer = crowd.join("g-" + topic, topic, **{"enable.auto.commit": False})
    crowd.wait_for(lambda: len(crowd.seen) == 40, "reading")
    consumer.commit(offsets=[TopicPartition(topic, index, index + 1) for index in range(4)], asynchronous=False)
    broker.kill()
    broker.start()
    found: list[int] = []

    def has_answered() -> bool:
        """librdkafka gives up at once while it looks for the coordinator anew."""
        try:
            asked = consumer.committed([TopicPartition(topic, index) for index in range(4)], timeout=10)
        except KafkaException:
            return False
        found[:] = [one.offset for one in asked]
        return True

    crowd.wait_for(has_answered, "an answer")
    assert found == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """A broker of this module's own, to be killed."""
    with BrokerProcess(
        properties={"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "300"}
    ) as one:
        yield one
