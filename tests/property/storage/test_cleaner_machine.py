"""Compaction against its model: keys, tombstones and their horizon, transactions that commit and abort, lags, restarts, crashes."""

import dataclasses
import random
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.records.control import build_end_txn_marker
from moldau.storage.cleaner.copying import clean
from moldau.storage.cleaner.plan import dirtiness, plan_cleaning
from moldau.storage.cleaner.swap import install
from moldau.storage.config import LogConfig
from moldau.storage.log import AppendResult, Log
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.files import MemoryFiles
from proof.storage.cleaner_model import CleanerModel, ModelRecord
from proof.storage.logs import NOW_MS, open_log, stored_bytes
from proof.storage.recovery import CHANGING

RETENTION_MS = 1000
CONFIG = dataclasses.replace(
    LogConfig.load({}),
    cleanup_policy=("compact",),
    delete_retention_ms=RETENTION_MS,
    segment_bytes=900,
    index_interval_bytes=100,
    file_delete_delay_ms=0,
)
KEYS = st.sampled_from([b"K%d" % number for number in range(6)])
VALUES = st.one_of(st.none(), st.binary(max_size=20))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
TRANSACTIONAL = st.sampled_from([200, 201])
MANY = 1 << 20


def visible(log: Log) -> list[tuple[int, bytes, bytes | None]]:
    """The records that a read_committed consumer sees: Kafka's own way, with the aborted transactions in hand."""
    coming = sorted(log.aborted_transactions(log.log_start_offset, log.log_end_offset), key=lambda one: one.first_offset)
    aborted: set[int] = set()
    found = []
    raw = memoryview(stored_bytes(log))
    for position, header in batches(raw, strict=True):
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            for record in records_of(raw[position : position + header.size]):
                if log.log_start_offset <= record.offset < log.last_stable_offset:
                    found.append((record.offset, bytes(record.key or b""), None if record.value is None else bytes(record.value)))
    return found


def with_data(log: Log) -> dict[int, tuple[int, int]]:
    """Epoch and last sequence of each producer.  A producer known by markers alone is forgotten with the markers, as in Kafka."""
    return {one.producer_id: (one.producer_epoch, one.last_sequence) for one in log.active_producers() if one.last_sequence >= 0}


class CleanerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.files.mkdir("/t-0")
        self.files.sync_dir("")
        self.model = CleanerModel(RETENTION_MS)
        self.now_ms = NOW_MS
        self.checkpoint: int | None = None
        self.sequences = {100: 0, 200: 0, 201: 0}
        self.opened: dict[int, int] = {}
        self.batches = 0

    @initialize(lag_ms=st.sampled_from([0, 300]), map_bytes=st.sampled_from([300, MANY]))
    def begin(self, lag_ms: int, map_bytes: int) -> None:
        self.config = dataclasses.replace(CONFIG, min_compaction_lag_ms=lag_ms)
        self.map_bytes = map_bytes
        self.log = open_log(self.files, "/t-0", self.config)

    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
        has_producer, is_transactional = producer_id >= 0, producer_id >= 200
        content = build_batch(
            [NewRecord(self.now_ms, key, value) for key, value in pairs],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if has_producer else -1,
            base_sequence=self.sequences[producer_id] if has_producer else -1,
            is_transactional=is_transactional,
        )
        result = self.log.append_from_client(content, leader_epoch=0, now_ms=self.now_ms)
        assert isinstance(result, AppendResult) and not result.is_duplicate, result
        self.batches += 1
        if has_producer:
            self.sequences[producer_id] += len(pairs)
        if is_transactional:
            self.opened.setdefault(producer_id, result.first_offset)
        for number, (key, value) in enumerate(pairs):
            self.model.records.append(
                ModelRecord(
                    result.first_offset + number,
                    self.batches,
                    key,
                    value,
                    self.now_ms,
                    producer_id if is_transactional else None,
                    None if is_transactional else True,
                )
            )
        self.log.update_high_watermark(self.log.log_end_offset)

    @rule(pairs=PAIRS, codec=st.sampled_from(list(Codec)), producer_id=st.sampled_from([-1, 100]))
    def put(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
        self.append(pairs, codec, producer_id)

    @rule(pairs=PAIRS, codec=st.sampled_from(list(Codec)), producer_id=TRANSACTIONAL)
    def put_in_transaction(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
        self.append(pairs, codec, producer_id)

    @rule(producer_id=TRANSACTIONAL, is_commit=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        marker = build_end_txn_marker(
            is_commit=is_commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=self.now_ms
        )
        result = self.log.append_as_leader(marker, leader_epoch=0, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR)
        assert isinstance(result, AppendResult), result
        self.opened.pop(producer_id, None)
        self.model.decide(producer_id, is_committed=is_commit)
        self.log.update_high_watermark(self.log.log_end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(step_ms=st.sampled_from([1, 300, 999, 1000]))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @precondition(lambda self: self.log.log_end_offset > self.log.log_start_offset)
    @rule(share=st.floats(0, 0.5))
    def delete_records(self, share: float) -> None:
        start = self.log.log_start_offset
        end = self.log.last_stable_offset
        self.log.delete_records_before(start + int((end - start) * share))
        self.log.drop_below_start(self.now_ms)

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        log = self.log
        producers = with_data(log)
        if is_clean:
            log.close()
        self.log = open_log(
            self.files, "/t-0", self.config, recovery_point=log.recovery_point, clean=is_clean, log_start_offset=log.log_start_offset
        )
        self.log.update_high_watermark(log.high_watermark)
        assert (self.log.log_end_offset, self.log.last_stable_offset) == (log.log_end_offset, log.last_stable_offset)
        if not is_clean and self.log.log_start_offset > 0:  # producers known by deleted records alone are forgotten, as in Kafka
            known = {one.producer_id: one.last_sequence + 1 for one in self.log.active_producers()}
            self.sequences = {producer_id: known.get(producer_id, 0) for producer_id in self.sequences}
        else:
            assert with_data(self.log) == producers

    def cleanable_end(self) -> int:
        """The offset where the untouchable part begins: the active segment, and what is undecided, unflushed or young."""
        segments = self.log.segments
        end = self.checkpoint or 0
        for segment, following in pairwise(segments):
            inside = [r for r in self.model.records if segment.base_offset <= r.offset < following.base_offset]
            is_young = self.config.min_compaction_lag_ms > 0 and any(
                r.timestamp > self.now_ms - self.config.min_compaction_lag_ms for r in inside
            )
            is_open = any(first < following.base_offset for first in self.opened.values())
            if is_open or is_young or following.base_offset > self.log.recovery_point:
                break
            end = max(end, following.base_offset)
        return end

    @rule(crash=st.one_of(st.none(), st.integers(0, 60)), image=st.integers(0, 1 << 30), is_all_full=st.booleans())
    def compact(self, crash: int | None, image: int, is_all_full: bool) -> None:
        log = self.log
        if is_all_full:
            log.roll(self.now_ms)
            log.flush()
        dirt = dirtiness(log, self.checkpoint, self.now_ms)
        assert dirt.end_offset <= max(self.cleanable_end(), dirt.first_dirty_offset)
        plan = plan_cleaning(log, dirt, self.now_ms, map_bytes=self.map_bytes)
        if plan is None:
            return
        bases = [segment.base_offset for segment in log.segments]
        before = visible(log)
        producers = with_data(log)
        crashed: list[MemoryFiles] = []
        remaining = crash

        def strike(call: str, path: str) -> None:
            nonlocal remaining
            if remaining is not None and call in CHANGING:
                remaining -= 1
                if remaining == 0:
                    crashed.append(self.files.crashed(random.Random(image)))

        self.files.sync_everything()
        self.files.hook = strike
        result = clean(self.files, plan)
        assert install(log, result, self.now_ms)
        self.files.hook = None
        log.delete_due_files(self.now_ms)
        assert dirt.first_dirty_offset <= result.clean_offset <= dirt.end_offset
        self.checkpoint = result.clean_offset
        copied_end = min(base_offset for base_offset in bases if base_offset >= result.clean_offset)
        self.model.clean(dirt.first_dirty_offset, result.clean_offset, copied_end, self.now_ms)
        assert with_data(log) == producers
        after = visible(log)
        for files in crashed:
            recovered = open_log(files, "/t-0", self.config, recovery_point=log.recovery_point, log_start_offset=log.log_start_offset)
            recovered.update_high_watermark(log.high_watermark)
            assert recovered.log_end_offset == log.log_end_offset
            found = visible(recovered)
            assert set(after) <= set(found) <= set(before), "each group of segments is the old one or the new one"

    @invariant()
    def a_reader_sees_what_the_model_says(self) -> None:
        if hasattr(self, "log"):
            assert visible(self.log) == self.model.visible(self.log.log_start_offset, self.log.last_stable_offset)


TestCleaner = CleanerMachine.TestCase
TestCleaner.settings = settings(stateful_step_count=40)
