"""◇ Every verdict once more, from what was sent in the order in which it was sent: plain Python, no streams, no partitions.

An order's money and stock are freed when it fails, and it is a matter of time when that becomes known: `money_freed` and `stock_freed`
say, as read from the topics, which orders gave them back just before another one.  All else follows.

It shares no rule with the job, only the words of `model.py`.  It keeps everything and forgets nothing, where the job keeps
as little as it can: so it also judges the job's forgetting.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from moldau.pipelines.validation.faults import Sent
from moldau.pipelines.validation.model import Order, State

HOUR_MS = 3_600_000


class Expected(NamedTuple):
    state: State
    reasons: list[str]


class Expectation(NamedTuple):
    orders: dict[str, Expected]
    dead_letters: Counter[str]  # by reason
    released: frozenset[str] = frozenset()  # orders that held stock and were not validated


Before = Mapping[str, Sequence[str]]


def expect(
    sent: Iterable[Sent],
    catalogue: Mapping[int, int],
    money_freed: Before = MappingProxyType({}),
    stock_freed: Before = MappingProxyType({}),
    *,
    most_cents: int = 25_000,
    most_units: int = 24,
) -> Expectation:
    shop = _Shop(catalogue, most_cents, most_units)
    orders: dict[str, Expected] = {}
    dead_letters: Counter[str] = Counter()
    released: set[str] = set()
    for order, has_request, malformed in sent:
        if malformed is not None:
            dead_letters[str(malformed.reason)] += 1
        if order is None:
            continue
        for order_id in money_freed.get(order.order_id, ()):
            shop.free_money(order_id)
        for order_id in stock_freed.get(order.order_id, ()):
            shop.free_stock(order_id)
        found = [shop.fraud(order), shop.inventory(order) if has_request else None, shop.details(order)]
        reasons = [reason for reason in found if reason]
        dead_letters["LATE"] += "LATE" in reasons
        state = State.FAILED if reasons else State.VALIDATED if has_request else State.TIMED_OUT
        orders[order.order_id] = Expected(state, reasons)
        if has_request and found[1] is None and state is not State.VALIDATED:
            released.add(order.order_id)
    return Expectation(orders, +dead_letters, frozenset(released))


class _Shop:
    def __init__(self, catalogue: Mapping[int, int], most_cents: int, most_units: int) -> None:
        self.catalogue = catalogue
        self.most_cents = most_cents
        self.most_units = most_units
        self.latest_order: dict[str, int] = {}
        self.spent: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self.latest_day: dict[str, int] = {}
        self.sold: Counter[tuple[str, int, int]] = Counter()
        self.orders: dict[str, Order] = {}
        self.takes: dict[str, list[tuple[tuple[str, int, int], int]]] = {}

    def fraud(self, order: Order) -> str | None:
        customer, when = order.customer_id, order.ordered_ms
        if when + HOUR_MS < self.latest_order.get(customer, when):
            return "LATE"
        self.latest_order[customer] = max(when, self.latest_order.get(customer, when))
        a_day_ago = when - 24 * HOUR_MS
        spent = sum(cents for at, cents, _ in self.spent[customer] if at > a_day_ago)
        cents = max(0, order.total_cents)
        if spent + cents > self.most_cents:
            return "SPENT_LIMIT"
        if self.details(order) is None:  # a faulty order fails anyhow, and spends nothing
            self.spent[customer].append((when, cents, order.order_id))
            self.orders[order.order_id] = order
        return None

    def free_money(self, order_id: str) -> None:
        order = self.orders.get(order_id)
        if order is not None:
            self.spent[order.customer_id] = [entry for entry in self.spent[order.customer_id] if entry[2] != order_id]

    def free_stock(self, order_id: str) -> None:
        for shelf, units in self.takes.pop(order_id, ()):
            self.sold[shelf] -= units

    def inventory(self, order: Order) -> str | None:
        if any(line.product_id not in self.catalogue for line in order.lines):
            return "UNKNOWN_PRODUCT"
        store = order.store_id
        day = self.latest_day[store] = max(order.ordered_ms // (24 * HOUR_MS), self.latest_day.get(store, 0))
        wanted: Counter[int] = Counter()
        for line in order.lines:
            wanted[line.product_id] += line.quantity
        if any(self.sold[store, day, product] + units > self.catalogue[product] for product, units in wanted.items()):
            return "OUT_OF_STOCK"
        for product, units in wanted.items():
            self.sold[store, day, product] += units
        self.takes[order.order_id] = [((store, day, product), units) for product, units in wanted.items()]
        return None

    def details(self, order: Order) -> str | None:
        if not order.lines:
            return "NO_LINES"
        if not all(1 <= line.quantity <= self.most_units for line in order.lines):
            return "QUANTITY"
        if order.total_cents <= 0:
            return "NOTHING_TO_PAY"
        if order.total_cents != sum(line.cents for line in order.lines):
            return "TOTAL_MISMATCH"
        return None


def differences(expected: Mapping[str, Expected], found: Mapping[str, Expected]) -> list[str]:
    """One line for each order whose outcome is missing, not expected, or different."""
    return [
        f"order {order_id}: expected {_say(expected.get(order_id))}, found {_say(found.get(order_id))}"
        for order_id in sorted(expected.keys() | found.keys())
        if expected.get(order_id) != found.get(order_id)
    ]


def _say(outcome: Expected | None) -> str:
    return f"{outcome.state} {outcome.reasons}" if outcome else "nothing"
