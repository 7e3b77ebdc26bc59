"""REST requests: what is taken, what is refused, and what an idempotency key leads to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.strict import Malformed
from moldau.pipelines.validation import parse
from moldau.pipelines.validation.model import Topics
from moldau.shop.orders.requests import is_address, order_in, order_of, records_of
from moldau.shop.web.fields import json_object
from moldau.shop.web.keys import digest_of, id_of, idempotency_key
from moldau.shop.web.problems import Problem

BODY = {
    "customer_id": "42",
    "store_id": "367",
    "lines": [{"product_id": 7, "quantity": 2, "cents": 598}],
    "total_cents": 598,
}


def pointers(body: dict[str, Any]) -> set[str]:
    with pytest.raises(Problem) as raised:
        order_of(body, "o-1", 1_000)
    assert raised.value.status == 400
    return {one.pointer for one in raised.value.errors}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"customer_id": None}, "#/customer_id"),
        ({"customer_id": 42}, "#/customer_id"),
        ({"customer_id": " "}, "#/customer_id"),
        ({"customer_id": "\ud800"}, "#/customer_id"),
        ({"store_id": "x" * 201}, "#/store_id"),
        ({"lines": {}}, "#/lines"),
        ({"lines": [7]}, "#/lines/0"),
        ({"lines": [{"product_id": 7, "quantity": True, "cents": 1}]}, "#/lines/0/quantity"),
        ({"lines": [{"product_id": 0, "quantity": 1, "cents": 1}]}, "#/lines/0/product_id"),
        ({"lines": [{"product_id": 7, "quantity": 1, "cents": 1, "color": 1}]}, "#/lines/0/color"),
        ({"lines": [{"product_id": 7, "quantity": 1, "cents": 1}] * 501}, "#/lines"),
        ({"total_cents": 5.98}, "#/total_cents"),
        ({"total_cents": 2**63}, "#/total_cents"),
        ({"ordered_ms": -1}, "#/ordered_ms"),
        ({"email": "anna@example.org\r\nBcc: all@example.org"}, "#/email"),
        ({"state": "VALIDATED"}, "#/state"),
        ({"order_id": "o-2"}, "#/order_id"),
    ],
)
def test_a_problem_names_the_field(change: dict[str, Any], pointer: str) -> None:
    assert pointers({**BODY, **change}) == {pointer}


def test_all_fields_that_are_wrong_are_told_at_once() -> None:
    assert pointers({"lines": [{"quantity": 1, "cents": 1}]}) == {
        "#/lines/0/product_id",
        "#/customer_id",
        "#/store_id",
        "#/total_cents",
    }


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_what_is_no_json_object_is_a_400(body: bytes) -> None:
    with pytest.raises(Problem) as raised:
        json_object(body)
    assert raised.value.status == 400


def test_an_order_becomes_the_two_records_that_the_checks_read() -> None:
    order, email = order_of({**BODY, "email": "anna@example.org"}, "o-1", 1_000)
    first, second = records_of(order, Topics(), 7, 2_000, {"email": email, "request_digest": "d"})
    assert first.partition is not None
    read = parse.order(first.key, first.value)
    assert (read.order_id, read.customer_id, read.ordered_ms, read.fault, read.state) == ("o-1", "42", 1_000, None, "CREATED")
    assert '"request_digest":"d"' in read.text  # so the final record has it, too, and compaction keeps only that one
    asked = parse.stock_request(second.key, second.value)
    assert (asked.order_id, asked.store_id, asked.wanted) == ("o-1", "367", {7: 2})
    assert order_in(first.value) == (order, {"email": "anna@example.org"})


@pytest.mark.parametrize(
    "value", [None, b"", b"{}", b'{"order_id":"o","customer_id":"1","store_id":"1","ordered_ms":1,"total_cents":1,"lines":[1]}']
)
def test_what_the_gateway_cannot_read_has_a_reason(value: bytes | None) -> None:
    with pytest.raises(Malformed):
        order_in(value)


@pytest.mark.parametrize("header", [None, "", '""', "x" * 256, "ü", "a\tb"])
def test_a_key_that_is_none_is_refused_by_its_name(header: str | None) -> None:
    with pytest.raises(Problem) as raised:
        idempotency_key(header)
    assert raised.value.errors[0].pointer == "Idempotency-Key"


def test_a_key_may_have_the_quotes_of_a_structured_field() -> None:
    assert idempotency_key('"8e03978e-40d5"') == idempotency_key(" 8e03978e-40d5 ") == "8e03978e-40d5"


@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
def test_ids_are_the_same_for_the_same_parts_alone(one: list[str], other: list[str]) -> None:
    assert (id_of("o", *one) == id_of("o", *other)) == (one == other)


def test_bodies_that_say_the_same_have_one_digest() -> None:
    assert digest_of({"a": 1, "b": [{"c": 2}]}) == digest_of({"b": [{"c": 2}], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})


@pytest.mark.parametrize(
    ("text", "is_one"), [("a@b", True), ("a b@c", False), ("a@b@c", False), ("@b", False), ("a@", False), ("a,b@c", False)]
)
def test_an_address_is_one_address(text: str, is_one: bool) -> None:
    assert is_address(text) is is_one
