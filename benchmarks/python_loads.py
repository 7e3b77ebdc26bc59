"""● The loads that Python programs put on a client, once for each client library.  Each load runs in a process of its own and prints JSON.

`python -m benchmarks.python_loads '{"client": "moldau", "load": "consume-batches", …}'`

Every load touches every value, as a program would.  `cpu_s` is the time that this process computed: on a busy machine it says more than the
clock does.  The options are those of `benchmarks.clients`; all others are each library's own defaults.
"""

import asyncio
import json
import random
import selectors
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

TopicPart = tuple[str, int]
Numbers = dict[str, float]
MANY = 10_000
RETRY_S = 0.0005
WARM_RECORDS = 20_000
CONFLUENT_PRODUCER = {"linger.ms": 5, "batch.size": 1 << 20, "queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 1 << 18}
CONFLUENT_CONSUMER = {"group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 5}


class Load(NamedTuple):
    bootstrap: str
    topic: str
    partitions: int
    records: int
    record_size: int
    """Bytes of a value; 0: between 20 and 180, as chance has it."""
    rate: float
    """Records a second, for latencies."""


class Watch:
    """A stopwatch for the measured part alone: it starts after imports, connections and metadata."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self, records: int, size: int) -> Numbers:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return {"records_s": records / wall, "mb_s": size / wall / 1e6, "cpu_us": cpu / records * 1e6}


def values_of(load: Load) -> list[bytes]:
    chance = random.Random(1)
    if load.record_size:
        block = chance.randbytes(load.record_size + 64)
        few = [block[at : at + load.record_size] for at in range(64)]
    else:
        few = [chance.randbytes(chance.randint(20, 180)) for _ in range(997)]
    return [few[index % len(few)] for index in range(load.records)]


def percentiles(times: list[float]) -> Numbers:
    """Percentiles in milliseconds, from times in seconds.  The first tenth is warm-up and does not count."""
    measured = sorted(times[len(times) // 10 :])
    return {"p50_ms": measured[len(measured) // 2] * 1e3, "p99_ms": measured[len(measured) * 99 // 100] * 1e3}


def exact_loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers are late by 0.1 ms at most, for latencies.

    epoll waits whole milliseconds, and every answer begins such a wait anew.  Then half of a latency is the timer's, and which client comes
    out better depends on how its answers fall into the millisecond: a slower one may seem the faster.
    """
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def due_times(load: Load) -> Iterator[float]:
    """When each record is to be sent.  Each partition has its first record before: a broker syncs the file of its leader epochs then."""
    begin = time.perf_counter()
    for index in range(load.records):
        yield begin + index / load.rate


# ---------------------------------------------------------------- Moldau


async def moldau_produce_lists(load: Load) -> Numbers:
    from moldau import Producer

    values = values_of(load)
    async with Producer(load.bootstrap, acks=1, enable_idempotence=False, linger_ms=5, batch_size=1 << 20) as producer:
        await (await producer.send_many(load.topic, values[:100]))
        watch = Watch()
        waiting = [await producer.send_many(load.topic, values[at : at + MANY]) for at in range(0, len(values), MANY)]
        for one in waiting:
            await one
        return watch.stop(len(values), sum(map(len, values)))


async def moldau_produce_each(load: Load) -> Numbers:
    from moldau import Producer

    values = values_of(load)
    async with Producer(load.bootstrap, acks=1, enable_idempotence=False, linger_ms=5, batch_size=1 << 17) as producer:
        await producer.send(load.topic, values[0])
        watch = Watch()
        for index, value in enumerate(values):
            producer.send(load.topic, value)
            if not index % 500:
                await producer.drain()
        await producer.flush()
        return watch.stop(len(values), sum(map(len, values)))


async def moldau_consume(load: Load, take: "Callable[[Any, Load], Awaitable[tuple[Watch, int, int]]]") -> Numbers:
    from moldau import Consumer
    from moldau.types import TopicPartition

    async with Consumer(load.bootstrap) as consumer:
        await consumer.assign({TopicPartition(load.topic, index): 0 for index in range(load.partitions)})
        watch, records, size = await take(consumer, load)
        return watch.stop(records, size)


async def moldau_consume_batches(load: Load) -> Numbers:
    async def take(consumer: Any, load: Load) -> tuple[Watch, int, int]:
        watch, warm, count, size = Watch(), 0, 0, 0
        while warm + count < load.records:
            for records in await consumer.poll(1.0):
                values = records.values
                for value in values:
                    size += len(value)
                count += len(values)
            if not warm and count >= WARM_RECORDS:
                watch, warm, count, size = Watch(), count, 0, 0
        return watch, count, size

    return await moldau_consume(load, take)


async def moldau_consume_each(load: Load) -> Numbers:
    async def take(consumer: Any, load: Load) -> tuple[Watch, int, int]:
        watch, count, size = Watch(), 0, 0
        async for record in consumer:
            size += len(record.value)
            count += 1
            if count == WARM_RECORDS:
                watch, size = Watch(), 0
            if count == load.records:
                break
        return watch, count - WARM_RECORDS, size

    return await moldau_consume(load, take)


async def moldau_latency(load: Load) -> Numbers:
    from moldau import Producer

    values, times = values_of(load), []
    async with Producer(load.bootstrap, acks=1, enable_idempotence=False) as producer:
        for partition in range(load.partitions):
            await producer.send(load.topic, values[0], partition=partition)

        def told(due: float, where: object, error: object) -> None:
            times.append(time.perf_counter() - due)

        for value, due in zip(values, due_times(load), strict=True):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            producer.send(load.topic, value, on_delivery=partial(told, due))
        await producer.flush()
    return percentiles(times)


# ---------------------------------------------------------------- confluent-kafka


def confluent_produce(load: Load, *, each: bool) -> Numbers:
    from confluent_kafka import Producer

    told = [0, 0]

    def delivered(error: object, _: object) -> None:
        told[bool(error)] += 1

    producer = Producer(
        {"bootstrap.servers": load.bootstrap, "acks": 1, **CONFLUENT_PRODUCER, **({"on_delivery": delivered} if each else {})}
    )
    values = values_of(load)
    producer.produce(load.topic, values[0])
    producer.flush(30)
    watch = Watch()
    for index, value in enumerate(values):
        while True:
            try:
                producer.produce(load.topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if not index % 500:
            producer.poll(0)
    producer.flush(60)
    if told[1]:
        raise RuntimeError(f"{told[1]} records failed")
    return watch.stop(len(values), sum(map(len, values)))


def confluent_consumer(load: Load) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": load.bootstrap, **CONFLUENT_CONSUMER})
    consumer.assign([TopicPartition(load.topic, index, 0) for index in range(load.partitions)])
    return consumer


def confluent_consume_batches(load: Load) -> Numbers:
    consumer = confluent_consumer(load)
    watch, warm, count, size = Watch(), 0, 0, 0
    while warm + count < load.records:
        messages = consumer.consume(MANY, timeout=0.05)
        for message in messages:
            size += len(message.value())
        count += len(messages)
        if not warm and count >= WARM_RECORDS:
            watch, warm, count, size = Watch(), count, 0, 0
    result = watch.stop(count, size)
    consumer.close()
    return result


def confluent_consume_each(load: Load) -> Numbers:
    consumer = confluent_consumer(load)
    watch, count, size = Watch(), 0, 0
    while count < load.records:
        message = consumer.poll(1.0)
        if message is None:
            continue
        size += len(message.value())
        count += 1
        if count == WARM_RECORDS:
            watch, size = Watch(), 0
    result = watch.stop(count - WARM_RECORDS, size)
    consumer.close()
    return result


def confluent_latency(load: Load) -> Numbers:
    from confluent_kafka import Producer

    values, times = values_of(load), []

    def told(due: float, error: object, message: object) -> None:
        times.append(time.perf_counter() - due)

    producer = Producer({"bootstrap.servers": load.bootstrap, "acks": 1, "linger.ms": 0})
    for partition in range(load.partitions):
        producer.produce(load.topic, values[0], partition=partition)
    producer.flush(30)
    for value, due in zip(values, due_times(load), strict=True):
        while (left := due - time.perf_counter()) > 0:
            producer.poll(max(left, RETRY_S))
        producer.produce(load.topic, value, on_delivery=partial(told, due))
        producer.poll(0)
    producer.flush(30)
    return percentiles(times)


# ---------------------------------------------------------------- aiokafka


async def aiokafka_produce_each(load: Load) -> Numbers:
    from aiokafka import AIOKafkaProducer

    values = values_of(load)
    producer = AIOKafkaProducer(bootstrap_servers=load.bootstrap, acks=1, linger_ms=5, max_batch_size=1 << 17)
    await producer.start()
    try:
        await producer.send_and_wait(load.topic, values[0])
        watch = Watch()
        for value in values:
            await producer.send(load.topic, value)
        await producer.flush()
        return watch.stop(len(values), sum(map(len, values)))
    finally:
        await producer.stop()


async def aiokafka_consume_each(load: Load) -> Numbers:
    return await _aiokafka_consume(load, each=True)


async def aiokafka_consume_batches(load: Load) -> Numbers:
    return await _aiokafka_consume(load, each=False)


async def _aiokafka_consume(load: Load, *, each: bool) -> Numbers:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(load.topic, index) for index in range(load.partitions)])
    await consumer.start()
    watch, warm, count, size = Watch(), 0, 0, 0
    try:
        while warm + count < load.records:
            if each:
                size += len((await consumer.getone()).value)
                count += 1
            else:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=MANY)).values():
                    for record in records:
                        size += len(record.value)
                    count += len(records)
            if not warm and count >= WARM_RECORDS:
                watch, warm, count, size = Watch(), count, 0, 0
        return watch.stop(count, size)
    finally:
        await consumer.stop()


async def aiokafka_latency(load: Load) -> Numbers:
    from aiokafka import AIOKafkaProducer

    values, times = values_of(load), []

    def told(due: float, _: object) -> None:
        times.append(time.perf_counter() - due)

    producer = AIOKafkaProducer(bootstrap_servers=load.bootstrap, acks=1)
    await producer.start()
    try:
        for partition in range(load.partitions):
            await producer.send_and_wait(load.topic, values[0], partition=partition)
        for value, due in zip(values, due_times(load), strict=True):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            future = await producer.send(load.topic, value)
            future.add_done_callback(partial(told, due))
        await producer.flush()
        await asyncio.sleep(0.1)
    finally:
        await producer.stop()
    return percentiles(times)


# ---------------------------------------------------------------- kafka-python


def kafka_python_produce_each(load: Load) -> Numbers:
    from kafka import KafkaProducer

    values = values_of(load)
    producer = KafkaProducer(bootstrap_servers=load.bootstrap, acks=1, enable_idempotence=False, linger_ms=5, batch_size=1 << 17)
    producer.send(load.topic, values[0]).get(30)
    watch = Watch()
    for value in values:
        producer.send(load.topic, value)
    producer.flush()
    result = watch.stop(len(values), sum(map(len, values)))
    producer.close()
    return result


def _kafka_python_consumer(load: Load) -> Any:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, group_id=None)
    consumer.assign([TopicPartition(load.topic, index) for index in range(load.partitions)])
    return consumer


def kafka_python_consume_each(load: Load) -> Numbers:
    consumer = _kafka_python_consumer(load)
    watch, count, size = Watch(), 0, 0
    for record in consumer:
        size += len(record.value)
        count += 1
        if count == WARM_RECORDS:
            watch, size = Watch(), 0
        if count == load.records:
            break
    result = watch.stop(count - WARM_RECORDS, size)
    consumer.close()
    return result


def kafka_python_consume_batches(load: Load) -> Numbers:
    consumer = _kafka_python_consumer(load)
    watch, warm, count, size = Watch(), 0, 0, 0
    while warm + count < load.records:
        for records in consumer.poll(timeout_ms=1000, max_records=MANY).values():
            for record in records:
                size += len(record.value)
            count += len(records)
        if not warm and count >= WARM_RECORDS:
            watch, warm, count, size = Watch(), count, 0, 0
    result = watch.stop(count, size)
    consumer.close()
    return result


def kafka_python_latency(load: Load) -> Numbers:
    from kafka import KafkaProducer

    values, times = values_of(load), []

    def told(due: float, _: object) -> None:
        times.append(time.perf_counter() - due)

    producer = KafkaProducer(bootstrap_servers=load.bootstrap, acks=1, enable_idempotence=False)
    for partition in range(load.partitions):
        producer.send(load.topic, values[0], partition=partition).get(30)
    for value, due in zip(values, due_times(load), strict=True):
        while (left := due - time.perf_counter()) > 0:
            time.sleep(max(left, RETRY_S))
        producer.send(load.topic, value).add_callback(partial(told, due))
    producer.flush()
    producer.close()
    return percentiles(times)


LOADS: dict[str, dict[str, Callable[[Load], Any]]] = {
    "produce-lists": {"moldau": moldau_produce_lists, "confluent-kafka": lambda load: confluent_produce(load, each=False)},
    "produce-each": {
        "moldau": moldau_produce_each,
        "confluent-kafka": lambda load: confluent_produce(load, each=True),
        "aiokafka": aiokafka_produce_each,
        "kafka-python": kafka_python_produce_each,
    },
    "consume-batches": {
        "moldau": moldau_consume_batches,
        "confluent-kafka": confluent_consume_batches,
        "aiokafka": aiokafka_consume_batches,
        "kafka-python": kafka_python_consume_batches,
    },
    "consume-each": {
        "moldau": moldau_consume_each,
        "confluent-kafka": confluent_consume_each,
        "aiokafka": aiokafka_consume_each,
        "kafka-python": kafka_python_consume_each,
    },
    "latency": {
        "moldau": moldau_latency,
        "confluent-kafka": confluent_latency,
        "aiokafka": aiokafka_latency,
        "kafka-python": kafka_python_latency,
    },
}
"""Load → client → the function that runs the load."""


def main() -> None:
    given = json.loads(sys.argv[1])
    name = given.pop("load")
    work = LOADS[name][given.pop("client")](Load(**given))
    if asyncio.iscoroutine(work):
        with asyncio.Runner(loop_factory=exact_loop if name == "latency" else None) as runner:
            work = runner.run(work)
    print(json.dumps(work))


if __name__ == "__main__":
    main()
