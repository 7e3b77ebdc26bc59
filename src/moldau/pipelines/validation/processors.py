"""◇ The checks and the aggregator as Spark state processors, which join the pure rules to their rows.

Checks hand *events* on to the aggregator, within one micro-batch.  An event is an order with the findings of its customer's checks, the
finding of its store's check, or a dead letter, which has no key and passes.
"""

import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines import customer
from moldau.pipelines.customer import Customer
from moldau.pipelines.keyed import FORGET_AFTER_MS, RULE_FAILED, InPartitionOrder, dead_letter, in_order, record
from moldau.pipelines.records import NO_KEY
from moldau.pipelines.rolling import Limit, Outcome
from moldau.pipelines.validation import inventory, verdict
from moldau.pipelines.validation.frames import CUSTOMER, OrderRow, RequestRow
from moldau.pipelines.validation.inventory import Shelf
from moldau.pipelines.validation.model import Check, Reason, State, Topics, final_json, release_json


class Finding(NamedTuple):
    """One event: the findings of a check, or a dead letter."""

    order_id: str
    malformed: str | None
    faults: Sequence[tuple[str, str | None]]  # check and fault; None is PASS
    store_id: str | None
    text: str | None
    topic: str
    partition: int
    offset: int
    accepted_ms: int
    key: bytes | None
    value: bytes | None


S = TypeVar("S")
MOST_PACKED_BYTES = 900_000
# If a timer fires so long after its time, the job was away, and so were the checks.
AWAY_MS = 60_000
FRAUD_REASONS = {
    Outcome.PASSED: None,
    Outcome.OVER_LIMIT: Reason.SPENT_LIMIT,
    Outcome.LATE: Reason.LATE,
    Outcome.CLOCK_AHEAD: Reason.CLOCK_AHEAD,
}


class _Check(InPartitionOrder[S]):
    """A check of the orders of one key: it emits findings."""

    def letter(self, row: OrderRow | RequestRow, reason: str) -> Finding:
        return Finding(NO_KEY, str(reason), (), None, None, *_place(row), row.key, row.value)


class CustomerChecks(_Check[Customer]):
    """Fraud, by customer, and the finding of the details check, in one pass: the result is the order with two answers."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit

    def judge(self, memory: Customer, row: OrderRow) -> tuple[Customer, list[Finding]]:
        if row.state != State.CREATED:
            return customer.freed(memory, row.order_id), []
        cents = max(row.total_cents, 0)
        memory, outcome = customer.judge(self.limit, memory, row.order_id, row.ordered_ms, row.accepted_ms, cents, holds=True)
        if outcome is Outcome.REPEATED:  # the aggregator knows all ids, and dead-letters it
            return memory, [_ordered(row, {})]
        if row.fault is not None:  # it fails whatever the others say
            memory = customer.freed(memory, row.order_id)
        fault = FRAUD_REASONS[outcome]
        events = [_ordered(row, {Check.FRAUD: fault, Check.DETAILS: row.fault})]
        if fault in (Reason.LATE, Reason.CLOCK_AHEAD):
            events.append(self.letter(row, fault))
        return memory, events

    def answers_without_judging(self, row: OrderRow) -> list[Finding]:
        if row.state != State.CREATED:
            return []
        return [_ordered(row, {Check.FRAUD: RULE_FAILED, Check.DETAILS: RULE_FAILED})]

    def pack(self, memory: Customer) -> str:
        return customer.pack(memory)

    def unpack(self, text: str | None) -> Customer:
        return customer.unpack(text)


class StockCheck(_Check[Shelf]):
    """Inventory, by store: one answer an order."""

    def __init__(self, catalogue: Mapping[int, int]) -> None:
        self.packed_catalogue = pack_catalogue(catalogue)

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        # Once for a task: the cache compares all bytes of the packed catalogue, since each task brings its own.
        self.catalogue = unpack_catalogue(self.packed_catalogue)

    def judge(self, memory: Shelf, row: RequestRow) -> tuple[Shelf, list[Finding]]:
        if row.is_release:
            return inventory.freed(memory, row.order_id), []
        if row.fault is not None:
            return memory, [_answered(row, row.fault)]
        if customer.is_ahead(row.ordered_ms, row.accepted_ms):
            return memory, [_answered(row, Reason.CLOCK_AHEAD)]
        if memory.knows(row.order_id):
            return memory, [self.letter(row, Reason.REPEATED)]
        memory, fault = inventory.reserve(self.catalogue, memory, row.order_id, row.ordered_ms, row.wanted)
        return memory, [_answered(row, fault, store_id=row.store_id if fault is None else None)]

    def answers_without_judging(self, row: RequestRow) -> list[Finding]:
        return [] if row.is_release else [_answered(row, RULE_FAILED)]

    def pack(self, memory: Shelf) -> str:
        return inventory.pack(memory)

    def unpack(self, text: str | None) -> Shelf:
        return inventory.unpack(text)


class Checks(StatefulProcessor):
    """The checks in one step: a key is the subject of its rows, a customer or a store."""

    def __init__(self, of_customers: CustomerChecks, of_stores: StockCheck) -> None:
        self.of_customers = of_customers
        self.of_stores = of_stores

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.of_customers.init(handle)
        self.of_stores.init(handle)

    def handleInputRows(self, key: tuple[str], rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        return self._of(key).handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Any]:
        return self._of(key).handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def _of(self, key: tuple[str]) -> InPartitionOrder[Any]:
        """Both give a malformed row, whose key is `NO_KEY`, the same letter."""
        return self.of_customers if key[0].startswith(CUSTOMER) else self.of_stores

    def close(self) -> None:
        pass


class Aggregator(StatefulProcessor):
    """Collect an order's answers; emit its final record once, or at its deadline.

    Deadlines count the time of the micro-batches, which no client can move and which passes in silence too: `deadline_ms`
    from when the order was seen, `straggler_ms` from its first answer.  A key has one timer: when it fires and the key's
    time has not come, it is set again.
    """

    def __init__(self, topics: Topics, deadline_ms: int, straggler_ms: int) -> None:
        self.topics = topics
        self.deadline_ms = deadline_ms
        self.straggler_ms = straggler_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.packed = handle.getValueState("packed", "state STRING, due_ms BIGINT")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        events = in_order(rows)
        if key[0] == NO_KEY:
            for row in events:
                yield dead_letter(self.topics.dead_letters, row, row.malformed)
            return
        kept, now_ms = self.packed.get(), timerValues.getCurrentProcessingTimeInMs()
        before = order = verdict.unpack(kept[0] if kept else None)
        for row in events:
            for event in _events(row):
                if verdict.is_repeat(order, event):
                    yield dead_letter(self.topics.dead_letters, row, Reason.REPEATED)
                if (store_id := verdict.reserved_in_vain(order, event)) is not None:
                    yield _release(self.topics, key[0], store_id)
                order, judged = verdict.step(order, event)
                if judged is not None:
                    yield from _final(self.topics, key[0], judged)
        if order != before:
            self._keep(order, self._due_ms(before, order, kept[1] if kept else None, now_ms), timer_ms=kept[1] if kept else None)

    def _due_ms(self, before: verdict.Open, order: verdict.Open, due_ms: int | None, now_ms: int) -> int:
        if order.is_judged:
            return now_ms + FORGET_AFTER_MS
        if due_ms is None or (order.faults and not before.faults):
            return now_ms + self._wait_ms(order)
        return due_ms

    def _wait_ms(self, order: verdict.Open) -> int:
        return self.straggler_ms if order.faults and order.created else self.deadline_ms

    def _keep(self, order: verdict.Open, due_ms: int, *, timer_ms: int | None) -> None:
        """`timer_ms` is when the key's timer fires, if it has one.  A later timer is set when that one fires."""
        self.packed.update((verdict.pack(order), due_ms))
        if timer_ms is None or due_ms < timer_ms:
            self.handle.registerTimer(due_ms)

    def handleExpiredTimer(self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        kept = self.packed.get()
        if kept is None:
            return
        order, due_ms = verdict.unpack(kept[0]), kept[1]
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        if due_ms > now_ms:
            self.handle.registerTimer(due_ms)
        elif order.is_judged or order.created is None:
            self.packed.clear()
            if order.store_id is not None:  # the order itself never came
                yield _release(self.topics, key[0], order.store_id)
        elif now_ms - due_ms > AWAY_MS:
            self._keep(order, now_ms + self._wait_ms(order), timer_ms=None)
        elif (judged := verdict.expire(order)) is not None:
            yield from _final(self.topics, key[0], judged)
            self._keep(judged.remembered, now_ms + FORGET_AFTER_MS, timer_ms=None)

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


def _events(row: Finding) -> Iterator[verdict.Created | verdict.Answer]:
    if row.text is not None:
        yield verdict.Created(row.text, row.partition)
    for check, fault in row.faults:
        yield verdict.Answer(Check(check), fault, row.store_id)


def _final(topics: Topics, order_id: str, judged: verdict.Verdict) -> Iterator[Row]:
    """The order in its final state, for the partition that it came from, so that its customer's check meets it in order."""
    yield record(topics.orders, order_id, final_json(judged.created.text, judged.state, judged.reasons), judged.created.partition)
    if judged.freed_at is not None:
        yield _release(topics, order_id, judged.freed_at)


def _release(topics: Topics, order_id: str, store_id: str) -> Row:
    return record(topics.stock_requests, store_id, release_json(order_id))


def _ordered(row: OrderRow, faults: Mapping[Check, str | None]) -> Finding:
    """A new order with the findings of its customer's checks.  Its bytes go along for the case that the order is a repeat."""
    found = [(str(check), None if fault is None else str(fault)) for check, fault in faults.items()]
    return Finding(row.order_id, None, found, None, row.text, *_place(row), row.key, row.value)


def _answered(row: RequestRow, fault: str | None, *, store_id: str | None = None) -> Finding:
    """`store_id`: the store whose shelf holds what the order wants."""
    found = [(str(Check.INVENTORY), None if fault is None else str(fault))]
    return Finding(row.order_id, None, found, store_id, None, *_place(row), None, None)


def _place(row: OrderRow | RequestRow) -> tuple[str, int, int, int]:
    return row.topic, row.partition, row.offset, row.accepted_ms
