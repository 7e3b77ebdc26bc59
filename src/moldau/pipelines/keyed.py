"""◇ State that belongs to one key, judged in the order of the key's partition: the shape that the stateful checks share.

Each state call is a round trip to the JVM, so a key has one packed value and a batch touches it at most twice, and a
timer is set only when a key is new.  The state is JSON text: the state reader shows it as it is, and it can grow fields.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines.records import NO_KEY
from moldau.pipelines.rolling import DAY_MS

S = TypeVar("S")

# Long enough that no clock and no outage of a few days makes a rule forget what still counts.
FORGET_AFTER_MS = 7 * DAY_MS


class InPartitionOrder(StatefulProcessor, ABC, Generic[S]):
    """Judge what belongs to one key in the order of its partition, whatever the micro-batch cut."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.packed = handle.getValueState("packed", "state STRING, seen_ms BIGINT")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        ordered = sorted(rows, key=lambda row: (row.partition, row.offset))
        if key[0] == NO_KEY:
            for row in ordered:
                yield from self.pass_on(row)
            return
        kept = self.packed.get()
        memory, seen_ms = self.unpack(kept[0] if kept else None), kept[1] if kept else 0
        for row in ordered:
            seen_ms = max(seen_ms, row.accepted_ms)
            memory, records = self.judge(memory, row)
            yield from records
        self.packed.update((self.pack(memory), seen_ms))
        if kept is None:
            self.handle.registerTimer(seen_ms + FORGET_AFTER_MS)

    def handleExpiredTimer(self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        kept = self.packed.get()
        if kept is not None and kept[1] + FORGET_AFTER_MS > expiredTimerInfo.getExpiryTimeInMs():
            self.handle.registerTimer(kept[1] + FORGET_AFTER_MS)
        else:
            self.packed.clear()
        return iter(())

    def close(self) -> None:
        pass

    @abstractmethod
    def pass_on(self, row: Row) -> list[Row]: ...
    @abstractmethod
    def judge(self, memory: S, row: Row) -> tuple[S, list[Row]]: ...
    @abstractmethod
    def pack(self, memory: S) -> str: ...
    @abstractmethod
    def unpack(self, text: str | None) -> S: ...


def record(topic: str, key: str, value: bytes) -> Row:
    """One row of `records.RECORDS`."""
    return Row(topic=topic, key=key, value=value, reason=None, source=None)


def dead_letter(topic: str, row: Row, reason: str) -> Row:
    """The record of `row` as it was sent, with what is wrong with it and where it came from."""
    source = f"{row.topic}-{row.partition}@{row.offset}"
    return Row(topic=topic, key=row.key, value=bytes(row.value), reason=str(reason), source=source)
