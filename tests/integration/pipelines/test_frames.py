"""The frames on batch data: what they make of good records, of bad ones and of the job's own."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from moldau.pipelines.records import with_headers
from moldau.pipelines.validation.faults import MALFORMED
from moldau.pipelines.validation.frames import answer_events, check_details, created_events, parse_orders, parse_stock_requests
from moldau.pipelines.validation.model import Check, Line, Order, State, heartbeat_json, order_json, stock_request_json, validation_json

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

KAFKA = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
ACCEPTED = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
ORDER = Order("o1", "c1", "s1", 7, (Line(1, 2, 300), Line(2, 1, 200)), 500)


def records(spark: SparkSession, *values: bytes | None, key: bytes | None = b"k") -> DataFrame:
    return spark.createDataFrame([("t", 1, offset, ACCEPTED, key, value) for offset, value in enumerate(values)], KAFKA)


def column(frame: DataFrame, name: str) -> list[Any]:
    return [row[name] for row in frame.orderBy("offset").collect()]


def test_an_order_keeps_its_place_and_its_bytes(spark: SparkSession) -> None:
    (row,) = records(spark, order_json(ORDER)).transform(parse_orders).collect()
    assert (row.customer_id, row.order_id, row.ordered_ms, row.total_cents, row.malformed) == ("c1", "o1", 7, 500, None)
    assert (row.topic, row.partition, row.offset, row.key, bytes(row.value)) == ("t", 1, 0, "k", order_json(ORDER))
    assert row.accepted_ms == int(ACCEPTED.timestamp() * 1000)


def test_each_malformed_record_is_kept_with_its_reason(spark: SparkSession) -> None:
    parsed = records(spark, *[sample.value for sample in MALFORMED]).transform(parse_orders)
    assert column(parsed, "malformed") == [str(sample.reason) for sample in MALFORMED]
    assert column(parsed, "customer_id") == [""] * len(MALFORMED)
    assert records(spark, *[sample.value for sample in MALFORMED]).transform(created_events).count() == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"customer_id": ""}, "MISSING_FIELD"),
        ({"order_id": None}, "MISSING_FIELD"),
        ({"lines": [{"product_id": 1}]}, "MISSING_FIELD"),
        ({"lines": [1, 2]}, "NOT_JSON"),
        ({"total_cents": "much"}, "NOT_JSON"),
        ({"state": "DREAMT"}, "UNKNOWN_STATE"),
        ({"more": "than we know"}, None),
    ],
)
def test_an_order_with_something_amiss(spark: SparkSession, change: dict[str, Any], reason: str | None) -> None:
    value = json.dumps(json.loads(order_json(ORDER)) | change).encode()
    assert column(records(spark, value).transform(parse_orders), "malformed") == [reason]


def test_final_orders_and_tombstones_are_left_out(spark: SparkSession) -> None:
    frame = records(spark, order_json(ORDER, State.VALIDATED), order_json(ORDER, State.TIMED_OUT), None, heartbeat_json())
    assert column(frame.transform(parse_orders), "offset") == [3]
    assert frame.transform(created_events).select("order_id", "check").collect() == [Row(order_id="", check=None)]


def test_stock_requests_are_keyed_by_the_records_key(spark: SparkSession) -> None:
    frame = records(spark, stock_request_json(ORDER), heartbeat_json(), b"{", key=b"s9").transform(parse_stock_requests)
    assert column(frame, "store_id") == ["s9", "", ""]
    assert column(frame, "malformed") == [None, None, "NOT_JSON"]
    assert column(frame, "wanted")[0] == {"1": 2, "2": 1}
    assert column(records(spark, stock_request_json(ORDER), key=None).transform(parse_stock_requests), "malformed") == ["MISSING_FIELD"]


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        (ORDER, None),
        (ORDER._replace(lines=(), total_cents=0), "NO_LINES"),
        (ORDER._replace(lines=(Line(1, 25, 500),)), "QUANTITY"),
        (ORDER._replace(lines=(Line(1, 0, 500),)), "QUANTITY"),
        (ORDER._replace(lines=(Line(1, 24, 0),), total_cents=0), "NOTHING_TO_PAY"),
        (ORDER._replace(total_cents=499), "TOTAL_MISMATCH"),
    ],
)
def test_details(spark: SparkSession, order: Order, fault: str | None) -> None:
    frame = records(spark, order_json(order)).transform(parse_orders).transform(check_details)
    assert column(frame, "fault") == [fault]


def test_answers_are_told_apart_by_their_check(spark: SparkSession) -> None:
    values = [
        validation_json("o1", Check.FRAUD, "LATE", 5),
        validation_json("o1", Check.INVENTORY, None, 6),
        validation_json("o1", Check.DETAILS, None, 5),
    ]
    frame = records(spark, *values)
    by_customer = answer_events(frame, [Check.FRAUD, Check.DETAILS]).select("order_id", "check", "reason", "accepted_ms")
    expected = spark.createDataFrame([("o1", "fraud", "LATE", 5), ("o1", "details", None, 5)], by_customer.schema)
    assertDataFrameEqual(by_customer, expected)
    assert answer_events(frame, [Check.INVENTORY]).select("accepted_ms").collect() == [Row(accepted_ms=6)]


def test_only_dead_letters_have_headers(spark: SparkSession) -> None:
    schema = "topic STRING, key STRING, value BINARY, reason STRING, source STRING"
    frame = spark.createDataFrame([("v", "k", b"1", None, None), ("d", "k", b"2", "LATE", "orders-0@7")], schema)
    answer, letter = with_headers(frame).orderBy("value").collect()
    assert answer.headers is None
    assert [(header.key, bytes(header.value)) for header in letter.headers] == [("reason", b"LATE"), ("source", b"orders-0@7")]
