"""A letter for each thing and state is the same however often it is written, and has nobody's text in its headers."""

import json

from hypothesis import given
from hypothesis import strategies as st

from moldau.shop.burgers.promotion import Claim, State, claim_json
from moldau.shop.mails.letters import Letter, address_of, burger_letter, order_letter


def written(order_id: str, state: str = "CREATED", **more: object) -> Letter | None:
    body = {"order_id": order_id, "customer_id": "42", "store_id": "7", "total_cents": 5, "state": state, **more}
    return order_letter(json.dumps(body).encode(), 1_700_000_000_000, "shop.example")


def test_each_state_has_its_letter() -> None:
    letters = [written("o-1", state, reasons=["LATE"]) for state in ("CREATED", "VALIDATED", "FAILED", "TIMED_OUT")]
    assert [one.message_id for one in letters if one] == [
        "order.o-1.created@shop.example",
        "order.o-1.validated@shop.example",
        "order.o-1.failed@shop.example",
        "order.o-1.timed_out@shop.example",
    ]
    assert letters[2] is not None
    assert "LATE" in letters[2].text
    claims = [burger_letter(claim_json(Claim("b-1", "42", 2, 538, 0, state)), 1, "shop.example", "http://s") for state in State]
    assert [one.subject for one in claims if one] == [
        "2 burgers are reserved for you",
        "Your 2 burgers are confirmed",
        "Your 2 burgers were given back",
    ]
    assert claims[0] is not None
    assert "http://s/burgers/b-1/payment" in claims[0].text
    assert "5.38" in claims[0].text


def test_what_is_no_order_and_no_claim_asks_for_no_letter() -> None:
    assert order_letter(b"nonsense", 1, "h") is None
    assert burger_letter(b"{}", 1, "h", "u") is None


def test_mails_go_to_the_orders_own_address_if_it_is_one() -> None:
    own, other = written("o-1", email="anna@example.org"), written("o-1", email="anna@example.org, ben@example.org")
    assert own is not None
    assert other is not None
    assert own.to == "anna@example.org"
    assert other.to == address_of("42") == "customer-42@customers.example"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80))
def test_no_id_breaks_out_of_a_header(order_id: str) -> None:
    letter = written(order_id)
    assert letter is not None
    sent = letter.message("shop@shop.example")
    assert sent["Message-ID"] == f"<{letter.message_id}>"
    assert sent.as_bytes() == letter.message("shop@shop.example").as_bytes()
    assert len(sent.keys()) == 8


@given(st.text(max_size=70), st.text(max_size=70))
def test_other_ids_have_other_letters(one: str, other: str) -> None:
    first, second = written(one), written(other)
    if first is not None and second is not None:
        assert (first.message_id == second.message_id) == (one == other)
