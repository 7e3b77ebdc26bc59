"""◇ Derives from a batch read's filters where to read: partitions, offsets, and the earliest time.

Rows are left out only where that is sure, and Spark looks at every row again: a filter that is not understood costs nothing but time.
Timestamps bound from below alone: the first record that is not older has an offset, but records behind it may be of any age.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from moldau.types import TopicPartition
from pyspark_moldau.ranges import OffsetRange


@dataclass
class Bounds:
    """The bounds of a read: `first` is inclusive, `end` exclusive; None: not bounded."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    least_partition: int | None = None
    most_partition: int | None = None
    first: int | None = None
    end: int | None = None
    from_ms: int | None = None

    def take(self, one: Filter) -> None:
        if not isinstance(one, EqualTo | EqualNullSafe | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            return
        if len(one.attribute) != 1:
            return
        values = list(one.value) if isinstance(one, In) else [one.value]
        column = one.attribute[0].lower()
        if column == "topic" and isinstance(one, EqualTo | EqualNullSafe | In):
            self.topics = _both(self.topics, (value for value in values if isinstance(value, str)))
        elif column == "partition":
            self._take_partition(one, _numbers(values))
        elif column == "offset":
            self._take_offset(one, _numbers(values))
        elif column == "timestamp" and isinstance(one, EqualTo | EqualNullSafe | In | GreaterThan | GreaterThanOrEqual):
            self._take_times(values)

    def _take_partition(self, one: Filter, values: list[int]) -> None:
        if isinstance(one, EqualTo | EqualNullSafe | In):
            self.partitions = _both(self.partitions, values)
        elif values and isinstance(one, GreaterThan | GreaterThanOrEqual):
            self.least_partition = _larger(self.least_partition, values[0] + isinstance(one, GreaterThan))
        elif values:
            self.most_partition = _smaller(self.most_partition, values[0] - isinstance(one, LessThan))

    def _take_offset(self, one: Filter, values: list[int]) -> None:
        if isinstance(one, EqualTo | EqualNullSafe | In):
            if values:
                self.first, self.end = _larger(self.first, min(values)), _smaller(self.end, max(values) + 1)
        elif values and isinstance(one, GreaterThan | GreaterThanOrEqual):
            self.first = _larger(self.first, values[0] + isinstance(one, GreaterThan))
        elif values:
            self.end = _smaller(self.end, values[0] + isinstance(one, LessThanOrEqual))

    def _take_times(self, values: list[Any]) -> None:
        if values and all(isinstance(value, datetime) and value.tzinfo is not None for value in values):
            self.from_ms = _larger(self.from_ms, min(int(value.timestamp() * 1000) for value in values))

    def has(self, one: TopicPartition) -> bool:
        return (
            (self.topics is None or one.topic in self.topics)
            and (self.partitions is None or one.partition in self.partitions)
            and (self.least_partition is None or one.partition >= self.least_partition)
            and (self.most_partition is None or one.partition <= self.most_partition)
        )

    def cut(self, one: OffsetRange) -> OffsetRange:
        first = one.first if self.first is None else max(one.first, self.first)
        end = one.end if self.end is None else min(one.end, self.end)
        return OffsetRange(one.topic_partition, first, max(first, end))


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """The bounds of several filters, all of which hold at once."""
    bounds = Bounds()
    for one in filters:
        bounds.take(one)
    return bounds


def _numbers(values: list[Any]) -> list[int]:
    return [value for value in values if isinstance(value, int) and not isinstance(value, bool)]


def _both(known: frozenset[Any] | None, more: Iterable[Any]) -> frozenset[Any]:
    return frozenset(more) if known is None else known & frozenset(more)


def _larger(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)


def _smaller(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)
