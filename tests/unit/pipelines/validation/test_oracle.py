"""The oracle on cases worked out by hand, and the faults that are made on purpose."""

from collections import Counter

from moldau.pipelines.rolling import DAY_MS, HOUR_MS
from moldau.pipelines.validation.faults import NO_FAULTS, FaultPlan, Sent, with_faults
from moldau.pipelines.validation.model import Line, Order, State
from moldau.pipelines.validation.oracle import Expected, differences, expect

CATALOGUE = {1: 5, 2: 100}


def an_order(
    order_id: str = "a", *, customer: str = "c", store: str = "s", at: int = 0, lines: tuple[Line, ...] = (Line(1, 1, 100),)
) -> Order:
    return Order(order_id, customer, store, at, lines, sum(line.cents for line in lines))


def outcome(*orders: Order, has_request: bool = True) -> Expected:
    return expect([Sent(order, has_request) for order in orders], CATALOGUE).orders[orders[-1].order_id]


def test_each_reason() -> None:
    fine = an_order()
    assert outcome(fine) == (State.VALIDATED, [])
    assert outcome(fine, has_request=False) == (State.TIMED_OUT, [])
    assert outcome(an_order(lines=())) == (State.FAILED, ["NO_LINES"])
    assert outcome(an_order(lines=(Line(2, 25, 100),))) == (State.FAILED, ["QUANTITY"])
    assert outcome(an_order(lines=(Line(1, 1, 0),))) == (State.FAILED, ["NOTHING_TO_PAY"])
    assert outcome(fine._replace(total_cents=99)) == (State.FAILED, ["TOTAL_MISMATCH"])
    assert outcome(an_order(lines=(Line(9, 1, 100),))) == (State.FAILED, ["UNKNOWN_PRODUCT"])
    assert outcome(an_order(lines=(Line(1, 6, 100),))) == (State.FAILED, ["OUT_OF_STOCK"])
    assert outcome(an_order(lines=(Line(1, 6, 25_001),))) == (State.FAILED, ["SPENT_LIMIT", "OUT_OF_STOCK"])
    assert outcome(an_order("a", at=2 * HOUR_MS), an_order("b", at=HOUR_MS - 1)) == (State.FAILED, ["LATE"])


def test_a_day_of_spending_and_a_day_of_stock() -> None:
    big = (Line(2, 1, 20_000),)
    assert outcome(an_order("a", lines=big), an_order("b", at=DAY_MS - 1, lines=big)).reasons == ["SPENT_LIMIT"]
    assert outcome(an_order("a", lines=big), an_order("b", at=DAY_MS, lines=big)).reasons == []
    four = (Line(1, 4, 10),)
    assert outcome(an_order("a", lines=four), an_order("b", customer="d", lines=four)).reasons == ["OUT_OF_STOCK"]
    assert outcome(an_order("a", lines=four), an_order("b", customer="d", store="t", lines=four)).reasons == []
    assert outcome(an_order("a", lines=four), an_order("b", customer="d", at=DAY_MS, lines=four)).reasons == []


def test_differences_name_the_missing_the_strange_and_the_unexpected() -> None:
    validated, failed = Expected(State.VALIDATED, []), Expected(State.FAILED, ["LATE"])
    lines = differences({"a": validated, "b": validated, "c": failed}, {"b": failed, "c": failed, "d": failed})
    assert [line.split(":")[0] for line in lines] == ["order a", "order b", "order d"]


def test_faults_lose_no_order_and_hold_one_back_behind_its_customers_next() -> None:
    orders = [an_order(str(n), customer=str(n % 3), store=str(n), at=n * HOUR_MS) for n in range(1, 13)]
    sent = list(with_faults(orders, FaultPlan(held_back=5, lost_request=4, wrong_total=6, malformed=3)))
    ids = [step.order.order_id for step in sent if step.order]
    assert sorted(ids, key=int) == [order.order_id for order in orders]
    assert ids.index("5") == ids.index("8") + 1
    assert {step.order.order_id for step in sent if step.order and not step.has_request} == {"4", "8", "12"}
    assert sum(step.malformed is not None for step in sent) == 4
    expected = expect(sent, CATALOGUE)
    assert expected.orders["5"] == (State.FAILED, ["LATE"])
    assert expected.orders["6"].reasons == ["TOTAL_MISMATCH"]
    assert expected.dead_letters.total() == 5


def test_no_faults_means_none() -> None:
    orders = [an_order(str(n)) for n in range(1, 500)]
    assert list(with_faults(orders, NO_FAULTS)) == [Sent(order) for order in orders]
    assert expect([], CATALOGUE).dead_letters == Counter()


def test_what_a_failed_order_held_is_free_from_where_the_topics_say_so() -> None:
    sent = [
        Sent(an_order("a", lines=(Line(1, 5, 10), Line(9, 1, 10)))),  # fails: nobody knows product 9
        Sent(an_order("b", lines=(Line(1, 5, 30_000),))),  # fails: too much money, and holds all there is
        Sent(an_order("c", customer="d", lines=(Line(1, 5, 10),))),
        Sent(an_order("e", customer="d", lines=(Line(1, 5, 24_995),))),
    ]
    held = expect(sent, CATALOGUE).orders
    assert (held["c"].reasons, held["e"].reasons) == (["OUT_OF_STOCK"], ["SPENT_LIMIT", "OUT_OF_STOCK"])
    freed = expect(sent, CATALOGUE, {"e": ["c"]}, {"e": ["b"]})
    assert (freed.orders["c"].reasons, freed.orders["e"].reasons) == (["OUT_OF_STOCK"], [])
    assert freed.released == {"b"}
