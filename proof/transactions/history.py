"""◇ The answers that transactional clients and readers of committed records got, and the promises that must hold.

`check_transactions` holds the final state, when all is calm, against each client's knowledge (`schedules/verdict.py`), and against every
answer that a reader got before:

copied        outputs and offsets agree: every record of the source up to the committed offset is visible, once, in order, and no other
seen          a record that a reader was shown is there in the end, at its offset; no answer left out a record that was known to be there
passed        the last stable offset never passes an open transaction; a transaction was open until its client asked for its end
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.types import TopicPartition
from proof.transactions.schedules.notebook import Fate, Notebook, Place, Snapshot
from proof.transactions.schedules.verdict import judge_attempts


class Sight(NamedTuple):
    """One partition's part of an answer to a reader of committed records."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    """The offset behind the last batch, whether or not the batch counts."""
    records: tuple[tuple[int, int], ...]
    """(offset, value)"""
    last_stable_offset: int
    asked_s: float
    answered_s: float


@dataclass(slots=True)
class TransactionHistory:
    """The history of one round."""

    notebook: Notebook = field(default_factory=Notebook)
    sources: dict[int, Place] = field(default_factory=dict)
    """Value → the place at which its client had read the copied record."""
    sights: list[Sight] = field(default_factory=list)


def check_transactions(history: TransactionHistory, last: Snapshot, group_of: Mapping[str, str]) -> list[str]:
    """The violations in words.  `last` is the view when all is calm; `group_of` maps transactional ids to groups."""
    return [
        *judge_attempts(history.notebook, last, group_of),
        *_copied(history, last, group_of),
        *_seen(history, last),
        *_passed(history),
    ]


def _copied(history: TransactionHistory, last: Snapshot, group_of: Mapping[str, str]) -> Iterator[str]:
    owner = {value: attempt.transactional_id for attempt in history.notebook.attempts for value in attempt.sent}
    copied: dict[str, list[int]] = {transactional_id: [] for transactional_id in group_of}
    for partition, seen in last.visible.items():
        latest: dict[str, int] = {}
        for _, value in seen:
            transactional_id, offset = owner[value], history.sources[value].offset
            copied[transactional_id].append(offset)
            if offset <= latest.get(transactional_id, -1):
                yield f"copied: {transactional_id} put {offset} of its source behind {latest[transactional_id]} in {partition}"
                return
            latest[transactional_id] = offset
    for transactional_id, group in group_of.items():
        committed = last.committed_offsets[group] or 0
        if sorted(copied[transactional_id]) != list(range(committed)):
            missing = sorted(set(range(committed)) - set(copied[transactional_id]))
            beyond = sorted(offset for offset in copied[transactional_id] if offset >= committed)
            yield (
                f"copied: {group} stands at {committed}, of {transactional_id} {len(copied[transactional_id])} records are visible; "
                f"missing {missing[:5]}, beyond {beyond[:5]}"
            )


def _seen(history: TransactionHistory, last: Snapshot) -> Iterator[str]:
    finally_at = {(partition, offset): value for partition, seen in last.visible.items() for offset, value in seen}
    committed = {
        (place.partition, place.offset): (value, place.since_s)
        for attempt in history.notebook.attempts
        if attempt.fate is Fate.COMMITTED
        for value, place in attempt.places.items()
    }
    for sight in history.sights:
        shown = dict(sight.records)
        for offset, value in sight.records:
            there = finally_at.get((sight.partition, offset))
            if there != value:
                yield f"seen: {sight.partition} showed {value} at {offset} at {sight.answered_s:.3f} s, in the end {there} is there"
        for offset in range(sight.start_offset, sight.end_offset):
            known = committed.get((sight.partition, offset))
            if known is not None and known[1] < sight.asked_s and offset not in shown:
                yield f"seen: {sight.partition} left out {known[0]} at {offset} at {sight.answered_s:.3f} s, known since {known[1]:.3f} s"


def _passed(history: TransactionHistory) -> Iterator[str]:
    sights: dict[TopicPartition, list[Sight]] = defaultdict(list)
    for sight in sorted(history.sights, key=_asked_s):
        sights[sight.partition].append(sight)
    for attempt in history.notebook.attempts:
        if attempt.was_open_until_s is None:
            continue
        for partition, first in _first_places(attempt.places.values()).items():
            those = sights[partition]
            begin = bisect_right(those, first.since_s, key=_asked_s)
            end = bisect_left(those, attempt.was_open_until_s, key=_asked_s)
            for sight in those[begin:end]:
                if sight.answered_s < attempt.was_open_until_s and sight.last_stable_offset > first.offset:
                    yield (
                        f"passed: {partition} was stable up to {sight.last_stable_offset} at {sight.answered_s:.3f} s, {attempt.name} was "
                        f"open there from {first.offset} on until {attempt.was_open_until_s:.3f} s"
                    )


def _asked_s(sight: Sight) -> float:
    return sight.asked_s


def _first_places(places: Iterable[Place]) -> dict[TopicPartition, Place]:
    first: dict[TopicPartition, Place] = {}
    for place in places:
        first.setdefault(place.partition, place)
    return first
