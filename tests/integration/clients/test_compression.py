"""Large batches are compressed on threads, in order, whoever reads and however a producer ends, on our broker and on Apache Kafka."""

import asyncio
import random
import threading
import uuid
from collections.abc import Callable
from typing import TypeVar

import pytest

from moldau import Consumer, NewTopic, Producer, TopicPartition, sync
from moldau.clients.errors import RetriableError
from moldau.clients.producer.off_loop import LARGE_BYTES, CompressionThreads
from moldau.protocol.records.compression import Codec

pytestmark = pytest.mark.xdist_group("both brokers")

T = TypeVar("T")

PARTITIONS = 4
CODECS = ["gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    with sync.Admin(bootstrap) as admin:
        admin.topics.create([NewTopic(name, PARTITIONS)])
    return name


class Watched(CompressionThreads):
    """Notes which threads work."""

    large_bytes = dict.fromkeys(Codec, 100_000)

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    async def run(self, work: Callable[[], T]) -> T:
        def noted() -> T:
            self.threads.add(threading.get_ident())
            return work()

        return await super().run(noted)


def values_of(count: int) -> list[bytes]:
    choice = random.Random(count)
    return [b"%d " % number + choice.randbytes(20) * 10 for number in range(count)]


async def read(bootstrap: str, topic: str, count: int) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {index: [] for index in range(PARTITIONS)}
    async with Consumer(bootstrap) as consumer, asyncio.timeout(60):
        await consumer.assign({TopicPartition(topic, index): 0 for index in range(PARTITIONS)})
        while sum(map(len, found.values())) < count:
            for records in await consumer.poll():
                found[records.partition] += records.raw_values
    return found


@pytest.mark.parametrize("codec", CODECS)
async def test_large_and_small_batches_keep_their_order(bootstrap: str, topic: str, codec: str) -> None:
    threads = Watched()
    values = values_of(8000)
    async with Producer(bootstrap, compression_type=codec, batch_size=600_000, linger_ms=5, off_loop=threads) as producer:
        for index in range(PARTITIONS):
            producer.send(topic, b"first", partition=index)
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % PARTITIONS)
            if number % 1000 == 0:
                await asyncio.sleep(0)
        await producer.flush()
        retries = producer.metrics()["producer.record.retry.total"]
    assert await read(bootstrap, topic, len(values) + PARTITIONS) == {
        index: [b"first", *values[index::PARTITIONS]] for index in range(PARTITIONS)
    }
    assert threads.threads
    assert threading.get_ident() not in threads.threads
    assert retries == 0
    assert await threads.run(threading.get_ident) != threading.get_ident(), "who brings threads ends them"
    threads.close()
    assert await threads.run(threading.get_ident) == threading.get_ident(), "closed threads leave the work to the loop"


def test_a_blocking_producer(bootstrap: str, topic: str) -> None:
    values = values_of(4000)
    with sync.Producer(bootstrap, compression_type="gzip", batch_size=LARGE_BYTES[Codec.GZIP] * 4) as producer:
        producer.send_many(topic, values, partition=0)
    assert asyncio.run(read(bootstrap, topic, len(values)))[0] == values


async def test_transactions(bootstrap: str, topic: str) -> None:
    values = values_of(2000)
    async with Producer(bootstrap, transactional_id=topic, compression_type="gzip", batch_size=LARGE_BYTES[Codec.GZIP] * 4) as producer:
        for part in (values[:1000], values[1000:]):
            async with producer.transaction():
                await producer.send_many(topic, part, partition=1)
    found = (await read(bootstrap, topic, len(values)))[1]
    assert found == values


async def test_a_producer_that_is_stopped_while_it_compresses(bootstrap: str, topic: str) -> None:
    producer = await Producer(bootstrap, compression_type="gzip", compression_gzip_level=9, batch_size=900_000).start()
    await producer.send(topic, b"a", partition=0)
    deliveries = [producer.send(topic, value, partition=0) for value in values_of(3000)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await producer.close(timeout_ms=0)
    ends = await asyncio.gather(*deliveries, return_exceptions=True)
    assert {type(end) for end in ends if isinstance(end, BaseException)} <= {RetriableError}
