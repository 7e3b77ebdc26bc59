"""The year of baskets, cleaned as the docstring of `retail` says."""

import pytest

from moldau.pipelines import retail

pytestmark = pytest.mark.slow


def test_the_whole_year() -> None:
    catalogue, unknown, empty, lines, previous = retail.catalogue(), 0, 0, 0, 0
    ids = set()
    for order in retail.orders():
        assert order.ordered_ms >= previous
        previous = order.ordered_ms
        ids.add(order.order_id)
        empty += not order.lines
        lines += len(order.lines)
        unknown += any(line.product_id not in catalogue for line in order.lines)
        assert all(0 < line.quantity <= 200 and line.cents >= 0 for line in order.lines)
        assert order.total_cents == sum(line.cents for line in order.lines)
    assert len(ids) == retail.ALL_ORDERS
    assert (lines, empty, unknown, len(catalogue)) == (1_469_307 - 8_869, 330, 32, 92_331)


def test_a_beginning_is_a_beginning() -> None:
    assert list(retail.orders(100)) == list(retail.orders(250))[:100]
