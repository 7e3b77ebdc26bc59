"""Micro-batches without records, as queries with timers have: they take no epoch, and the records after them are there once."""

import time
from collections.abc import Callable, Iterator
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


def test_empty_micro_batches_take_no_epoch(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    source, target = prefix + "in", prefix + "out"
    create_topics(bootstrap, {source: {}, target: {}}, partitions=2)
    servers = {"kafka.bootstrap.servers": bootstrap}
    frame = spark.readStream.format("moldau").options(**servers, subscribe=source, startingOffsets="earliest").load()
    passed = frame.groupBy("partition").transformWithState(Passed(), "key BINARY, value BINARY", "Append", "ProcessingTime")
    writer = passed.writeStream.format("moldau").options(**servers, topic=target, sinkId=target, checkpointLocation=checkpoint)
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        found: list[TransactionState] = []
        for number in range(2):
            write(spark, bootstrap, source, 100 * number, 100)
            wait_for(query, lambda number=number: read(spark, bootstrap, target) == [str(one) for one in range(100 * (number + 1))])
            for _ in range(2):
                wait_for_empty_ones(query)
                found.append(described(bootstrap, "spark." + target))
    finally:
        query.stop()
    assert [one.transaction_state for one in found] == ["Empty"] * 4
    epochs = [(one.producer_id, one.producer_epoch) for one in found]
    assert epochs[0] == epochs[1] != epochs[2] == epochs[3]


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
