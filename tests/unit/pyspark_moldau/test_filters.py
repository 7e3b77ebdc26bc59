"""Filters say where to read, and never leave out what they let through."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not, StringContains

from moldau.types import TopicPartition
from pyspark_moldau.filters import bounds_of
from pyspark_moldau.ranges import OffsetRange

PARTITION, OFFSET, TIME = ("partition",), ("offset",), ("timestamp",)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def partitions(*filters: Filter) -> list[int]:
    return [number for number in range(6) if bounds_of(filters).has(TopicPartition("t", number))]


def offsets(*filters: Filter) -> tuple[int, int]:
    found = bounds_of(filters).cut(OffsetRange(TopicPartition("t", 0), 10, 100))
    return found.first, found.end


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        ([EqualTo(PARTITION, 3)], [3]),
        ([In(PARTITION, (1, 2)), In(PARTITION, (2, 3))], [2]),
        ([GreaterThan(PARTITION, 3)], [4, 5]),
        ([GreaterThanOrEqual(PARTITION, 3), LessThan(PARTITION, 4)], [3]),
        ([LessThanOrEqual(PARTITION, 1)], [0, 1]),
        ([Not(EqualTo(PARTITION, 3))], [0, 1, 2, 3, 4, 5]),
        ([EqualTo(("topic",), "u")], []),
        ([EqualTo(("topic",), "t"), StringContains(("topic",), "x")], [0, 1, 2, 3, 4, 5]),
        ([EqualTo(("headers", "partition"), 3)], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_partitions(filters: list[Filter], left: list[int]) -> None:
    assert partitions(*filters) == left


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], (10, 100)),
        ([EqualTo(OFFSET, 50)], (50, 51)),
        ([In(OFFSET, (20, 60, 40))], (20, 61)),
        ([GreaterThan(OFFSET, 20), GreaterThanOrEqual(OFFSET, 15)], (21, 100)),
        ([LessThan(OFFSET, 50)], (10, 50)),
        ([LessThanOrEqual(OFFSET, 50), LessThan(OFFSET, 90)], (10, 51)),
        ([GreaterThan(OFFSET, 500)], (501, 501)),
        ([LessThan(OFFSET, 3)], (10, 10)),
        ([EqualTo(OFFSET, None)], (10, 100)),
    ],
)
def test_offsets(filters: list[Any], left: tuple[int, int]) -> None:
    assert offsets(*filters) == left


def test_times_bound_from_below() -> None:
    noon_ms = int(NOON.timestamp() * 1000)
    assert bounds_of([GreaterThanOrEqual(TIME, NOON)]).from_ms == noon_ms
    assert bounds_of([EqualTo(TIME, NOON), GreaterThan(TIME, NOON.replace(hour=3))]).from_ms == noon_ms
    assert bounds_of([LessThan(TIME, NOON)]).from_ms is None
    assert bounds_of([GreaterThan(TIME, NOON.replace(tzinfo=None))]).from_ms is None, "nobody knows the zone"
