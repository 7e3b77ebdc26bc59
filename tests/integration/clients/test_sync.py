"""The blocking clients, on our broker and on Apache Kafka: from one thread, from many, and inside a program that has a loop of its own."""

import asyncio
import threading
import uuid

import pytest

from moldau import TopicPartition
from moldau.sync import Consumer, Producer

pytestmark = pytest.mark.xdist_group("both brokers")


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def test_there_and_back(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        where = producer.send(topic, b"a", key=b"k").result(60)
        producer.send(topic, b"b")
        assert producer.send_many(topic, [b"c", b"d"]).record_count == 2
    assert (where.topic, where.offset) == (topic, 0)
    with Consumer(bootstrap, group_id=topic, topics=[topic], auto_offset_reset="earliest") as consumer:
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 4:
                break
        consumer.commit({TopicPartition(topic, 0): 4})
    assert found == [b"a", b"b", b"c", b"d"]
    with Consumer(bootstrap, group_id=topic) as consumer:
        committed = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        assert committed is not None
        assert committed.offset == 4


def test_many_threads_send_in_their_own_order(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, buffer_memory=1_000_000) as producer:

        def work(name: int) -> None:
            for number in range(2000):
                producer.send(topic, b"%d %d" % (name, number), partition=0)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found: dict[bytes, list[int]] = {}
    with Consumer(bootstrap) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        while sum(map(len, found.values())) < 8000:
            for records in consumer.poll():
                for value in records.values:
                    name, number = value.split()
                    found.setdefault(name, []).append(int(number))
    assert all(numbers == list(range(2000)) for numbers in found.values())


def test_a_transaction_that_fails_leaves_nothing(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=topic) as producer:

        def fail() -> None:
            with producer.transaction():
                producer.send(topic, b"aborted").result(60)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with producer.transaction():
            producer.send(topic, b"kept")
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        found = []
        while not found:
            found = [value for records in consumer.poll() for value in records.values]
    assert found == [b"kept"]


async def test_beside_a_loop_of_ones_own(bootstrap: str, topic: str) -> None:
    def work() -> int:
        with Producer(bootstrap) as producer:
            return producer.send(topic, b"x").result(60).offset

    assert await asyncio.to_thread(work) == 0


def test_errors_come_with_the_future(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer, pytest.raises(TypeError, match="value_serializer"):
        producer.send(topic, 17).result(60)
