"""The state processors without a JVM: what they emit, what they keep, when they forget."""

import json
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from moldau.pipelines.keyed import FORGET_AFTER_MS
from moldau.pipelines.rolling import DAY_MS, Limit
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.processors import Aggregator, CustomerChecks, StockCheck

TOPICS = Topics()


def order_row(offset: int, **fields: Any) -> Row:
    row = {
        "order_id": f"o{offset}",
        "malformed": None,
        "ordered_ms": offset,
        "total_cents": 100,
        "fault": None,
        "wanted": [("1", 1)],
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "accepted": None,
        "accepted_ms": 1_000 + offset,
        "key": f"o{offset}",
        "value": b"{}",
    }
    return Row(**(row | fields))


def said(records: list[Row]) -> list[tuple[str, str, str | None]]:
    answers = [json.loads(record.value) for record in records if record.topic == TOPICS.validations]
    return [(answer["order_id"], answer["check"], answer["reason"]) for answer in answers]


def harness(processor: Any) -> TwsTester:
    return TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda row: row.accepted_ms)


def test_customer_checks_judge_in_partition_order_not_in_the_order_of_the_shuffle() -> None:
    rows = [order_row(2, total_cents=60), order_row(1, total_cents=70), order_row(3, total_cents=30, fault="QUANTITY")]
    records = harness(CustomerChecks(TOPICS, Limit(most=100))).test("c", rows)
    assert said(records) == [
        *[("o1", "fraud", None), ("o1", "details", None)],
        *[("o2", "fraud", "SPENT_LIMIT"), ("o2", "details", None)],
        *[("o3", "fraud", None), ("o3", "details", "QUANTITY")],
    ]
    assert json.loads(records[0].value)["accepted_ms"] == 1_001


def test_a_late_order_is_answered_and_dead_lettered_as_it_was_sent() -> None:
    rows = [order_row(1, ordered_ms=DAY_MS), order_row(2, ordered_ms=0, value=b"as sent")]
    records = harness(CustomerChecks(TOPICS, Limit(most=1_000))).test("c", rows)
    assert ("o2", "fraud", "LATE") in said(records)
    (letter,) = [record for record in records if record.topic == TOPICS.dead_letters]
    assert (letter.key, letter.value, letter.reason, letter.source) == ("o2", b"as sent", "LATE", "orders-0@2")


def test_malformed_records_and_heartbeats_leave_no_state() -> None:
    checks = harness(CustomerChecks(TOPICS, Limit(most=1_000)))
    records = checks.test("", [order_row(1, malformed="NOT_JSON", value=b"\xff"), order_row(2, order_id="")])
    assert [(record.topic, record.reason) for record in records] == [
        (TOPICS.dead_letters, "NOT_JSON"),
        (TOPICS.validations, None),
        (TOPICS.validations, None),
    ]
    assert checks.peekValueState("packed", "") is None


def test_stock_is_kept_between_batches() -> None:
    stock = harness(StockCheck(TOPICS, {1: 2}))
    assert said(stock.test("s", [order_row(1), order_row(2)])) == [("o1", "inventory", None), ("o2", "inventory", None)]
    assert said(stock.test("s", [order_row(3)])) == [("o3", "inventory", "OUT_OF_STOCK")]
    assert said(stock.test("t", [order_row(4)])) == [("o4", "inventory", None)]


def test_a_silent_key_is_forgotten_and_a_busy_one_is_not() -> None:
    stock = harness(StockCheck(TOPICS, {1: 2}))
    stock.test("silent", [order_row(1)])
    stock.test("busy", [order_row(1)])
    stock.test("busy", [order_row(2, accepted_ms=1_000 + DAY_MS)])
    stock.setWatermark(FORGET_AFTER_MS + 2_000)
    assert stock.peekValueState("packed", "silent") is None
    assert stock.peekValueState("packed", "busy") is not None
    stock.setWatermark(FORGET_AFTER_MS + DAY_MS + 2_000)
    assert stock.peekValueState("packed", "busy") is None


def created(accepted_ms: int = 5) -> Row:
    return Row(check=None, reason=None, accepted_ms=accepted_ms, partition=1, text='{"order_id":"o","state":"CREATED","lines":[]}')


def answer(check: str, reason: str | None = None, accepted_ms: int = 5) -> Row:
    return Row(check=check, reason=reason, accepted_ms=accepted_ms, partition=None, text=None)


def test_the_final_record_is_the_whole_order_in_the_partition_it_came_from() -> None:
    aggregator = harness(Aggregator(TOPICS, 600))
    assert aggregator.test("o", [answer("fraud"), answer("inventory", "OUT_OF_STOCK")]) == []
    (record,) = aggregator.test("o", [created(), answer("details", "QUANTITY")])
    assert (record.topic, record.key, record.partition) == ("orders", "o", 1)
    assert json.loads(record.value) == {"order_id": "o", "state": "FAILED", "lines": [], "reasons": ["OUT_OF_STOCK", "QUANTITY"]}
    assert aggregator.peekValueState("packed", "o") is None


def test_a_deadline_counts_from_acceptance_and_fires_once() -> None:
    aggregator = harness(Aggregator(TOPICS, 600))
    aggregator.test("o", [created(), answer("fraud"), answer("details", accepted_ms=300)])
    assert aggregator.setWatermark(604) == []
    (record,) = aggregator.setWatermark(606)
    assert json.loads(record.value)["state"] == "TIMED_OUT"
    assert aggregator.test("o", [answer("inventory")]) == []
    assert aggregator.setWatermark(9_999) == []


def test_a_judged_order_leaves_no_timer() -> None:
    aggregator = harness(Aggregator(TOPICS, 600))
    aggregator.test("o", [created(), answer("fraud")])
    assert len(aggregator.test("o", [answer("details"), answer("inventory")])) == 1
    assert list(aggregator.handle._timers.getAllKeysWithTimers()) == []
