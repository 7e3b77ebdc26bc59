"""A step of shards gives what a step of single keys gives, keeps a key's state and timers, and forgets them."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.streaming.tws_tester import TwsTester

from moldau.pipelines import shards
from moldau.pipelines.sharded import Sharded
from moldau.pipelines.shards import SHARDS, packs, shard_of, unpacked


class Number(NamedTuple):
    malformed: str | None
    name: str
    number: int


class Summed(NamedTuple):
    name: str
    total: int


class Sums(StatefulProcessor):
    """Running sums.  100 ms after a key was new its sum is told once more, and forgotten."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "total BIGINT")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        if not key[0]:
            yield from (Summed(row.malformed, 0) for row in rows)
            return
        kept = self.total.get()
        total = (kept[0] if kept else 0) + sum(row.number for row in rows)
        self.total.update((total,))
        if kept is None:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 100)
        yield Summed(key[0], total)

    def handleExpiredTimer(self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Any]:
        kept = self.total.get()
        assert kept is not None
        self.total.clear()
        yield Summed("end of " + key[0], kept[0])

    def close(self) -> None:
        pass


def rows(*numbers: Number) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for pack in packs(numbers, attrgetter("name")):
        found.setdefault(pack.shard, []).append(Row(events=pack.events))
    return found


def harness_of(**options: Any) -> TwsTester:
    return TwsTester(Sharded(Sums(), Number._make, "name", **options), timeMode="ProcessingTime")


def given_to(harness: TwsTester, *numbers: Number) -> list[Any]:
    return [row for shard, packed in rows(*numbers).items() for row in harness.test(shard, packed)]


NUMBERS = st.lists(st.tuples(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.integers(0, 9)), max_size=30)


@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=4))
def test_a_shard_of_keys_gives_what_single_keys_give(batches: list[list[tuple[str, int]]]) -> None:
    sharded, single = harness_of(), TwsTester(Sums(), timeMode="ProcessingTime")
    for turn, batch in enumerate(batches, 1):
        numbers = [Number(None, *one) for one in batch]
        found = given_to(sharded, *numbers)
        names = dict.fromkeys(name for name, _ in batch)
        assert sorted(found) == sorted(row for name in names for row in single.test(name, [one for one in numbers if one.name == name]))
        assert sorted(sharded.setProcessingTime(60 * turn)) == sorted(single.setProcessingTime(60 * turn))


def test_a_key_has_its_timer_and_then_nothing_is_left() -> None:
    harness = harness_of()
    names = [f"k{number}" for number in range(40)]
    given_to(harness, *(Number(None, name, 1) for name in names))
    assert sorted(harness.setProcessingTime(101)) == sorted(Summed("end of " + name, 1) for name in names)
    assert harness.setProcessingTime(1_000) == []
    for shard in range(SHARDS):
        assert not harness.peekMapState("total", shard)


def test_keys_of_several_batches_share_a_timer() -> None:
    """Two keys of one shard that are new in two micro-batches of the same time."""
    harness = harness_of()
    other = next(name for name in map(str, range(1_000)) if shard_of(name) == shard_of("a"))
    given_to(harness, Number(None, "a", 1))
    given_to(harness, Number(None, other, 2))
    assert sorted(harness.setProcessingTime(101)) == sorted([Summed("end of a", 1), Summed("end of " + other, 2)])


def test_a_malformed_event_has_no_state() -> None:
    harness = harness_of()
    (found,) = given_to(harness, Number("NOT_JSON", "a", 1))
    assert found.name == "NOT_JSON"
    assert not harness.peekMapState("total", shard_of("a"))


def test_the_next_step_gets_packs_by_its_own_key() -> None:
    found = given_to(harness_of(next_key="name"), *(Number(None, f"k{number}", number) for number in range(40)))
    summed = [(pack.shard, *event) for pack in found for event in unpacked(pack.events)]
    assert sorted(summed) == sorted((shard_of(f"k{number}"), f"k{number}", number) for number in range(40))


def test_no_pack_is_much_larger_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MOST_PACK_BYTES", 1_000)
    events = [("a", bytes(300)) for _ in range(20)] + [("a", bytes(5_000))]
    found = list(packs(events, lambda event: event[0]))
    assert [event for pack in found for event in unpacked(pack.events)] == events
    assert [len(pack.events) > 1_000 for pack in found].count(True) == 1, "a single event is not cut"
