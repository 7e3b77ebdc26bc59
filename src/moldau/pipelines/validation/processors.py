"""◇ The pure rules as Spark state processors: unpack the state, judge the key's rows in partition order, pack the state.

Each state call is a round trip to the JVM, so a key has one packed value and a batch touches it at most twice, and a
timer is set only when a key is new.  The state is JSON text: the state reader shows it as it is, and it can grow fields.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines import rolling
from moldau.pipelines.rolling import DAY_MS, Limit, Outcome, Window
from moldau.pipelines.validation import inventory, verdict
from moldau.pipelines.validation.frames import NO_KEY
from moldau.pipelines.validation.inventory import Shelf
from moldau.pipelines.validation.model import Check, Reason, Topics, final_json, validation_json

S = TypeVar("S")

# Long enough that no clock and no outage of a few days makes a rule forget what still counts.
FORGET_AFTER_MS = 7 * DAY_MS

RECORDS = "topic STRING, key STRING, value BINARY, reason STRING, source STRING"
PLACED_RECORDS = "topic STRING, key STRING, value BINARY, partition INT"


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


class CustomerChecks(InPartitionOrder[Window]):
    """Fraud, by customer, and the finding of the details frame, in one pass: two answers an order."""

    def __init__(self, topics: Topics, limit: Limit) -> None:
        self.topics = topics
        self.limit = limit

    def judge(self, memory: Window, row: Row) -> tuple[Window, list[Row]]:
        memory, outcome = rolling.judge(self.limit, memory, row.ordered_ms, max(row.total_cents, 0))
        fault = {Outcome.PASSED: None, Outcome.OVER_LIMIT: Reason.SPENT_LIMIT, Outcome.LATE: Reason.LATE}[outcome]
        answers = [_answer(self.topics, row, Check.FRAUD, fault), _answer(self.topics, row, Check.DETAILS, row.fault)]
        if outcome is Outcome.LATE:
            answers.append(_dead_letter(self.topics, row, Reason.LATE))
        return memory, answers

    def pass_on(self, row: Row) -> list[Row]:
        if row.malformed is not None:
            return [_dead_letter(self.topics, row, row.malformed)]
        return [_answer(self.topics, row, check, None) for check in (Check.FRAUD, Check.DETAILS)]

    def pack(self, memory: Window) -> str:
        return rolling.pack(memory)

    def unpack(self, text: str | None) -> Window:
        return rolling.unpack(text)


class StockCheck(InPartitionOrder[Shelf]):
    """Inventory, by store: one answer an order."""

    def __init__(self, topics: Topics, catalogue: Mapping[int, int]) -> None:
        self.topics = topics
        self.catalogue = catalogue

    def judge(self, memory: Shelf, row: Row) -> tuple[Shelf, list[Row]]:
        # Spark hands a map to a state processor as a list of pairs.
        wanted = {int(product_id): units for product_id, units in dict(row.wanted).items()}
        memory, fault = inventory.reserve(self.catalogue, memory, row.ordered_ms, wanted)
        return memory, [_answer(self.topics, row, Check.INVENTORY, fault)]

    def pass_on(self, row: Row) -> list[Row]:
        if row.malformed is not None:
            return [_dead_letter(self.topics, row, row.malformed)]
        return [_answer(self.topics, row, Check.INVENTORY, None)]

    def pack(self, memory: Shelf) -> str:
        return inventory.pack(memory)

    def unpack(self, text: str | None) -> Shelf:
        return inventory.unpack(text)


class Aggregator(StatefulProcessor):
    """Collect an order's answers; emit its final record once, or at its deadline."""

    def __init__(self, topics: Topics, deadline_ms: int) -> None:
        self.topics = topics
        self.deadline_ms = deadline_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.packed = handle.getValueState("packed", "state STRING, due_ms BIGINT")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        events = list(rows)
        if key[0] == NO_KEY or not events:
            return
        kept = self.packed.get()
        order: verdict.Open | None = verdict.unpack(kept[0] if kept else None)
        due_ms = kept[1] if kept else 0
        for row in events:
            due_ms = due_ms or row.accepted_ms + self.deadline_ms
            order, judged = verdict.step(order or verdict.Open(), _event(row))
            if judged is not None:
                yield _final(self.topics, key[0], judged)
        self._keep(order, due_ms, is_new=kept is None)

    def _keep(self, order: verdict.Open | None, due_ms: int, *, is_new: bool) -> None:
        if order is not None:
            self.packed.update((verdict.pack(order), due_ms))
            if is_new:
                self.handle.registerTimer(due_ms)
        elif not is_new:
            self.packed.clear()
            self.handle.deleteTimer(due_ms)

    def handleExpiredTimer(self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        kept = self.packed.get()
        judged = verdict.expire(verdict.unpack(kept[0])) if kept else None
        if judged is not None:
            yield _final(self.topics, key[0], judged)
        self.packed.clear()

    def close(self) -> None:
        pass


def _event(row: Row) -> verdict.Created | verdict.Answer:
    if row.check is None:
        return verdict.Created(row.text, row.partition)
    return verdict.Answer(Check(row.check), row.reason)


def _final(topics: Topics, order_id: str, judged: verdict.Verdict) -> Row:
    value = final_json(judged.created.text, judged.state, judged.reasons)
    return Row(topic=topics.orders, key=order_id, value=value, partition=judged.created.partition)


def _answer(topics: Topics, row: Row, check: Check, fault: str | None) -> Row:
    value = validation_json(row.order_id, check, fault, row.accepted_ms)
    return Row(topic=topics.validations, key=row.order_id, value=value, reason=None, source=None)


def _dead_letter(topics: Topics, row: Row, reason: str) -> Row:
    source = f"{row.topic}-{row.partition}@{row.offset}"
    return Row(topic=topics.dead_letters, key=row.key, value=bytes(row.value), reason=str(reason), source=source)
