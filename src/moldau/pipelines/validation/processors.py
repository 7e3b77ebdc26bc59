"""◇ The checks and the aggregator as Spark state processors: what joins the pure rules to their rows."""

import zlib
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines import rolling
from moldau.pipelines.keyed import InPartitionOrder, dead_letter, record
from moldau.pipelines.records import NO_KEY
from moldau.pipelines.rolling import Limit, Outcome, Window
from moldau.pipelines.validation import inventory, verdict
from moldau.pipelines.validation.inventory import Shelf
from moldau.pipelines.validation.model import Check, Reason, Topics, final_json, validation_json

MOST_PACKED_BYTES = 900_000
PLACED_RECORDS = "topic STRING, key STRING, value BINARY, partition INT"


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
            answers.append(dead_letter(self.topics.dead_letters, row, Reason.LATE))
        return memory, answers

    def pass_on(self, row: Row) -> list[Row]:
        if row.malformed is not None:
            return [dead_letter(self.topics.dead_letters, row, row.malformed)]
        return [_answer(self.topics, row, check, None) for check in (Check.FRAUD, Check.DETAILS)]

    def pack(self, memory: Window) -> str:
        return rolling.pack(memory)

    def unpack(self, text: str | None) -> Window:
        return rolling.unpack(text)


class StockCheck(InPartitionOrder[Shelf]):
    """Inventory, by store: one answer an order."""

    def __init__(self, topics: Topics, catalogue: Mapping[int, int]) -> None:
        self.topics = topics
        self.packed_catalogue = pack_catalogue(catalogue)

    def judge(self, memory: Shelf, row: Row) -> tuple[Shelf, list[Row]]:
        # Spark hands a map to a state processor as a list of pairs.
        wanted = {int(product_id): units for product_id, units in dict(row.wanted).items()}
        memory, fault = inventory.reserve(unpack_catalogue(self.packed_catalogue), memory, row.ordered_ms, wanted)
        return memory, [_answer(self.topics, row, Check.INVENTORY, fault)]

    def pass_on(self, row: Row) -> list[Row]:
        if row.malformed is not None:
            return [dead_letter(self.topics.dead_letters, row, row.malformed)]
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


def pack_catalogue(catalogue: Mapping[int, int]) -> bytes:
    """A processor is unpickled for every task, so the catalogue travels packed and a worker unpacks it once.

    It must stay small: Spark turns a processor above 1 MiB into a broadcast, and a state processor cannot load one.
    """
    numbers = array("q", [number for entry in sorted(catalogue.items()) for number in entry])
    packed = zlib.compress(numbers.tobytes())
    if len(packed) > MOST_PACKED_BYTES:
        raise ValueError(
            f"a catalogue of {len(catalogue):,} products takes {len(packed):,} bytes; at most {MOST_PACKED_BYTES:,} reach a processor"
        )
    return packed


@lru_cache(maxsize=1)
def unpack_catalogue(packed: bytes) -> dict[int, int]:
    numbers = array("q")
    numbers.frombytes(zlib.decompress(packed))
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def _event(row: Row) -> verdict.Created | verdict.Answer:
    if row.check is None:
        return verdict.Created(row.text, row.partition)
    return verdict.Answer(Check(row.check), row.reason)


def _final(topics: Topics, order_id: str, judged: verdict.Verdict) -> Row:
    value = final_json(judged.created.text, judged.state, judged.reasons)
    return Row(topic=topics.orders, key=order_id, value=value, partition=judged.created.partition)


def _answer(topics: Topics, row: Row, check: Check, fault: str | None) -> Row:
    return record(topics.validations, row.order_id, validation_json(row.order_id, check, fault, row.accepted_ms))
