"""The view of orders keeps, finds and forgets them; figures follow from its changes."""

import json
from pathlib import Path

import pytest

from moldau.shop.live.queries import queries_of
from moldau.shop.live.tally import Tally
from moldau.shop.orders.rows import Row, public, row_of
from moldau.shop.orders.view import View
from moldau.shop.writer import Unavailable


@pytest.fixture
def view(tmp_path: Path) -> View:
    return View(tmp_path / "orders.db")


def a_row(order_id: str, state: str, *reasons: str, customer: str = "42", at_ms: int = 1_000) -> Row:
    body = {"order_id": order_id, "customer_id": customer, "store_id": "7", "total_cents": 5, "state": state, "reasons": list(reasons)}
    row = row_of(json.dumps(body).encode(), at_ms)
    assert row is not None
    return row


def found(view: View, query: str) -> list[str]:
    return [json.loads(body)["order_id"] for body in view.search(query)]


def test_the_newest_record_counts_and_an_older_one_changes_nothing(view: View) -> None:
    assert view.apply([("o-1", a_row("o-1", "CREATED"), 0, 5)], {0: 6})[0].before is None
    change = view.apply([("o-1", a_row("o-1", "FAILED", "LATE", "OUT_OF_STOCK", at_ms=3_500), 0, 9)], {0: 10})[0]
    assert (change.before, change.created_ms) == ("CREATED", 1_000)
    assert view.apply([("o-1", a_row("o-1", "CREATED"), 0, 5), ("o-1", a_row("o-1", "FAILED"), 0, 9)], {0: 10}) == []
    assert view.counts() == ({"FAILED": 1}, {"LATE": 1, "OUT_OF_STOCK": 1})
    assert view.positions() == {0: 10}


def test_of_two_orders_with_one_id_the_first_counts(view: View) -> None:
    view.apply([("o-1", a_row("o-1", "CREATED", customer="42"), 0, 5)], {})
    assert view.apply([("o-1", a_row("o-1", "CREATED", customer="43"), 1, 9)], {}) == []
    kept = view.get("o-1")
    assert kept is not None
    assert json.loads(kept.body)["customer_id"] == "42"


def test_orders_are_found_by_words_and_no_longer_when_they_change_or_go(view: View) -> None:
    view.apply([("o-1", a_row("o-1", "CREATED"), 0, 0), ("o-2", a_row("o-2", "FAILED", "LATE", customer="4"), 0, 1)], {})
    assert found(view, "customer:42") == ["o-1"]
    assert found(view, "FAILED LATE") == ["o-2"]
    assert found(view, 'o-1" OR "o-2') == []
    view.apply([("o-1", a_row("o-1", "VALIDATED"), 0, 2), ("o-2", None, 0, 3)], {})
    assert found(view, "CREATED") == found(view, "LATE") == []
    assert found(view, "VALIDATED") == ["o-1"]
    assert view.get("o-2") is None


def test_a_record_that_is_no_order_is_no_row() -> None:
    good = {"order_id": "o", "customer_id": "1", "store_id": "1", "total_cents": 1, "state": "CREATED"}
    assert row_of(json.dumps(good).encode(), 1) is not None
    for change in ({"order_id": 1}, {"order_id": "\ud800"}, {"state": "SHIPPED"}, {"total_cents": 2**63}, {"reasons": [1]}, {"reasons": 5}):
        assert row_of(json.dumps({**good, **change}).encode(), 1) is None, change
    assert row_of(b"[]", 1) is None
    assert row_of(b"\xff", 1) is None


def test_a_closed_view_is_no_mistake_of_the_shops(view: View) -> None:
    view.close()
    for look in (lambda: view.get("o-1"), lambda: view.apply([], {}), lambda: view.search("CREATED")):
        with pytest.raises(Unavailable):
            look()


def test_the_digest_of_a_request_is_nobodys_business() -> None:
    assert public('{"order_id":"o-1","request_digest":"x"}') == {"order_id": "o-1", "reasons": [], "href": "/orders/o-1"}


def test_figures_follow_the_changes(view: View) -> None:
    tally = Tally(*view.counts())
    rows = [("o-1", a_row("o-1", "CREATED", at_ms=5_000), 0, 0), ("o-2", a_row("o-2", "CREATED", at_ms=6_000), 0, 1)]
    rows += [("o-1", a_row("o-1", "FAILED", "LATE", at_ms=7_500), 0, 2), ("o-2", a_row("o-2", "VALIDATED", at_ms=8_000), 0, 3)]
    for change in view.apply(rows, {}):
        tally.take(change)
    frame = tally.frame(10_000)
    assert frame["states"] == {"CREATED": 0, "VALIDATED": 1, "FAILED": 1, "TIMED_OUT": 0}
    assert frame["reasons"] == {"LATE": 1}
    assert frame["latency_ms"] == {"p50": 2_500, "p99": 2_500}
    assert frame["created"][-5:] == [1, 1, 0, 0, 0]
    assert frame["judged"][-3:] == [1, 1, 0]
    assert [one["order_id"] for one in frame["recent"]] == ["o-2", "o-1"]
    assert sum(tally.frame(10_000_000)["created"]) == 0
    for change in view.apply([("o-1", None, 0, 4)], {}):
        tally.take(change)
    frame = tally.frame(10_000)
    assert (frame["states"]["FAILED"], frame["reasons"], len(frame["recent"])) == (0, {}, 1), "a deleted order leaves all figures"


def test_figures_of_queries_are_read_from_prometheus_text() -> None:
    text = (
        'moldau_pipeline_lag_records{query="checks"} 17.0\nmoldau_pipeline_rows_total{query="checks"} 2.5e+03\n'
        'moldau_pipeline_rows_created{query="checks"} 1\npython_info{version="3"} 1\nmoldau_pipeline_lag_records{query="odd"} x\n'
    )
    assert queries_of(text) == {"checks": {"lag": 17.0, "rows": 2500.0}}
