"""Each part of storage against a model that a reader can check at a glance, driven by random operations."""

import bisect
import dataclasses
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import BatchHeader, batches, read_header
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.config import LogConfig
from moldau.storage.index import OffsetIndex, TimeIndex
from moldau.storage.log import AppendResult, FetchData
from moldau.storage.producers.state import AppendOrigin, EndMarker, ProducerStates
from moldau.testing.files import MemoryFiles
from proof.storage.logs import NOW_MS, open_log, stored_bytes

MACHINE = settings(stateful_step_count=30)
DEFAULTS = LogConfig.load({})


class IndexMachine(RuleBasedStateMachine):
    """Both sparse indexes: two lists of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.offsets = OffsetIndex(self.files, "/o", 1000)
        self.times = TimeIndex(self.files, "/t", 1000)
        self.offset_pairs: list[tuple[int, int]] = []
        self.time_pairs: list[tuple[int, int]] = []
        self.next_offset, self.position, self.timestamp = 1000, 0, 0

    @precondition(lambda self: self.offsets.is_active)
    @rule(step=st.integers(1, 50), size=st.integers(1, 5000), time=st.integers(-100, 100))
    def append(self, step: int, size: int, time: int) -> None:
        self.next_offset += step
        self.timestamp = max(0, self.timestamp + time)
        self.offsets.append(self.next_offset, self.position)
        self.offset_pairs.append((self.next_offset, self.position))
        self.times.maybe_append(self.timestamp, self.next_offset)
        if not self.time_pairs or self.timestamp > self.time_pairs[-1][0]:
            self.time_pairs.append((self.timestamp, self.next_offset))
        self.position += size

    @rule(offset=st.integers(900, 3000), timestamp=st.integers(-1, 2000))
    def look_up(self, offset: int, timestamp: int) -> None:
        before = [position for last, position in self.offset_pairs if last <= offset]
        assert self.offsets.position_before(offset) == (before[-1] if before else 0)
        found = [last for time, last in self.time_pairs if time <= timestamp]
        assert self.times.offset_before(timestamp) == (found[-1] if found else 1000)

    @rule(position=st.integers(0, 100_000))
    def first_after(self, position: int) -> None:
        after = [last - 1000 for last, at in self.offset_pairs if at >= position]
        assert self.offsets.first_at_or_after(position) == (after[0] if after else None)

    @precondition(lambda self: self.offsets.is_active)
    @rule(data=st.data(), beside=st.integers(-1, 1))
    def truncate(self, data: st.DataObject, beside: int) -> None:
        offset = data.draw(st.sampled_from([last for last, _ in self.offset_pairs] or [1000])) + beside
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        self.offset_pairs = [pair for pair in self.offset_pairs if pair[0] < offset]
        self.time_pairs = [pair for pair in self.time_pairs if pair[1] < offset]
        self.next_offset = min(self.next_offset, max(offset - 1, 1000))
        self.timestamp = self.time_pairs[-1][0] if self.time_pairs else 0

    @rule()
    def seal_or_unseal(self) -> None:
        for index in (self.offsets, self.times):
            if index.is_active:
                index.seal()
            else:
                index.unseal()

    @rule()
    def reopen(self) -> None:
        self.offsets.save()
        self.times.save()
        self.offsets = OffsetIndex(self.files, "/o", 1000)
        self.times = TimeIndex(self.files, "/t", 1000)
        self.offsets.load()
        self.times.load()

    @invariant()
    def last_entries(self) -> None:
        assert self.offsets.count == len(self.offset_pairs) and self.times.count == len(self.time_pairs)
        if self.offset_pairs:
            assert self.offsets.last == (self.offset_pairs[-1][0] - 1000, self.offset_pairs[-1][1])


class Stored(NamedTuple):
    base_offset: int
    next_offset: int
    timestamp: int


class LogMachine(RuleBasedStateMachine):
    """The log: a list of batches, a start and a high watermark."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.config = dataclasses.replace(
            DEFAULTS, segment_bytes=700, index_interval_bytes=120, retention_bytes=1500, file_delete_delay_ms=0
        )
        self.log = open_log(self.files, "/t-0", self.config)
        self.stored: list[Stored] = []
        self.end = 0
        self.start = 0

    @rule(count=st.integers(1, 6), size=st.integers(0, 80), time=st.integers(-50, 50))
    def append(self, count: int, size: int, time: int) -> None:
        batch = build_batch([NewRecord(NOW_MS + time, b"k", b"v" * size) for _ in range(count)])
        result = self.log.append_from_client(batch, leader_epoch=0, now_ms=NOW_MS)
        assert isinstance(result, AppendResult)
        assert (result.first_offset, result.last_offset) == (self.end, self.end + count - 1)
        self.stored.append(Stored(self.end, self.end + count, NOW_MS + time))
        self.end += count

    @rule(offset=st.integers(-1, 60), limit=st.integers(0, 70), max_bytes=st.sampled_from([1, 150, 400, 100_000]))
    def read(self, offset: int, limit: int, max_bytes: int) -> None:
        data = self.log.read(offset, max_bytes, limit_offset=limit)
        if not self.start <= offset <= self.end:
            assert data is ErrorCode.OFFSET_OUT_OF_RANGE
            return
        assert isinstance(data, FetchData)
        limit = min(limit, self.end)
        found = [header.base_offset for _, header in batches(data.records.read())] if data.records else []
        limit_batch = next((batch.base_offset for batch in self.stored if batch.next_offset > limit), self.end)
        expected = [batch.base_offset for batch in self.stored if batch.next_offset > offset and batch.base_offset < limit_batch]
        assert found == expected[: len(found)]
        assert bool(found) == bool(expected and offset < limit), (found, expected)

    @rule(timestamp=st.integers(NOW_MS - 60, NOW_MS + 60))
    def look_up(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(timestamp)
        expected = [
            (batch.timestamp, max(batch.base_offset, self.start))
            for batch in self.stored
            if batch.timestamp >= timestamp and batch.next_offset > self.start
        ]
        assert found == (expected[0] if expected else None)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        ends = [batch.next_offset for batch in self.stored if batch.next_offset >= self.start]
        if ends:
            offset = data.draw(st.sampled_from(ends))
            self.log.truncate_to(offset)
            self.stored = [batch for batch in self.stored if batch.next_offset <= offset]
            self.end = offset

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.update_high_watermark(self.end)
        self.start = data.draw(st.integers(self.start, self.end))
        assert self.log.delete_records_before(self.start) == self.start

    @rule()
    def retain(self) -> None:
        self.log.update_high_watermark(self.end)
        bases = [segment.base_offset for segment in self.log.segments]
        size = self.log.size
        self.log.delete_old_segments(NOW_MS)
        self.log.delete_due_files(NOW_MS)
        assert self.log.log_start_offset == self.start or self.log.log_start_offset in bases
        assert size - self.log.size <= max(0, size - 1500) or self.log.segments[0].base_offset <= self.start
        self.start = self.log.log_start_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean:
            self.log.close()
        else:
            self.log.flush()
        point = self.log.recovery_point
        self.log = open_log(self.files, "/t-0", self.config, recovery_point=point, clean=clean, log_start_offset=self.start)
        assert self.log.recovery_point == point

    @invariant()
    def same(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        found = [header.base_offset for _, header in batches(stored_bytes(self.log, max_bytes=300), strict=True)]
        assert found == [batch.base_offset for batch in self.stored if batch.next_offset > self.start]
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases)) and bisect.bisect_right(bases, self.start) >= 1


class ProducerMachine(RuleBasedStateMachine):
    """Idempotence and transactions: per producer an epoch, the stored sequences, and where a transaction began."""

    PRODUCERS = (1, 2, 3)

    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates("t-0")
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, list[tuple[int, int, int]]] = {}
        self.opened: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.offset = 0

    @rule(
        producer_id=st.sampled_from(PRODUCERS),
        epoch=st.integers(0, 3),
        step=st.integers(-3, 3),
        count=st.integers(1, 3),
        is_transactional=st.booleans(),
    )
    def produce(self, producer_id: int, epoch: int, step: int, count: int, is_transactional: bool) -> None:
        known = self.epochs.get(producer_id)
        stored = self.sequences.get(producer_id, []) if epoch == known else []
        following = stored[-1][1] + 1 if stored else 0
        sequence = max(0, following + step)
        header = self.header(producer_id, epoch, sequence, count, is_transactional)
        repeated = [entry for entry in stored[-5:] if entry[:2] == (sequence, sequence + count - 1)]
        duplicate = self.states.duplicate_of(header)
        assert (duplicate and duplicate.first_offset) == (repeated[0][2] if repeated else None)
        if duplicate is not None:
            return
        refusal = self.states.refusal_of(header, AppendOrigin.CLIENT)
        if known is not None and epoch < known:
            assert refusal is not None and refusal.error is ErrorCode.INVALID_PRODUCER_EPOCH
        elif known is not None and sequence != following:
            assert refusal is not None and refusal.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif producer_id in self.opened and not is_transactional:
            assert refusal is not None and refusal.error is ErrorCode.INVALID_TXN_STATE
        else:
            assert refusal is None
            self.states.append(header)
            self.epochs[producer_id] = epoch
            self.sequences[producer_id] = [*stored, (sequence, sequence + count - 1, self.offset)]
            if is_transactional:
                self.opened.setdefault(producer_id, self.offset)
            self.offset += count

    @rule(producer_id=st.sampled_from(PRODUCERS), is_abort=st.booleans())
    def end_transaction(self, producer_id: int, is_abort: bool) -> None:
        epoch = self.epochs.get(producer_id, 0)
        header = self.header(producer_id, epoch, -1, 1, True)
        marker = EndMarker(is_abort, 0)
        assert self.states.marker_refusal_of(header, marker, AppendOrigin.COORDINATOR) is None
        completed = self.states.complete(header, marker)
        first = self.opened.pop(producer_id, None)
        assert (completed and completed.first_offset) == first
        if completed is not None and first is not None:
            others = [offset for other, offset in self.opened.items() if other != producer_id]
            assert self.states.last_stable_offset_after(completed) == (min(others) if others else self.offset + 1)
            self.states.settle(completed)
            self.states.note_first_unstable()
            self.waiting[first] = self.offset
        self.epochs[producer_id] = epoch
        self.sequences.setdefault(producer_id, [])
        self.offset += 1

    @rule(data=st.data(), beside=st.integers(-1, 1))
    def high_watermark(self, data: st.DataObject, beside: int) -> None:
        mark = max(0, data.draw(st.sampled_from([self.offset, *self.waiting.values()])) + beside)
        self.states.high_watermark_moved(mark)
        self.waiting = {first: last for first, last in self.waiting.items() if last >= mark}

    @rule()
    def restore(self) -> None:
        raw = self.states.snapshot()
        self.states = ProducerStates("t-0")
        self.states.restore(raw, self.offset)
        self.sequences = {producer_id: stored[-1:] for producer_id, stored in self.sequences.items()}
        self.waiting = {}

    @invariant()
    def first_unstable(self) -> None:
        unstable = [*self.opened.values(), *self.waiting]
        assert self.states.first_unstable_offset == (min(unstable) if unstable else None)

    def header(self, producer_id: int, epoch: int, sequence: int, count: int, is_transactional: bool) -> BatchHeader:
        records = [NewRecord(NOW_MS, b"k", b"v")] * count
        batch = build_batch(
            records,
            base_offset=self.offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return read_header(batch)


TestIndex = IndexMachine.TestCase
TestIndex.settings = MACHINE
TestLog = LogMachine.TestCase
TestLog.settings = MACHINE
TestProducers = ProducerMachine.TestCase
TestProducers.settings = MACHINE
