"""The state processors without a JVM: they emit rows, keep state, and forget it in time."""

import json
from operator import attrgetter
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from moldau.pipelines.keyed import FORGET_AFTER_MS, in_order
from moldau.pipelines.records import row_of
from moldau.pipelines.rolling import DAY_MS, Limit
from moldau.pipelines.sharded import Sharded
from moldau.pipelines.shards import packs
from moldau.pipelines.validation.frames import OrderRow, RequestRow, kind_of
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.processors import Aggregator, Checks, CustomerChecks, StockCheck

TOPICS = Topics()


def order_row(offset: int, **fields: Any) -> Row:
    row = {
        "order_id": f"o{offset}",
        "malformed": None,
        "ordered_ms": offset,
        "total_cents": 100,
        "fault": None,
        "wanted": {1: 1},
        "is_release": False,
        "state": "CREATED",
        "text": '{"order_id":"o"}',
        "store_id": "s",
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "accepted_ms": 1_000 + offset,
        "key": f"o{offset}".encode(),
        "value": b"{}",
    }
    return Row(**(row | fields))


def said(records: list[Row]) -> list[tuple[str, str, str | None]]:
    return [(event.order_id, check, fault) for event in records if event.malformed is None for check, fault in event.faults]


def letters(events: list[Row]) -> list[tuple[str, int, bytes | None, bytes | None]]:
    return [(event.malformed, event.offset, event.key, event.value) for event in events if event.malformed is not None]


def harness(processor: Any) -> TwsTester:
    return TwsTester(processor, timeMode="ProcessingTime")


def test_customer_checks_judge_in_partition_order_not_in_the_order_of_the_shuffle() -> None:
    rows = [order_row(2, total_cents=60), order_row(1, total_cents=70), order_row(3, total_cents=30, fault="QUANTITY")]
    records = harness(CustomerChecks(Limit(most=100))).test("c", rows)
    assert said(records) == [
        *[("o1", "fraud", None), ("o1", "details", None)],
        *[("o2", "fraud", "SPENT_LIMIT"), ("o2", "details", None)],
        *[("o3", "fraud", None), ("o3", "details", "QUANTITY")],
    ]


def test_a_late_order_is_answered_and_dead_lettered_as_it_was_sent() -> None:
    rows = [order_row(1, ordered_ms=DAY_MS, accepted_ms=DAY_MS), order_row(2, ordered_ms=0, accepted_ms=DAY_MS, value=b"as sent")]
    records = harness(CustomerChecks(Limit(most=1_000))).test("c", rows)
    assert ("o2", "fraud", "LATE") in said(records)
    assert letters(records) == [("LATE", 2, b"o2", b"as sent")]


def test_malformed_records_leave_no_state() -> None:
    checks = harness(CustomerChecks(Limit(most=1_000)))
    rows = [order_row(1, malformed="NOT_JSON", value=b"\xff", key=b"\xfe"), order_row(2, malformed="NO_VALUE", value=None, key=None)]
    records = checks.test("", rows)
    assert [record.order_id for record in records] == ["", ""]
    assert letters(records) == [("NOT_JSON", 1, b"\xfe", b"\xff"), ("NO_VALUE", 2, None, None)]
    assert checks.peekValueState("packed", "") is None


def test_an_order_from_the_future_fails_and_moves_no_clock() -> None:
    ahead, good = order_row(1, ordered_ms=4_102_444_800_000), order_row(2)
    records = harness(CustomerChecks(Limit(most=1_000))).test("c", [ahead, good])
    assert said(records)[::2] == [("o1", "fraud", "CLOCK_AHEAD"), ("o2", "fraud", None)]
    stock = harness(StockCheck({1: 2}))
    assert said(stock.test("s", [ahead, good])) == [("o1", "inventory", "CLOCK_AHEAD"), ("o2", "inventory", None)]
    next_day = order_row(3, ordered_ms=DAY_MS, accepted_ms=DAY_MS, wanted={1: 2})
    assert said(stock.test("s", [next_day])) == [("o3", "inventory", None)]


def test_an_id_uses_the_limits_once() -> None:
    checks = harness(CustomerChecks(Limit(most=100)))
    assert len(said(checks.test("c", [order_row(1), order_row(2, order_id="o1")]))) == 2
    stock = harness(StockCheck({1: 2}))
    stock.test("s", [order_row(1), order_row(2, order_id="o1")])
    assert said(stock.test("s", [order_row(3)])) == [("o3", "inventory", None)]


def test_a_rule_that_raises_costs_its_record() -> None:
    stock = harness(StockCheck({1: 2}))
    records = stock.test("s", [order_row(1, wanted=7), order_row(2)])
    assert [one[:2] for one in letters(records)] == [("RULE_FAILED", 1)]
    assert said(records) == [("o1", "inventory", "RULE_FAILED"), ("o2", "inventory", None)]
    checks = harness(CustomerChecks(Limit(most=100)))
    assert said(checks.test("c", [order_row(1, total_cents="much")])) == [("o1", "fraud", "RULE_FAILED"), ("o1", "details", "RULE_FAILED")]


def test_what_an_order_spent_is_freed_when_it_fails() -> None:
    checks = harness(CustomerChecks(Limit(most=100)))
    first = order_row(1), order_row(2, order_id="o1", state="FAILED", fault="QUANTITY"), order_row(3)
    assert [reason for _, check, reason in said(checks.test("c", list(first))) if check == "fraud"] == [None, None]
    again = order_row(4, order_id="o1", state="TIMED_OUT"), order_row(5)
    assert said(checks.test("c", list(again)))[0] == ("o5", "fraud", "SPENT_LIMIT"), "an order's sum is freed once"
    assert said(checks.test("c", [order_row(6, order_id="o3", state="FAILED"), order_row(7)]))[0] == ("o7", "fraud", None)


def test_an_order_that_is_wrong_in_itself_spends_nothing() -> None:
    checks = harness(CustomerChecks(Limit(most=100)))
    assert said(checks.test("c", [order_row(1, fault="QUANTITY"), order_row(2)]))[2] == ("o2", "fraud", None)


def test_stock_is_freed_once() -> None:
    stock = harness(StockCheck({1: 1}))
    assert stock.test("s", [order_row(1)])[0].store_id == "s"
    release = order_row(2, order_id="o1", is_release=True)
    assert said(stock.test("s", [release, release, order_row(3), order_row(4)])) == [
        ("o3", "inventory", None),
        ("o4", "inventory", "OUT_OF_STOCK"),
    ]
    assert said(stock.test("s", [order_row(5, order_id="o4", is_release=True), order_row(6)])) == [("o6", "inventory", "OUT_OF_STOCK")]


def test_partitions_are_merged_by_acceptance_and_none_is_reordered() -> None:
    rows = [
        order_row(1, partition=1, accepted_ms=50),
        order_row(2, partition=1, accepted_ms=10),
        order_row(7, partition=0, accepted_ms=20),
    ]
    assert [(row.partition, row.offset) for row in in_order(rows)] == [(0, 7), (1, 1), (1, 2)]


def test_stock_is_kept_between_batches() -> None:
    stock = harness(StockCheck({1: 2}))
    assert said(stock.test("s", [order_row(1), order_row(2)])) == [("o1", "inventory", None), ("o2", "inventory", None)]
    assert said(stock.test("s", [order_row(3)])) == [("o3", "inventory", "OUT_OF_STOCK")]
    assert said(stock.test("t", [order_row(4)])) == [("o4", "inventory", None)]


def test_a_silent_key_is_forgotten_and_a_busy_one_is_not() -> None:
    stock = harness(StockCheck({1: 2}))
    stock.test("silent", [order_row(1)])
    stock.test("busy", [order_row(1)])
    stock.setProcessingTime(DAY_MS)
    stock.test("busy", [order_row(2)])
    stock.setProcessingTime(FORGET_AFTER_MS + 2_000)
    assert stock.peekValueState("packed", "silent") is None
    assert stock.peekValueState("packed", "busy") is not None
    stock.setProcessingTime(FORGET_AFTER_MS + DAY_MS + 2_000)
    assert stock.peekValueState("packed", "busy") is None


PLACE = {"topic": "orders", "partition": 1, "offset": 9, "accepted_ms": 5, "key": b"k", "value": b"v", "malformed": None}


def created(**fields: Any) -> Row:
    return Row(**(PLACE | {"faults": [], "store_id": None, "text": '{"order_id":"o","lines":[]}'} | fields))


def answer(check: str, fault: str | None = None, store_id: str | None = None) -> Row:
    return Row(**(PLACE | {"topic": "stock-requests", "faults": [(check, fault)], "store_id": store_id, "text": None}))


def aggregator(deadline_ms: int = 600, straggler_ms: int = 600) -> TwsTester:
    return harness(Aggregator(TOPICS, deadline_ms, straggler_ms))


def test_the_final_record_is_the_whole_order_in_the_partition_it_came_from() -> None:
    tester = aggregator()
    assert tester.test("o", [answer("fraud"), answer("inventory", "OUT_OF_STOCK")]) == []
    (record,) = tester.test("o", [created(), answer("details", "QUANTITY")])
    assert (record.topic, record.key, record.partition) == ("orders", b"o", 1)
    assert json.loads(record.value) == {"order_id": "o", "state": "FAILED", "lines": [], "reasons": ["OUT_OF_STOCK", "QUANTITY"]}


def released(records: list[Row]) -> list[tuple[str, str, bytes]]:
    return [(record.topic, record.key.decode(), record.value) for record in records if record.topic == TOPICS.stock_requests]


RELEASE = (TOPICS.stock_requests, "s", b'{"order_id":"o","released":true}')


def test_a_failed_order_gives_its_stock_back() -> None:
    answers = [answer("fraud", "SPENT_LIMIT"), answer("inventory", None, "s"), answer("details")]
    assert released(aggregator().test("o", [created(), *answers])) == [RELEASE]
    answers[0] = answer("fraud")
    assert released(aggregator().test("o", [created(), *answers])) == []


def test_an_order_that_timed_out_gives_its_stock_back_whenever_that_is_known() -> None:
    soon = aggregator()
    soon.test("o", [created(), answer("inventory", None, "s")])
    assert released(soon.setProcessingTime(601)) == [RELEASE]
    late = aggregator()
    late.test("o", [created()])
    assert released(late.setProcessingTime(601)) == []
    assert released(late.test("o", [answer("inventory", None, "s")])) == [RELEASE]


def test_an_order_that_never_came_gives_its_stock_back() -> None:
    tester = aggregator()
    tester.test("o", [answer("inventory", None, "s")])
    assert released(tester.setProcessingTime(601)) == [RELEASE]
    assert tester.peekValueState("packed", "o") is None


def test_what_a_repeated_request_reserved_is_given_back() -> None:
    """A store's state forgets ids at midnight, and another store never knew them."""
    tester = aggregator()
    tester.test("o", [answer("inventory", None, "s")])
    again = (TOPICS.stock_requests, "t", b'{"order_id":"o","released":true}')
    assert released(tester.test("o", [answer("inventory", None, "t")])) == [again]
    (final,) = tester.test("o", [created(), answer("fraud"), answer("details")])
    assert json.loads(final.value)["state"] == "VALIDATED"
    assert released(tester.test("o", [answer("inventory", None, "t")])) == [again]
    assert released(tester.test("o", [answer("inventory", "OUT_OF_STOCK")])) == []


def test_a_dead_letter_passes_as_it_came() -> None:
    (letter,) = aggregator().test("", [created(malformed="LATE")])
    assert (letter.topic, letter.key, letter.value, letter.reason, letter.source) == ("orders.dlq", b"k", b"v", "LATE", "orders-1@9")


def test_an_order_with_its_answers_is_one_event() -> None:
    (event,) = harness(CustomerChecks(Limit(most=100))).test("c", [order_row(1)])
    stock = harness(StockCheck({1: 2})).test("s", [order_row(7, order_id="o1")])
    (record,) = aggregator().test("o1", [*stock, event])
    assert (record.key, json.loads(record.value)["state"]) == (b"o1", "VALIDATED")


def test_an_id_is_judged_once() -> None:
    tester = aggregator()
    tester.test("o", [created(), answer("fraud"), answer("inventory"), answer("details")])
    (letter,) = tester.test("o", [created(offset=12), answer("fraud"), answer("inventory"), answer("details")])
    assert (letter.topic, letter.reason, letter.source) == (TOPICS.dead_letters, "REPEATED", "orders-1@12")
    tester.setProcessingTime(FORGET_AFTER_MS // 2)
    assert len(tester.test("o", [created(offset=13)])) == 1
    tester.setProcessingTime(FORGET_AFTER_MS + 1_000)
    tester.setProcessingTime(FORGET_AFTER_MS + 2_000)
    assert tester.peekValueState("packed", "o") is None


def test_a_deadline_passes_in_silence_and_fires_once() -> None:
    tester = aggregator()
    tester.test("o", [created(accepted_ms=10**15)])
    assert tester.setProcessingTime(599) == []
    (record,) = tester.setProcessingTime(601)
    assert json.loads(record.value)["state"] == "TIMED_OUT"
    assert tester.test("o", [answer("inventory")]) == []
    assert tester.setProcessingTime(9_999) == []


def test_a_straggler_has_its_own_deadline() -> None:
    tester = aggregator(deadline_ms=50_000, straggler_ms=100)
    tester.test("o", [created()])
    tester.setProcessingTime(1_000)
    tester.test("o", [answer("fraud"), answer("details", "QUANTITY")])
    assert tester.setProcessingTime(1_099) == []
    (record,) = tester.setProcessingTime(1_101)
    assert json.loads(record.value)["reasons"] == ["QUANTITY"]


def test_a_job_that_was_away_times_nobody_out() -> None:
    tester = aggregator()
    tester.test("o", [created(), answer("fraud"), answer("details")])
    assert tester.setProcessingTime(3 * DAY_MS) == []
    (record,) = tester.test("o", [answer("inventory")])
    assert json.loads(record.value)["state"] == "VALIDATED"


def test_answers_without_an_order_are_forgotten() -> None:
    tester = aggregator()
    tester.test("o", [answer("fraud"), answer("inventory"), answer("details")])
    assert tester.setProcessingTime(601) == []
    assert tester.peekValueState("packed", "o") is None


def test_a_customer_and_a_store_of_one_name_have_a_state_each() -> None:
    """Both checks are one step: the names of real customers and stores are numbers, and some are the same."""
    topics = Topics()
    order = OrderRow(None, topics.orders, 0, 0, 1_000, b"o1", b"{}", "CREATED", "o1", "7", 1_000, 100, None, "{}")
    request = RequestRow(None, topics.stock_requests, 0, 0, 1_000, b"7", b"{}", "o1", "7", 1_000, None, {1: 1}, False)
    harness = TwsTester(
        Sharded(Checks(CustomerChecks(Limit(most=150)), StockCheck({1: 2})), row_of(kind_of(topics)), "subject"), timeMode="ProcessingTime"
    )

    def given(*rows: Any) -> list[tuple[str, str, str | None]]:
        by_shard: dict[int, list[Row]] = {}
        for pack in packs(rows, attrgetter("subject")):
            by_shard.setdefault(pack.shard, []).append(Row(events=pack.events))
        return sorted(said([event for shard, packed in by_shard.items() for event in harness.test(shard, packed)]))

    assert given(order, request) == [("o1", "details", None), ("o1", "fraud", None), ("o1", "inventory", None)]
    found = given(order._replace(order_id="o2", offset=1), request._replace(order_id="o2", offset=1, wanted={1: 2}))
    assert found == [("o2", "details", None), ("o2", "fraud", "SPENT_LIMIT"), ("o2", "inventory", "OUT_OF_STOCK")]
    malformed = OrderRow("NOT_JSON", topics.orders, 0, 2, 1_000, b"k", b"{", *[None] * 7)  # type: ignore[arg-type]
    (pack,) = packs([malformed], lambda row: "")
    assert letters(harness.test(pack.shard, [Row(events=pack.events)])) == [("NOT_JSON", 2, b"k", b"{")]
