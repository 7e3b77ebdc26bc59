"""◇ The inventory check: a store has so many units of a product on its shelf, filled up each night.

    reserve(catalogue, shelf, order_id, ordered_ms, wanted)  →  shelf', None | UNKNOWN_PRODUCT | OUT_OF_STOCK
    freed(shelf, order_id)  →  shelf'

All lines of an order are reserved or none is, and freed when the order fails for another reason.
The order of the store's partition decides which order comes first.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from moldau.pipelines.rolling import DAY_MS
from moldau.pipelines.validation.model import Reason


class Shelf(NamedTuple):
    """The items that were taken from a store's shelves today; an untouched product is not listed, so this stays small."""

    day: int = -1
    taken: Mapping[int, int] = {}
    judged: Mapping[str, Mapping[int, int]] = {}  # today's orders, each with what it holds: an id is judged once


def reserve(
    catalogue: Mapping[int, int], shelf: Shelf, order_id: str, ordered_ms: int, wanted: Mapping[int, int]
) -> tuple[Shelf, Reason | None]:
    """`catalogue` is product id → units on a full shelf.  An order from before midnight that comes after it takes from today's shelf."""
    if any(product_id not in catalogue for product_id in wanted):
        return _judged(shelf, order_id, {}), Reason.UNKNOWN_PRODUCT
    day = ordered_ms // DAY_MS
    if day > shelf.day:
        shelf = Shelf(day)
    after = {product_id: shelf.taken.get(product_id, 0) + units for product_id, units in wanted.items()}
    if any(units > catalogue[product_id] for product_id, units in after.items()):
        return _judged(shelf, order_id, {}), Reason.OUT_OF_STOCK
    return _judged(shelf._replace(taken={**shelf.taken, **after}), order_id, wanted), None


def freed(shelf: Shelf, order_id: str) -> Shelf:
    """Put the order's items back on the shelf, once.  Orders of another day are not known, and their shelf was filled up."""
    held = shelf.judged.get(order_id)
    if not held:
        return shelf
    left = {product_id: shelf.taken[product_id] - units for product_id, units in held.items()}
    taken = {product_id: units for product_id, units in {**shelf.taken, **left}.items() if units > 0}
    return _judged(shelf._replace(taken=taken), order_id, {})


def _judged(shelf: Shelf, order_id: str, held: Mapping[int, int]) -> Shelf:
    return shelf._replace(judged={**shelf.judged, order_id: held})


def pack(shelf: Shelf) -> str:
    return json.dumps(shelf, separators=(",", ":"))


def unpack(text: str | None) -> Shelf:
    if text is None:
        return Shelf()
    day, taken, judged = json.loads(text)
    if isinstance(judged, list):  # the first version of state: it did not say what an order holds
        judged = {order_id: {} for order_id in judged}
    return Shelf(day, _by_number(taken), {order_id: _by_number(held) for order_id, held in judged.items()})


def _by_number(units: Mapping[str, int]) -> dict[int, int]:
    return {int(product_id): count for product_id, count in units.items()}
