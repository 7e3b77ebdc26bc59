"""Everything that a topic can hold is taken apart into fields of their types or a reason, and never raises another exception."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.strict import INT64_MOST, MOST_BYTES, Malformed
from moldau.pipelines.validation import parse
from moldau.pipelines.validation.faults import MALFORMED
from moldau.pipelines.validation.model import (
    Line,
    Order,
    State,
    final_json,
    order_json,
    release_json,
    stock_request_json,
)

ORDER = Order("o1", "c1", "s1", 7, (Line(1, 2, 300), Line(2, 1, 200)), 500)
DEEP = b"[" * 100_000 + b"]" * 100_000


def reason_of(parser: Any, key: bytes | None, value: bytes | None) -> str:
    with pytest.raises(Malformed) as caught:
        parser(key, value)
    return str(caught.value.reason)


def changed(value: bytes, **change: Any) -> bytes:
    return json.dumps(json.loads(value) | change).encode()


def test_a_good_order() -> None:
    parsed = parse.order(b"any key", order_json(ORDER))
    assert parsed[:-1] == ("CREATED", "o1", "c1", 7, 500, None)
    assert json.loads(final_json(parsed.text, State.FAILED, ["LATE"])) == {
        **json.loads(order_json(ORDER)),
        "state": "FAILED",
        "reasons": ["LATE"],
    }


def test_the_malformed_samples() -> None:
    assert [reason_of(parse.order, None, sample.value) for sample in MALFORMED] == [str(sample.reason) for sample in MALFORMED]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "NO_VALUE"),
        (b"null", "WRONG_TYPE"),
        (order_json(ORDER).replace(b'"', b"'"), "NOT_JSON"),
        (order_json(ORDER) + b" trailing", "NOT_JSON"),
        (order_json(ORDER).replace(b"c1", b"c\xff"), "NOT_JSON"),
        (order_json(ORDER).replace(b"c1", b"c\\ud800"), "NOT_JSON"),
        (order_json(ORDER).decode().encode("utf-16"), "NOT_JSON"),
        (order_json(ORDER).replace(b":500", b":NaN"), "NOT_JSON"),
        (order_json(ORDER).replace(b":500", b":" + b"9" * 5_000), "NOT_JSON"),
        (order_json(ORDER).replace(b":500", b":" + b"9" * 30), "OUT_OF_RANGE"),
        (order_json(ORDER).replace(b":500", b":true"), "WRONG_TYPE"),
        (order_json(ORDER).replace(b":500", b":5.0"), "WRONG_TYPE"),
        (order_json(ORDER).replace(b"{", b'{"more":1e999,', 1), "NOT_JSON"),
        (DEEP, "NOT_JSON"),
        (b" " * (MOST_BYTES + 1), "TOO_LARGE"),
        (changed(order_json(ORDER), customer_id=""), "MISSING_FIELD"),
        (changed(order_json(ORDER), order_id=None), "MISSING_FIELD"),
        (changed(order_json(ORDER), order_id="x" * 1_001), "TOO_LARGE"),
        (changed(order_json(ORDER), lines=[{"product_id": 1}]), "MISSING_FIELD"),
        (changed(order_json(ORDER), lines=[1, 2]), "WRONG_TYPE"),
        (changed(order_json(ORDER), state="DREAMT"), "UNKNOWN_STATE"),
    ],
)
def test_what_is_no_order(value: bytes | None, reason: str) -> None:
    assert reason_of(parse.order, None, value) == reason


def test_cents_that_overflow_a_sum_are_a_mismatch() -> None:
    lines = tuple(Line(1, 1, INT64_MOST) for _ in range(3))
    assert parse.order(None, order_json(ORDER._replace(lines=lines))).fault == "TOTAL_MISMATCH"


def test_more_fields_than_we_know_stay() -> None:
    assert json.loads(parse.order(None, changed(order_json(ORDER), more=[1])).text)["more"] == [1]


@pytest.mark.parametrize(
    ("key", "wanted", "fault"),
    [
        (b"s", {"1": 2}, None),
        (b"s", {"abc": 1}, "UNKNOWN_PRODUCT"),
        (b"s", {"01": 1}, "UNKNOWN_PRODUCT"),
        (b"s", {"1": -1_000}, "QUANTITY"),
    ],
)
def test_requests_that_can_be_answered(key: bytes, wanted: dict[str, Any], fault: str | None) -> None:
    assert parse.stock_request(key, changed(stock_request_json(ORDER), wanted=wanted)).fault == fault


@pytest.mark.parametrize(
    ("key", "change", "reason"),
    [
        (b"\xff\xfe", {}, "WRONG_KEY"),
        (None, {}, "MISSING_FIELD"),
        (b"", {}, "MISSING_FIELD"),
        (b"s", {"wanted": {"1": None}}, "MISSING_FIELD"),
        (b"s", {"wanted": None}, "MISSING_FIELD"),
        (b"s", {"wanted": [1]}, "WRONG_TYPE"),
        (b"s", {"wanted": {"1": "2"}}, "WRONG_TYPE"),
        (b"s", {"wanted": {"1": 2**63}}, "OUT_OF_RANGE"),
    ],
)
def test_what_is_no_request(key: bytes | None, change: dict[str, Any], reason: str) -> None:
    assert reason_of(parse.stock_request, key, changed(stock_request_json(ORDER), **change)) == reason


def test_a_release() -> None:
    assert parse.stock_request(b"s", release_json("o")) == ("o", "s", 0, None, {}, True)
    assert reason_of(parse.stock_request, b"s", b'{"order_id":"o","released":false}') == "MISSING_FIELD"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from(["CREATED", "fraud", "PASS"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["order_id", "customer_id", "store_id", "ordered_ms", "total_cents", "lines", "state", "wanted", "check", "verdict", "reason"]
)
KEYS = st.none() | st.binary(max_size=5)


@given(st.sampled_from([parse.order, parse.stock_request]), KEYS, st.none() | st.binary(max_size=60))
def test_any_bytes(parser: Any, key: bytes | None, value: bytes | None) -> None:
    assert_fields_or_malformed(parser, key, value)


@given(st.sampled_from([parse.order, parse.stock_request]), KEYS, st.dictionaries(FIELDS, JSON, max_size=2))
def test_any_field_of_an_order(parser: Any, key: bytes | None, change: dict[str, Any]) -> None:
    value = order_json(ORDER) if parser is parse.order else stock_request_json(ORDER)
    assert_fields_or_malformed(parser, key, changed(value, **change))


def assert_fields_or_malformed(parser: Any, key: bytes | None, value: bytes | None) -> None:
    try:
        fields = parser(key, value)
    except Malformed:
        return
    for field in fields:
        if isinstance(field, str):
            field.encode()
        if isinstance(field, int):
            assert abs(field) <= INT64_MOST
