"""● The same load as real clients make it: librdkafka through confluent-kafka, and Java's own tools.

`python -m benchmarks.clients '{"kind": "produce", …}'` runs librdkafka in a process of its own and prints JSON.
"""

import json
import re
import sys
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from proof.kafka.apache import Tool, run_tool

PRODUCER = {"linger.ms": 5, "batch.size": 1 << 20, "queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 1 << 18}
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "max.partition.fetch.bytes": 1 << 20,
    # By default librdkafka rests for a second when its queue is full: the rests would set the pace, not the broker.
    "fetch.queue.backoff.ms": 5,
}
JAVA_PERF = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC")
PATIENCE_S = 60.0
MANY = 10_000
TRANSACTION_RECORDS = 10


def create_topic(bootstrap: str, topic: str, partitions: int, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for future in admin.create_topics([NewTopic(topic, partitions, replicas)], operation_timeout=10).values():
        future.result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for future in admin.delete_topics([topic], operation_timeout=10).values():
        future.result(30)


def produce(bootstrap: str, topic: str, *, partitions: int, record_size: int, warm_s: float, seconds: float) -> dict[str, float]:
    """One librdkafka producer at full speed.  Only records acknowledged inside the window count."""
    acknowledged = [0, 0]

    def delivered(error: object, _: object) -> None:
        acknowledged[bool(error)] += 1

    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "on_delivery": delivered, **PRODUCER})
    value = b"x" * record_size
    begin = time.perf_counter()
    start, end, at_start, index = begin + warm_s, begin + warm_s + seconds, -1, 0
    while (moment := time.perf_counter()) < end:
        if at_start < 0 and moment >= start:
            at_start, start = acknowledged[0], moment
        for _ in range(500):
            index += 1
            try:
                producer.produce(topic, value, partition=index // 100 % partitions)
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    records = acknowledged[0] - at_start
    elapsed = time.perf_counter() - start
    producer.flush(30)
    if acknowledged[1]:
        raise RuntimeError(f"{acknowledged[1]} records failed")
    return {"records": records, "bytes": records * record_size, "seconds": elapsed, "all_bytes": acknowledged[0] * record_size}


def replicated(
    bootstrap: str, topic: str, *, partitions: int, record_size: int, warm_s: float, seconds: float, rate: float = 0.0
) -> dict[str, float]:
    """One idempotent librdkafka producer with acks=all, as fast as it goes or at `rate` records a second; latencies in ms.

    A record counts once all in-sync replicas have it.  The window is longer than `seconds` where it would otherwise see none.
    """
    times: list[float] = []
    failed = 0
    acknowledged = 0

    def delivered(error: object, message: Message) -> None:
        nonlocal failed, acknowledged
        if error is not None:
            failed += 1
            return
        acknowledged += 1
        times.append(message.latency() or 0.0)

    options = {"linger.ms": 0} if rate else PRODUCER
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "on_delivery": delivered, **options})
    value = b"x" * record_size
    begin = time.perf_counter()
    start, end, at_start, index = begin + warm_s, begin + warm_s + seconds, -1, 0
    while (moment := time.perf_counter()) < end or (not times and moment < end + PATIENCE_S):
        if at_start < 0 and moment >= start:
            at_start, start = acknowledged, moment
            times.clear()
        due = int((moment - begin) * rate) if rate else index + 500
        while index < due:
            try:
                producer.produce(topic, value, partition=(index if rate else index // 100) % partitions)
            except BufferError:
                producer.poll(0.01)
                break
            index += 1
        producer.poll(0.001 if rate else 0)
    records = acknowledged - at_start
    elapsed = time.perf_counter() - start
    measured = sorted(times)
    producer.flush(60)
    if failed or not measured:
        raise RuntimeError(f"{failed} records failed, {acknowledged} were acknowledged in all")
    return {
        "records": records,
        "bytes": records * record_size,
        "seconds": elapsed,
        "all_bytes": acknowledged * record_size,
        "p50_ms": measured[len(measured) // 2] * 1000,
        "p99_ms": measured[len(measured) * 99 // 100] * 1000,
    }


def consume(bootstrap: str, topic: str, *, partitions: int, record_size: int, warm_s: float, seconds: float) -> dict[str, float]:
    """One librdkafka consumer by assignment; at the end of the topic it starts again."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.partition.eof": True, "auto.offset.reset": "earliest", **CONSUMER})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    begin = time.perf_counter()
    start, end, records, all_records, first = begin + warm_s, begin + warm_s + seconds, 0, 0, 0.0
    while (moment := time.perf_counter()) < end:
        for message in consumer.consume(MANY, timeout=0.2):
            if message.error():
                consumer.seek(TopicPartition(topic, message.partition() or 0, 0))
                continue
            all_records += 1
            records += moment >= start
        first = first or moment * (moment >= start)
    elapsed = time.perf_counter() - (first or start)
    consumer.close()
    return {"records": records, "bytes": records * record_size, "seconds": elapsed, "all_bytes": all_records * record_size}


def transactions(bootstrap: str, topic: str, *, partitions: int, record_size: int, warm_s: float, seconds: float) -> dict[str, float]:
    """One transaction after the other.  Each writes ten records over all partitions and commits."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{topic}", "linger.ms": 0})
    producer.init_transactions(30)
    value = b"x" * record_size
    times: list[float] = []
    begin = time.perf_counter()
    end = begin + warm_s + seconds
    while (started := time.perf_counter()) < end:
        producer.begin_transaction()
        for number in range(TRANSACTION_RECORDS):
            producer.produce(topic, value, partition=number % partitions)
        producer.commit_transaction(30)
        if started >= begin + warm_s:
            times.append(time.perf_counter() - started)
    times.sort()
    elapsed = sum(times)
    return {
        "transactions": len(times),
        "seconds": elapsed,
        "p50_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[len(times) * 99 // 100] * 1000,
    }


def java_produce(bootstrap: str, topic: str, *, record_size: int, records: int) -> Mapping[str, float]:
    """The closing line of Java's ProducerPerformance, as numbers."""
    options = {"acks": "1", "batch.size": "131072", "linger.ms": "5"}
    named = [word for key, value in options.items() for word in ("--command-property", f"{key}={value}")]
    sizes = ("--num-records", str(records), "--record-size", str(record_size), "--throughput", "-1")
    where = ("--topic", topic, "--bootstrap-server", bootstrap)
    said = run_tool(Tool.PRODUCER_PERF, *where, *sizes, *named, flags=JAVA_PERF, timeout_s=300.0)
    found = re.search(r"([\d.]+) records/sec \(([\d.]+) MB/sec\).*?([\d.]+) ms 99th", said.splitlines()[-1])
    if not found:
        raise RuntimeError(f"ProducerPerformance said: {said}")
    return {"records_s": float(found[1]), "mb_s": float(found[1]) * record_size / 1e6, "p99_ms": float(found[3])}


def java_consume(bootstrap: str, topic: str, *, records: int) -> Mapping[str, float]:
    """Java's ConsumerPerformance: its rates without the time that joining the group took."""
    said = run_tool(
        Tool.CONSUMER_PERF,
        "--topic",
        topic,
        "--bootstrap-server",
        bootstrap,
        "--num-records",
        str(records),
        flags=JAVA_PERF,
        timeout_s=300.0,
    )
    names, values = (line.split(", ") for line in said.splitlines() if ", " in line)
    row = dict(zip(names, values, strict=True))
    return {"mb_s": float(row["fetch.MB.sec"]) * 1.048576, "records_s": float(row["fetch.nMsg.sec"])}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    kind = {"produce": produce, "consume": consume, "transactions": transactions, "replicated": replicated}[given.pop("kind")]
    print(json.dumps(kind(**given)))
