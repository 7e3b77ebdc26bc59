"""The promotion against brute force: whatever customers do, nobody is over the limit in any 24 hours."""

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.shop.burgers.promotion import (
    DAY_MS,
    Book,
    Claim,
    Promotion,
    Reason,
    Refused,
    State,
    claim_json,
    claim_of,
    decide,
    expired,
    forget_old,
    pay,
    replay,
)

HOUR_MS = 3_600_000
PROMOTION = Promotion(starts_ms=10 * HOUR_MS, ends_ms=100 * HOUR_MS, pay_within_ms=2 * HOUR_MS)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "pay", "expire", "forget"]),
        st.sampled_from(["anna", "ben"]),
        st.integers(1, 6),
        st.integers(-1, 9),  # hours to the next step; clocks jump back, too
    ),
    max_size=60,
)


def wanted(number: int, customer: str, quantity: int) -> Claim:
    return Claim(f"b-{number}", customer, quantity, 0, 0)


def over_any_day(claims: list[Claim], customer: str) -> int:
    """The most of one customer that counted at once: the sum over the 24 hours up to one of the claims."""
    own = [one for one in claims if one.customer_id == customer]
    return max((sum(one.quantity for one in own if last.at_ms - DAY_MS < one.at_ms <= last.at_ms) for last in own), default=0)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_nobody_has_more_than_five_in_any_24_hours_and_the_log_tells_it_all(steps: list[tuple[str, str, int, int]]) -> None:
    book, log, now_ms = Book(), [], 9 * HOUR_MS
    for number, (what, customer, quantity, hours) in enumerate(steps):
        now_ms += hours * HOUR_MS
        decided: list[Claim] = []
        if what == "claim":
            found = decide(book, PROMOTION, wanted(number, customer, quantity), now_ms)
            if isinstance(found, Claim):
                assert PROMOTION.starts_ms <= found.at_ms < PROMOTION.ends_ms
                assert found.cents == quantity * 269
                decided = [found]
            elif found.reason is Reason.OVER_LIMIT:
                assert 0 <= found.left < quantity
        elif what == "pay":
            ids = [one.claim_id for one in log if one.customer_id == customer]
            paid = pay(book, ids[-1], now_ms) if ids else None
            decided = [paid] if paid is not None and paid != book.claims[ids[-1]] else []
        elif what == "expire":
            decided = expired(book, now_ms)
        else:
            forget_old(book, now_ms)
        for claim in decided:
            replay(book, PROMOTION, claim)
            log.append(claim)
    last = {one.claim_id: one for one in log}
    kept = [one for one in last.values() if one.state is not State.EXPIRED]
    assert over_any_day(kept, "anna") <= 5
    assert over_any_day(kept, "ben") <= 5
    again = Book()
    for claim in log:
        replay(again, PROMOTION, claim_of(claim_json(claim)))
    for one in (book, again):
        forget_old(one, max(book.newest_ms, again.newest_ms))
    assert (again.claims, again.unpaid) == (book.claims, book.unpaid)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(1, 5), max_size=6))
def test_a_refusal_says_when_there_is_room_again(quantity: int, before: list[int]) -> None:
    book, now_ms = Book(), 20 * HOUR_MS
    for number, one in enumerate(before):
        found = decide(book, PROMOTION, wanted(number, "anna", one), now_ms)
        if isinstance(found, Claim):
            replay(book, PROMOTION, found)
            replay(book, PROMOTION, found._replace(state=State.PAID))
        now_ms += HOUR_MS
    refused = decide(book, PROMOTION, wanted(99, "anna", quantity), now_ms)
    if isinstance(refused, Refused):
        assert refused.again_ms is not None
        assert isinstance(decide(book, PROMOTION, wanted(99, "anna", quantity), refused.again_ms - 1), Refused)
        assert isinstance(decide(book, PROMOTION, wanted(99, "anna", quantity), refused.again_ms), Claim)


def test_the_same_claim_again_is_the_same_answer() -> None:
    book = Book()
    first = decide(book, PROMOTION, wanted(1, "anna", 5), 20 * HOUR_MS)
    assert isinstance(first, Claim)
    replay(book, PROMOTION, first)
    assert decide(book, PROMOTION, wanted(1, "anna", 5), 21 * HOUR_MS) == first
    assert decide(book, PROMOTION, wanted(2, "anna", 1), 21 * HOUR_MS) == Refused(Reason.OVER_LIMIT, 0, 44 * HOUR_MS)


def test_what_is_not_paid_in_time_counts_no_longer() -> None:
    book = Book()
    first = decide(book, PROMOTION, wanted(1, "anna", 5), 20 * HOUR_MS)
    assert isinstance(first, Claim)
    replay(book, PROMOTION, first)
    assert expired(book, 22 * HOUR_MS - 1) == []
    late = pay(book, "b-1", 22 * HOUR_MS)
    assert late is not None
    assert late.state is State.EXPIRED
    assert expired(book, 22 * HOUR_MS) == [late]
    replay(book, PROMOTION, late)
    assert isinstance(decide(book, PROMOTION, wanted(2, "anna", 5), 22 * HOUR_MS), Claim)
    assert book.reserved_units == 0


def test_a_customer_of_whom_nothing_counts_is_forgotten() -> None:
    book = Book()
    for number in range(100):
        found = decide(book, PROMOTION, wanted(number, f"c{number}", 1), 20 * HOUR_MS)
        assert isinstance(found, Claim)
        replay(book, PROMOTION, found)
        replay(book, PROMOTION, found._replace(state=State.PAID))
    forget_old(book, 44 * HOUR_MS)
    assert not book.claims
    assert not book.customers
    assert book.paid_units == 100


def test_a_settled_claim_stays_as_it_is() -> None:
    book = Book()
    first = decide(book, PROMOTION, wanted(1, "anna", 5), 20 * HOUR_MS)
    assert isinstance(first, Claim)
    for state in (State.RESERVED, State.PAID, State.PAID, State.EXPIRED, State.RESERVED):
        replay(book, PROMOTION, first._replace(state=state))
    assert book.claims["b-1"].state is State.PAID
    assert (book.paid_units, book.reserved_units, book.unpaid) == (5, 0, {})
