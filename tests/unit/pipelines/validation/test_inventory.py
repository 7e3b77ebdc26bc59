"""Shelves: all lines or none, first come first served, filled up at midnight."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.customer import REMEMBERED_IDS
from moldau.pipelines.rolling import DAY_MS
from moldau.pipelines.validation.inventory import Shelf, freed, pack, reserve, unpack
from moldau.pipelines.validation.model import Reason

CATALOGUE = {1: 5, 2: 3}
WANTED = st.dictionaries(st.sampled_from([1, 2, 3]), st.integers(1, 6), max_size=3)


def test_all_lines_or_none() -> None:
    shelf, fault = reserve(CATALOGUE, Shelf(), "a", 0, {1: 5, 2: 4})
    assert fault is Reason.OUT_OF_STOCK
    assert reserve(CATALOGUE, shelf, "b", 0, {1: 5, 2: 3})[1] is None


def test_the_last_unit_goes_once() -> None:
    shelf, first = reserve(CATALOGUE, Shelf(), "a", 0, {2: 3})
    assert (first, reserve(CATALOGUE, shelf, "b", 1, {2: 1})[1]) == (None, Reason.OUT_OF_STOCK)


def test_shelves_are_filled_at_midnight_and_not_by_an_order_from_before() -> None:
    shelf, _ = reserve(CATALOGUE, Shelf(), "a", DAY_MS - 1, {2: 3})
    shelf, after = reserve(CATALOGUE, shelf, "b", DAY_MS, {2: 3})
    assert after is None
    assert reserve(CATALOGUE, shelf, "b", DAY_MS - 1, {2: 1})[1] is Reason.OUT_OF_STOCK


def test_a_product_nobody_knows() -> None:
    assert reserve(CATALOGUE, Shelf(), "a", 0, {3: 1}) == (Shelf(recent=("a",)), Reason.UNKNOWN_PRODUCT)


@given(st.lists(st.tuples(st.integers(0, 4 * DAY_MS), WANTED), max_size=40))
def test_never_more_than_a_full_shelf_and_never_a_forgotten_unit(orders: list[tuple[int, dict[int, int]]]) -> None:
    shelf, taken = Shelf(), {1: 0, 2: 0}
    for ordered_ms, wanted in orders:
        day = shelf.day
        shelf, fault = reserve(CATALOGUE, unpack(pack(shelf)), "c", ordered_ms, wanted)
        if shelf.day > day:
            taken = {1: 0, 2: 0}
        for product_id, units in wanted.items() if fault is None else ():
            taken[product_id] += units
        assert {product: shelf.taken.get(product, 0) for product in taken} == taken
        assert all(taken[product] <= CATALOGUE[product] for product in taken)


@given(WANTED, WANTED)
def test_what_is_freed_is_as_if_it_had_never_been_reserved(first: dict[int, int], second: dict[int, int]) -> None:
    before, _ = reserve(CATALOGUE, Shelf(), "a", 0, first)
    shelf, _ = reserve(CATALOGUE, before, "b", 0, second)
    shelf = freed(unpack(pack(shelf)), "b")
    assert (shelf.taken, shelf.held) == (before.taken, before.held)
    assert shelf.knows("b")
    assert freed(shelf, "b") == shelf
    assert freed(shelf, "nobody") == shelf


def test_a_store_that_has_sold_out_keeps_no_list_of_all_who_ask() -> None:
    shelf, _ = reserve(CATALOGUE, Shelf(), "first", 0, {2: 3})
    for number in range(3 * REMEMBERED_IDS):
        shelf, fault = reserve(CATALOGUE, shelf, f"o{number}", 0, {2: 1})
        assert fault is Reason.OUT_OF_STOCK
    assert len(shelf.recent) == REMEMBERED_IDS
    assert shelf.knows("first")
    assert shelf.knows(f"o{2 * REMEMBERED_IDS}")
    assert unpack(pack(shelf)) == shelf


def test_earlier_forms_of_state_are_read() -> None:
    assert unpack('[3,{"1":2},["a"]]') == Shelf(3, {1: 2}, {}, ("a",))
    assert unpack('[3,{"1":2},{"a":{},"b":{"1":2}}]') == Shelf(3, {1: 2}, {"b": {1: 2}}, ("a",))
