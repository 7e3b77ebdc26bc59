"""Shelves: all lines or none, first come first served, filled up at midnight."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.rolling import DAY_MS
from moldau.pipelines.validation.inventory import Shelf, pack, reserve, unpack
from moldau.pipelines.validation.model import Reason

CATALOGUE = {1: 5, 2: 3}
WANTED = st.dictionaries(st.sampled_from([1, 2, 3]), st.integers(1, 6), max_size=3)


def test_all_lines_or_none() -> None:
    shelf, fault = reserve(CATALOGUE, Shelf(), 0, {1: 5, 2: 4})
    assert fault is Reason.OUT_OF_STOCK
    assert reserve(CATALOGUE, shelf, 0, {1: 5, 2: 3})[1] is None


def test_the_last_unit_goes_once() -> None:
    shelf, first = reserve(CATALOGUE, Shelf(), 0, {2: 3})
    assert (first, reserve(CATALOGUE, shelf, 1, {2: 1})[1]) == (None, Reason.OUT_OF_STOCK)


def test_shelves_are_filled_at_midnight_and_not_by_an_order_from_before() -> None:
    shelf, _ = reserve(CATALOGUE, Shelf(), DAY_MS - 1, {2: 3})
    shelf, after = reserve(CATALOGUE, shelf, DAY_MS, {2: 3})
    assert after is None
    assert reserve(CATALOGUE, shelf, DAY_MS - 1, {2: 1})[1] is Reason.OUT_OF_STOCK


def test_a_product_nobody_knows() -> None:
    assert reserve(CATALOGUE, Shelf(), 0, {3: 1}) == (Shelf(), Reason.UNKNOWN_PRODUCT)


@given(st.lists(st.tuples(st.integers(0, 4 * DAY_MS), WANTED), max_size=40))
def test_never_more_than_a_full_shelf_and_never_a_forgotten_unit(orders: list[tuple[int, dict[int, int]]]) -> None:
    shelf, taken = Shelf(), {1: 0, 2: 0}
    for ordered_ms, wanted in orders:
        day = shelf.day
        shelf, fault = reserve(CATALOGUE, unpack(pack(shelf)), ordered_ms, wanted)
        if shelf.day > day:
            taken = {1: 0, 2: 0}
        for product_id, units in wanted.items() if fault is None else ():
            taken[product_id] += units
        assert {product: shelf.taken.get(product, 0) for product in taken} == taken
        assert all(taken[product] <= CATALOGUE[product] for product in taken)
