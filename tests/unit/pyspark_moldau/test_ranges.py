"""Limits are shared out, and ranges cut or gathered into tasks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moldau.types import TopicPartition
from pyspark_moldau.ranges import OffsetRange, cut, gathered, limited


def partitions(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), 100, 100 + size) for number, size in enumerate(sizes)]


def after(limit: int, *sizes: int) -> list[int]:
    ranges = partitions(*sizes)
    ends = limited(limit, {one.topic_partition: one.first for one in ranges}, {one.topic_partition: one.end for one in ranges})
    return [ends[one.topic_partition] - 100 for one in ranges]


def test_a_limit_is_shared_by_what_there_is() -> None:
    assert after(100, 1_000, 3_000, 0) == [25, 75, 0]
    assert after(5_000, 1_000, 3_000, 0) == [1_000, 3_000, 0]
    assert after(10, 1, 100_000) == [1, 9], "a small partition is not left behind for ever"


@given(st.integers(1, 500), st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_a_limit_makes_progress_and_is_kept(limit: int, sizes: list[int]) -> None:
    found = after(limit, *sizes)
    assert all(0 <= one <= size for one, size in zip(found, sizes, strict=True))
    assert sum(found) <= limit + len(sizes)
    assert sum(found) > 0 or sum(sizes) == 0


@given(st.lists(st.integers(0, 400), max_size=6), st.none() | st.integers(1, 30), st.none() | st.integers(1, 90))
def test_cut_ranges_are_the_same_offsets(sizes: list[int], least: int | None, most: int | None) -> None:
    ranges = partitions(*sizes)
    found = cut(ranges, least_tasks=least, most_offsets=most)
    assert [offset for one in found for offset in range(one.first, one.end)] == [o for one in ranges for o in range(one.first, one.end)]
    assert all(one.size > 0 for one in found)
    if most is not None:
        assert all(one.size <= most for one in found)


def test_one_big_partition_becomes_many_tasks() -> None:
    assert len(cut(partitions(1_000, 10), least_tasks=8, most_offsets=None)) >= 8
    assert [one.size for one in cut(partitions(100), least_tasks=None, most_offsets=40)] == [33, 33, 34]


@given(st.lists(st.integers(1, 400), max_size=8), st.integers(0, 500))
def test_gathered_ranges_keep_their_order_and_the_limit(sizes: list[int], most: int) -> None:
    ranges = partitions(*sizes)
    found = gathered(ranges, most)
    assert [one for task in found for one in task] == ranges
    assert all(len(task) == 1 or sum(one.size for one in task) <= most for task in found)
    assert all(sum(one.size for one in task) + following[0].size > most for task, following in pairwise(found)), (
        "a neighbour would have had room"
    )


def test_small_partitions_share_a_task_and_large_ones_have_their_own() -> None:
    assert [[one.size for one in task] for task in gathered(partitions(10, 20, 5_000, 30), 1_000)] == [[10, 20], [5_000], [30]]
    assert len(gathered(partitions(10, 20), 0)) == 2
