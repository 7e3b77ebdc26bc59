"""◇ Ranges of offsets: sharing a limit out among partitions, cutting large ranges up, and gathering small ones into tasks.

Source: KafkaMicroBatchStream.rateLimit, KafkaOffsetRangeCalculator.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from moldau.types import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `first` (inclusive) to `end` (exclusive)."""

    topic_partition: TopicPartition
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def limited(limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Ends such that about `limit` offsets are read in all, by each partition's share of the offsets; `start` knows every partition."""
    sizes = {one: max(0, end[one] - start[one]) for one in end}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    found = {}
    for one, size in sizes.items():
        share = limit * size / total
        # A share below one is rounded up: else the partition would never be read.
        found[one] = min(end[one], start[one] + (math.ceil(share) if share < 1 else math.floor(share))) if size else end[one]
    return found


def cut(ranges: list[OffsetRange], *, least_tasks: int | None, most_offsets: int | None) -> list[OffsetRange]:
    """Ranges for at least `least_tasks` tasks if there are as many offsets, each with at most `most_offsets`; empty ones are left out."""
    ranges = [one for one in ranges if one.size > 0]
    if most_offsets is not None:
        ranges = [part for one in ranges for part in _split(one, math.ceil(one.size / most_offsets))]
    if least_tasks is None or len(ranges) >= least_tasks:
        return ranges
    total = sum(one.size for one in ranges)
    cut_up = []
    for one in ranges:
        parts = max(1, round(one.size / total * least_tasks))
        cut_up += _split(one, min(parts, one.size))
    return cut_up


def gathered(ranges: list[OffsetRange], most_offsets: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task, in their order: neighbours share a task while they have at most `most_offsets` together."""
    tasks: list[tuple[OffsetRange, ...]] = []
    room = 0
    for one in ranges:
        if one.size <= room:
            tasks[-1] += (one,)
            room -= one.size
        else:
            tasks.append((one,))
            room = most_offsets - one.size
    return tasks


def _split(one: OffsetRange, parts: int) -> list[OffsetRange]:
    """Nearly equal parts of a range."""
    bounds = [one.first + one.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(one.topic_partition, first, end) for first, end in pairwise(bounds)]
