"""◇ The inventory check: a store has so many units of a product on its shelf, filled up each night.

    reserve(catalogue, shelf, order_id, ordered_ms, wanted)  →  shelf', None | UNKNOWN_PRODUCT | OUT_OF_STOCK
    freed(shelf, order_id)  →  shelf'

All lines of an order are reserved or none is, and freed when the order fails for another reason.
The order of the store's partition decides which order comes first.

A shelf lists the orders that hold something, at most one for each unit of the full shelves, and the latest `REMEMBERED_IDS` others.  When
an older id comes again, it may reserve again.  The aggregator knows all ids, and frees what was reserved for nothing.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from moldau.pipelines.customer import REMEMBERED_IDS
from moldau.pipelines.rolling import DAY_MS
from moldau.pipelines.validation.model import Reason


class Shelf(NamedTuple):
    """The items that were taken from a store's shelves today; an untouched product is not listed, so this stays small."""

    day: int = -1
    taken: Mapping[int, int] = {}
    held: Mapping[str, Mapping[int, int]] = {}  # today's orders that hold something, each with its units
    recent: tuple[str, ...] = ()  # the latest of today's orders that hold nothing, oldest first

    def knows(self, order_id: str) -> bool:
        """Whether an order of this id was judged today."""
        return order_id in self.held or order_id in self.recent


def reserve(
    catalogue: Mapping[int, int], shelf: Shelf, order_id: str, ordered_ms: int, wanted: Mapping[int, int]
) -> tuple[Shelf, Reason | None]:
    """`catalogue` is product id → units on a full shelf.  An order from before midnight that comes after it takes from today's shelf."""
    if any(product_id not in catalogue for product_id in wanted):
        return _remembered(shelf, order_id), Reason.UNKNOWN_PRODUCT
    day = ordered_ms // DAY_MS
    if day > shelf.day:
        shelf = Shelf(day)
    after = {product_id: shelf.taken.get(product_id, 0) + units for product_id, units in wanted.items()}
    if any(units > catalogue[product_id] for product_id, units in after.items()):
        return _remembered(shelf, order_id), Reason.OUT_OF_STOCK
    if not wanted:
        return _remembered(shelf, order_id), None
    return shelf._replace(taken={**shelf.taken, **after}, held={**shelf.held, order_id: wanted}), None


def freed(shelf: Shelf, order_id: str) -> Shelf:
    """Put the order's items back on the shelf, once.  Orders of another day are not known, and their shelf was filled up."""
    units_of = shelf.held.get(order_id)
    if units_of is None:
        return shelf
    left = {product_id: shelf.taken[product_id] - units for product_id, units in units_of.items()}
    taken = {product_id: units for product_id, units in {**shelf.taken, **left}.items() if units > 0}
    held = {other: units for other, units in shelf.held.items() if other != order_id}
    return _remembered(shelf._replace(taken=taken, held=held), order_id)


def _remembered(shelf: Shelf, order_id: str) -> Shelf:
    return shelf._replace(recent=(*shelf.recent, order_id)[-REMEMBERED_IDS:])


def pack(shelf: Shelf) -> str:
    return json.dumps(shelf, separators=(",", ":"))


def unpack(text: str | None) -> Shelf:
    """Earlier forms of state listed all orders together: by name only, then each with what it holds."""
    if text is None:
        return Shelf()
    day, taken, orders, *recent = json.loads(text)
    if isinstance(orders, list):
        orders = {order_id: {} for order_id in orders}
    nothing = recent[0] if recent else [order_id for order_id, units in orders.items() if not units]
    held = {order_id: _by_number(units) for order_id, units in orders.items() if units}
    return Shelf(day, _by_number(taken), held, tuple(nothing[-REMEMBERED_IDS:]))


def _by_number(units: Mapping[str, int]) -> dict[int, int]:
    return {int(product_id): count for product_id, count in units.items()}
