"""◇ State that belongs to one key, judged in the order of the key's partition: the shape that the stateful checks share.

A key has one packed value, which a batch touches at most twice, and a timer is set only when a key is new: `sharded` runs such a step for
many keys at once.  The state is JSON text: the state reader shows it as it is, and it can grow fields.
Timers count the time of the micro-batches, which no client can move.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines.records import NO_KEY
from moldau.pipelines.rolling import DAY_MS

S = TypeVar("S")

# Long enough that no clock and no outage of a few days makes a rule forget what still counts.
FORGET_AFTER_MS = 7 * DAY_MS
RULE_FAILED = "RULE_FAILED"


class InPartitionOrder(StatefulProcessor, ABC, Generic[S]):
    """Judge the records of one key in the order of their partition, wherever a micro-batch is cut."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.packed = handle.getValueState("packed", "state STRING, seen_ms BIGINT")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        ordered = in_order(rows)
        if key[0] == NO_KEY:
            for row in ordered:
                yield self.letter(row, row.malformed)
            return
        kept = self.packed.get()
        memory, now_ms = self.unpack(kept[0] if kept else None), timerValues.getCurrentProcessingTimeInMs()
        for row in ordered:
            try:
                memory, records = self.judge(memory, row)
            except Exception:  # a defect of the rule costs this record, not the query
                records = [self.letter(row, RULE_FAILED), *self.answers_without_judging(row)]
            yield from records
        self.packed.update((self.pack(memory), now_ms))
        if kept is None:
            self.handle.registerTimer(now_ms + FORGET_AFTER_MS)

    def handleExpiredTimer(self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Any]:
        kept = self.packed.get()
        if kept is not None and kept[1] + FORGET_AFTER_MS > timerValues.getCurrentProcessingTimeInMs():
            self.handle.registerTimer(kept[1] + FORGET_AFTER_MS)
        else:
            self.packed.clear()
        return iter(())

    def close(self) -> None:
        pass

    def answers_without_judging(self, row: Any) -> list[Any]:
        """The answer for a waiting caller if the rule raised."""
        return []

    @abstractmethod
    def letter(self, row: Any, reason: str) -> Any:
        """The row that says that the record is malformed, or that a rule could not judge it."""

    @abstractmethod
    def judge(self, memory: S, row: Any) -> tuple[S, list[Any]]: ...
    @abstractmethod
    def pack(self, memory: S) -> str: ...
    @abstractmethod
    def unpack(self, text: str | None) -> S: ...


def in_order(rows: Iterable[Any]) -> list[Any]:
    """The rows in the order of each partition, whatever their timestamps say.  Partitions are merged by time of acceptance."""
    rows = list(rows)
    if len(rows) == 1:
        return rows
    newest_ms: dict[tuple[str, int], int] = {}
    placed = []
    for row in sorted(rows, key=lambda row: (row.topic, row.partition, row.offset)):
        place = (row.topic, row.partition)
        newest_ms[place] = max(row.accepted_ms, newest_ms.get(place, row.accepted_ms))
        placed.append((newest_ms[place], *place, row.offset, row))
    return [entry[-1] for entry in sorted(placed, key=lambda entry: entry[:-1])]


def record(topic: str, key: str, value: bytes, partition: int | None = None) -> Row:
    """One row of `records.RECORDS`."""
    return Row(topic=topic, key=key.encode(), value=value, partition=partition, reason=None, source=None)


def dead_letter(topic: str, row: Any, reason: str) -> Row:
    """The record of `row` as it was sent, with the reason and the place that it came from."""
    source = f"{row.topic}-{row.partition}@{row.offset}"
    return Row(topic=topic, key=_bytes(row.key), value=_bytes(row.value), partition=None, reason=str(reason), source=source)


def _bytes(field: bytes | bytearray | None) -> bytes | None:
    return None if field is None else bytes(field)
