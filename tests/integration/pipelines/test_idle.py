"""Micro-batches without records, as queries with timers have: they take no epoch, and the records after them are there once."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.clients.blocking.cluster import TRANSACTION, BlockingCluster
from moldau.clients.cluster import parse_bootstrap
from moldau.pipelines.topics import create_topics
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

WITHIN_S = 60.0
EMPTY_ONES = 4


class Passed(StatefulProcessor):
    """Passes on every row.  Its time mode makes micro-batches go on while there are no rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: tuple[Any, ...], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        for row in rows:
            yield Row(key=row.key, value=row.value)

    def close(self) -> None:
        pass


def test_empty_micro_batches_take_no_epoch(spark: SparkSession, bootstrap: str, prefix: str, tmp_path: Path) -> None:
    """Two queries side by side: Spark plans for them in two processes, and each query's plans go to one and the other."""
    source, targets = prefix + "in", [prefix + "one", prefix + "other"]
    create_topics(bootstrap, {source: {}} | {one: {} for one in targets}, partitions=2)
    queries = [passing(spark, bootstrap, source, one, tmp_path / one) for one in targets]
    try:
        found: list[list[TransactionState]] = []
        for number in range(2):
            write(spark, bootstrap, source, 100 * number, 100)
            expected = [str(one) for one in range(100 * (number + 1))]
            for query, target in zip(queries, targets, strict=True):
                wait_for(query, lambda target=target, expected=expected: read(spark, bootstrap, target) == expected)
            for _ in range(2):
                for query in queries:
                    wait_for_empty_ones(query)
                found.append([described(bootstrap, "spark." + one) for one in targets])
    finally:
        for query in queries:
            query.stop()
    for of_one in zip(*found, strict=True):
        assert [one.transaction_state for one in of_one] == ["Empty"] * 4
        epochs = [(one.producer_id, one.producer_epoch) for one in of_one]
        assert epochs[0] == epochs[1] != epochs[2] == epochs[3]


def passing(spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: Path) -> StreamingQuery:
    servers = {"kafka.bootstrap.servers": bootstrap}
    frame = spark.readStream.format("moldau").options(**servers, subscribe=source, startingOffsets="earliest").load()
    passed = frame.groupBy("partition").transformWithState(Passed(), "key BINARY, value BINARY", "Append", "ProcessingTime")
    writer = passed.writeStream.format("moldau").options(**servers, topic=target, sinkId=target, checkpointLocation=str(checkpoint))
    return writer.trigger(processingTime="100 milliseconds").start()


def write(spark: SparkSession, bootstrap: str, topic: str, first: int, count: int) -> None:
    rows = spark.range(first, first + count).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("moldau").mode("append").options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic}).save()


def read(spark: SparkSession, bootstrap: str, topic: str) -> list[str]:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    return sorted((row.value.decode() for row in spark.read.format("moldau").options(**options).load().collect()), key=int)


def wait_for(query: StreamingQuery, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert query.exception() is None
        assert time.monotonic() < deadline


def wait_for_empty_ones(query: StreamingQuery) -> None:
    last = query.lastProgress
    first = (last.batchId if last else 0) + EMPTY_ONES
    wait_for(query, lambda: (now := query.lastProgress) is not None and now.batchId > first and not now.numInputRows)


def described(bootstrap: str, transactional_id: str) -> TransactionState:
    with BlockingCluster(parse_bootstrap(bootstrap)) as cluster:
        connection = cluster.to_node(cluster.coordinator_of(transactional_id, TRANSACTION))
        return connection.send(DescribeTransactionsRequest(transactional_ids=[transactional_id])).transaction_states[0]
