"""Topologies on Spark and a broker make what the pure processors make, across micro-batches and a restart on the checkpoint."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import Row, SparkSession

from moldau.pipelines.streams import LONG, STRING, Driver, JoinWindows, StreamsBuilder, TimeWindows, Topology
from moldau.pipelines.streams.arrival import Arrived, in_turn
from moldau.pipelines.streams.spark import start
from moldau.pipelines.streams.view import View
from moldau.pipelines.topics import create_topics

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

PER_BATCH = 25
Piped = tuple[str, str | None, str | None, int]
"""Topic, key, value, timestamp."""


def some_records(prefix: str, seed: int, count: int, begins_ms: int) -> list[Piped]:
    """Records of topics `a` and `b`, out of order, some of them tombstones or without keys; rows of `a` name rows of `b`."""
    random, now, records = Random(seed), begins_ms, list[Piped]()
    for number in range(count):
        now += random.randint(0, 4)
        topic = random.choice("ab")
        key = None if random.random() < 0.03 else random.choice("pqrs")
        value = None if random.random() < 0.1 else f"{random.choice('pqrs')}{number}"
        records.append((prefix + topic, key, value, now - random.randint(0, 20)))
    return records


def topology_of(prefix: str) -> Topology:
    """A stream joined with another one, a count that is told once a window, and rows joined by a key that they name."""
    builder = StreamsBuilder(dropped_to=prefix + "dropped")
    a, b = builder.stream(prefix + "a", value=STRING), builder.stream(prefix + "b", value=STRING)
    joined = a.outer_join(b, lambda one, other: f"{one}|{other}", JoinWindows.of(10, grace_ms=5))
    joined.to(prefix + "joined", value=STRING)
    counts = a.group_by_key().windowed_by(TimeWindows(20, grace_ms=5)).count().suppress_until_window_closes().to_stream()
    counts.map(lambda key, count: (key.key, f"{key.start}: {count}")).to(prefix + "closed", value=STRING)
    named = a.to_table().join_on(b.to_table(), lambda key, value: value[0], lambda one, other: one + other)
    named.to_stream().to(prefix + "named", value=STRING)
    return builder.build()


def produce(bootstrap: str, records: Iterable[Piped]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic, key, value, timestamp in records:
        producer.produce(topic, key=key, value=value, timestamp=timestamp)
    assert producer.flush(30) == 0


def read(spark: SparkSession, bootstrap: str, topic: str) -> list[Row]:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    return spark.read.format("moldau").options(**options).load().orderBy("partition", "offset").collect()


def by_key(rows: Iterable[tuple[Any, Any, int]]) -> dict[Any, list[tuple[Any, int]]]:
    found: dict[Any, list[tuple[Any, int]]] = {}
    for key, value, timestamp in rows:
        found.setdefault(key, []).append((value, timestamp))
    return found


def told(rows: Iterable[Row]) -> dict[Any, list[tuple[Any, int]]]:
    return by_key((_text(row.key), _text(row.value), round(row.timestamp.timestamp() * 1000)) for row in rows)


def _text(data: bytearray | None) -> str | None:
    return None if data is None else data.decode()


def as_taken(records: list[Piped]) -> Iterator[Piped]:
    """The records in the order in which a task takes them: topics have one partition, a micro-batch takes `PER_BATCH` of each."""
    topics = sorted({record[0] for record in records})
    queues = {topic: [record for record in records if record[0] == topic] for topic in topics}
    while any(queues.values()):
        rows = []
        for topic in topics:
            for offset, (_, key, value, timestamp) in enumerate(queues[topic][:PER_BATCH]):
                rows.append(Arrived(topic, 0, offset, key and key.encode(), value and value.encode(), timestamp, None, topic))
            del queues[topic][:PER_BATCH]
        for row in in_turn(rows, topics):
            yield row.input, row.key and row.key.decode(), row.value and row.value.decode(), row.timestamp


def run(spark: SparkSession, topology: Topology, bootstrap: str, prefix: str, checkpoint: str) -> None:
    """Runs the topology to the end of the records that there are now."""
    options: dict[str, Any] = {"max_offsets_per_trigger": PER_BATCH, "trigger": {"availableNow": True}}
    query = start(spark, topology, bootstrap, application_id=prefix + "application", checkpoint=checkpoint, **options)
    query.awaitTermination()
    assert query.exception() is None


def test_a_topology_on_spark_writes_what_the_processors_make(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    kept = {"retention.ms": "-1"}  # the records are of 1970
    create_topics(bootstrap, {prefix + name: kept for name in ("a", "b", "joined", "closed", "named", "dropped")}, partitions=1)
    driver = Driver(topology_of(prefix))
    written = []
    for seed, begins_ms in ((1, 1_000), (2, 1_100)):
        records = some_records(prefix, seed, 70, begins_ms)
        produce(bootstrap, records)
        run(spark, topology_of(prefix), bootstrap, prefix, checkpoint)
        written += [out for record in as_taken(records) for out in driver.pipe(*record)]
    for topic in ("joined", "closed"):
        rows = told(read(spark, bootstrap, prefix + topic))
        wanted = by_key((out.record.key, out.record.value, out.record.timestamp) for out in written if out.target == prefix + topic)
        assert wanted
        assert rows == wanted, topic
    table = {key: values[-1][0] for key, values in told(read(spark, bootstrap, prefix + "named")).items()}
    wanted_table = {out.record.key: out.record.value for out in written if out.target == prefix + "named"}
    assert table == wanted_table
    dropped = read(spark, bootstrap, prefix + "dropped")
    reasons = sorted(bytes(header.value).decode() for row in dropped for header in row.headers if header.key == "reason")
    assert "LATE" in reasons
    assert "NULL_KEY" in reasons


def test_partitions_share_the_work_and_the_table_can_be_asked(
    spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str, tmp_path: Path
) -> None:
    """A repartition to three tasks, a global table in each, an unreadable record, and the view of what was written."""
    builder = StreamsBuilder(dropped_to=prefix + "dropped")
    lines, prices = builder.stream(prefix + "a", value=STRING), builder.global_table(prefix + "b", value=LONG)
    words = lines.flat_map_values(lambda key, line: line.split())
    words.group_by(lambda key, word: word).count().to_stream().to(prefix + "joined", value=LONG)
    words.join_global(prices, lambda key, word: word, lambda word, price: f"{word} {price}").to(prefix + "named", value=STRING)
    create_topics(bootstrap, {prefix + name: {} for name in ("a", "b", "joined", "named", "dropped")}, partitions=3)
    now_ms = int(time.time() * 1000)
    random, said = Random(3), list[str]()
    for _ in range(2):
        batch = [" ".join(random.choices("pqrs", k=3)) for _ in range(40)]
        said += batch
        produce(bootstrap, [(prefix + "a", random.choice("xyz"), line, now_ms) for line in batch])
        if not checkpoint_exists(checkpoint):
            produce(bootstrap, [(prefix + "b", word, str(price).rjust(8), now_ms) for price, word in enumerate("pqr", 1)])
            produce(bootstrap, [(prefix + "b", "s", "?", now_ms)])
        run(spark, builder.build(), bootstrap, prefix, checkpoint)
    counted = Counter(word for line in said for word in line.split())
    with View(tmp_path / "view.db") as view:
        view.follow(bootstrap, prefix + "joined")
        rows = view.rows(prefix + "joined")
    assert {key.decode(): LONG.read(value) for key, value in rows.items()} == counted
    price_of = {word: LONG.read(str(price).rjust(8).encode()) for price, word in enumerate("pqr", 1)}
    named = Counter(_text(row.value) for row in read(spark, bootstrap, prefix + "named"))
    assert named == {f"{word} {price}": counted[word] for word, price in price_of.items()}
    (letter, *others) = read(spark, bootstrap, prefix + "dropped")
    headers = {header.key: bytes(header.value).decode() for header in letter.headers}
    assert (letter.key, letter.value, headers["reason"]) == (b"s", b"?", "UNREADABLE")
    assert headers["source"].startswith(prefix + "b-")
    assert len(others) == 2, "a global table is read by each of the three tasks"


def checkpoint_exists(checkpoint: str) -> bool:
    return (Path(checkpoint) / "offsets").exists()
