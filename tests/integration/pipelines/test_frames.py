"""The frames on batch data: their results for good records, for bad ones and for the job's own."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from moldau.pipelines.records import RECORDS, row_of, with_headers
from moldau.pipelines.shards import shard_of, unpacked
from moldau.pipelines.validation.faults import MALFORMED
from moldau.pipelines.validation.frames import CUSTOMER, kind_of, parse_records
from moldau.pipelines.validation.model import Line, Order, State, Topics, order_json, stock_request_json

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

KAFKA = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
ACCEPTED = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
ORDER = Order("o1", "c1", "s1", 7, (Line(1, 2, 300), Line(2, 1, 200)), 500)


TOPICS = Topics()
rows = row_of(kind_of(TOPICS))


def records(spark: SparkSession, *values: bytes | None, key: bytes | None = b"k", topic: str = TOPICS.orders) -> DataFrame:
    return spark.createDataFrame([(topic, 1, offset, ACCEPTED, key, value) for offset, value in enumerate(values)], KAFKA)


def parsed(frame: DataFrame) -> list[Any]:
    """The rows of all shards, by offset."""
    packs = frame.transform(parse_records, TOPICS).collect()
    return sorted((rows(event) for pack in packs for event in unpacked(pack.events)), key=lambda row: row.offset)


def requests(spark: SparkSession, *values: bytes | None, key: bytes | None) -> list[Any]:
    return parsed(records(spark, *values, key=key, topic=TOPICS.stock_requests))


def test_an_order_keeps_its_place_and_its_bytes(spark: SparkSession) -> None:
    (row,) = parsed(records(spark, order_json(ORDER)))
    assert (row.customer_id, row.order_id, row.ordered_ms, row.total_cents, row.malformed) == ("c1", "o1", 7, 500, None)
    assert (row.topic, row.partition, row.offset, row.key, row.value) == ("orders", 1, 0, b"k", order_json(ORDER))
    assert row.accepted_ms == int(ACCEPTED.timestamp() * 1000)


def test_each_malformed_record_is_kept_with_its_reason(spark: SparkSession) -> None:
    found = parsed(records(spark, *[sample.value for sample in MALFORMED], key=b"\xff"))
    assert [row.malformed for row in found] == [str(sample.reason) for sample in MALFORMED]
    assert [(row.key, row.value) for row in found] == [(b"\xff", sample.value) for sample in MALFORMED]
    assert [row.customer_id for row in found] == [None] * len(MALFORMED)


def test_events_of_one_key_share_a_shard(spark: SparkSession) -> None:
    several = [order_json(ORDER._replace(order_id=str(number), customer_id=f"c{number % 5}")) for number in range(200)]
    packs = records(spark, *several).repartition(3).transform(parse_records, TOPICS).collect()
    found: dict[str, set[int]] = {}
    for pack in packs:
        for event in unpacked(pack.events):
            found.setdefault(rows(event).customer_id, set()).add(pack.shard)
    assert found == {f"c{number}": {shard_of(f"{CUSTOMER}c{number}")} for number in range(5)}


def test_of_final_orders_only_those_that_came_to_nothing_matter_to_the_checks(spark: SparkSession) -> None:
    frame = records(spark, order_json(ORDER, State.VALIDATED), order_json(ORDER, State.TIMED_OUT), None, order_json(ORDER))
    assert [row.offset for row in parsed(frame)] == [1, 2, 3]


def test_stock_requests_are_keyed_by_the_records_key(spark: SparkSession) -> None:
    first, second = requests(spark, stock_request_json(ORDER), b"{", key=b"s9")
    assert (first.store_id, first.malformed, first.wanted) == ("s9", None, {1: 2, 2: 1})
    assert (second.store_id, second.malformed) == (None, "NOT_JSON")
    assert [row.malformed for row in requests(spark, stock_request_json(ORDER), key=None)] == ["MISSING_FIELD"]


def test_records_of_both_topics_come_by_one_source(spark: SparkSession) -> None:
    """An order and a stock request in one batch: each is read as its topic's kind."""
    both = records(spark, order_json(ORDER)).union(records(spark, b"", stock_request_json(ORDER), key=b"s9", topic=TOPICS.stock_requests))
    order, odd, request = sorted(parsed(both), key=lambda row: (row.topic, row.offset))
    assert (order.subject, odd.malformed, request.subject) == ("customer c1", "NOT_JSON", "store s9")


def test_a_timestamp_ahead_or_absent_is_the_time_of_the_batch(spark: SparkSession) -> None:
    year_3000, none_at_all = datetime(3000, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    frame = spark.createDataFrame([("orders", 1, n, at, b"k", order_json(ORDER)) for n, at in enumerate((year_3000, none_at_all))], KAFKA)
    first, second = (row.accepted_ms for row in parsed(frame))
    assert first == second
    assert ACCEPTED.timestamp() * 1000 < first < year_3000.timestamp() * 1000


def test_only_dead_letters_have_headers(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("v", b"k", b"1", None, None, None), ("d", b"k", b"2", None, "LATE", "orders-0@7")], RECORDS)
    answer, letter = with_headers(frame).orderBy("value").collect()
    assert answer.headers is None
    assert [(header.key, bytes(header.value)) for header in letter.headers] == [("reason", b"LATE"), ("source", b"orders-0@7")]
