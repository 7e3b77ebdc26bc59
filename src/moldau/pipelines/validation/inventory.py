"""◇ The inventory check: a store has so many units of a product on its shelf, filled up each night.

    reserve(catalogue, shelf, ordered_ms, wanted)  →  shelf', None | UNKNOWN_PRODUCT | OUT_OF_STOCK

All lines of an order are reserved or none is.  Who comes first is decided by the order of the store's partition.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from moldau.pipelines.rolling import DAY_MS
from moldau.pipelines.validation.model import Reason


class Shelf(NamedTuple):
    """What was taken from a store's shelves today; an untouched product is not listed, so this stays small."""

    day: int = -1
    taken: Mapping[int, int] = {}
    judged: frozenset[str] = frozenset()  # today's orders: an id is judged once


def reserve(catalogue: Mapping[int, int], shelf: Shelf, ordered_ms: int, wanted: Mapping[int, int]) -> tuple[Shelf, Reason | None]:
    """`catalogue` is product id → units on a full shelf.  An order from before midnight that comes after it takes from today's shelf."""
    if any(product_id not in catalogue for product_id in wanted):
        return shelf, Reason.UNKNOWN_PRODUCT
    day = ordered_ms // DAY_MS
    if day > shelf.day:
        shelf = Shelf(day)
    after = {product_id: shelf.taken.get(product_id, 0) + units for product_id, units in wanted.items()}
    if any(units > catalogue[product_id] for product_id, units in after.items()):
        return shelf, Reason.OUT_OF_STOCK
    return shelf._replace(taken={**shelf.taken, **after}), None


def pack(shelf: Shelf) -> str:
    return json.dumps([shelf.day, shelf.taken, sorted(shelf.judged)], separators=(",", ":"))


def unpack(text: str | None) -> Shelf:
    if text is None:
        return Shelf()
    day, taken, judged = json.loads(text)
    return Shelf(day, {int(product_id): units for product_id, units in taken.items()}, frozenset(judged))
