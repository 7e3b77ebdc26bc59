"""A log over two tiers against a list of records: each record that is kept is read, whatever is copied, expires or crashes."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moldau.protocol.records.batch import batches, records_of
from moldau.storage.log import FetchData, Log
from moldau.storage.tiered.copy_and_expiry import copied_up_to, expired
from moldau.storage.tiered.objects import segment_id_in
from moldau.storage.tiered.reader import RemoteData
from moldau.storage.tiered.segments import SegmentState
from proof.tiering.log import NOW, Tier

CRASH_AT = st.one_of(st.none(), st.integers(0, 25))


class Crash(BaseException):
    """The process is gone."""


class TieredLogMachine(RuleBasedStateMachine):
    """One partition: its leader crashes, with or without what was not synced, and leads again under a new epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.tier = Tier(segment_bytes=400, retention_bytes=2500)
        self.epoch = 0
        self.values: dict[int, bytes] = {}
        self.ever_appended: set[tuple[int, bytes]] = set()
        self.noted_start = 0
        """The log's start in the checkpoint on the disk."""

    @property
    def log(self) -> Log:
        return self.tier.log

    # What happens

    @rule(count=st.integers(1, 12))
    def append(self, count: int) -> None:
        for _ in range(count):
            offset = self.log.log_end_offset
            self.values[offset] = b"%d in epoch %d" % (offset, self.epoch)
            self.ever_appended.add((offset, self.values[offset]))
            self.tier.append_value(self.values[offset], epoch=self.epoch)

    @rule()
    def sync(self) -> None:
        self.log.flush()

    @rule()
    def elect(self) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.log.log_end_offset)

    @rule(crash_at=CRASH_AT, is_synced=st.booleans())
    def copy(self, crash_at: int | None, is_synced: bool) -> None:
        """With log.flush.policy=os copied records may not be on the disk, and a power failure takes them from the log alone."""
        if is_synced:
            self.log.flush()
        self.run(self.tier.copy(), crash_at)

    @rule()
    def let_local_segments_go(self) -> None:
        self.note_start()
        self.log.delete_old_segments(NOW)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start = self.log.log_start_offset
        self.log.delete_records_before(start + int(share * (self.log.high_watermark - start)))
        self.note_start()

    @rule(crash_at=CRASH_AT)
    def expire(self, crash_at: int | None) -> None:
        start, segments = expired(self.log, self.tier.remote, now_ms=NOW, copying=self.tier.copier.copying)
        assert start <= self.log.high_watermark
        self.log.raise_log_start_offset(start)
        self.note_start()

        async def delete() -> None:
            for segment in segments:
                await self.tier.copier.delete(segment)

        self.run(delete(), crash_at)

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        synced = self.log.recovery_point
        self.tier.files = self.tier.files.crashed(random.Random(seed))
        self.tier.log = Log.open(
            self.tier.files,
            self.log.directory,
            self.log.topic_partition,
            self.log.config,
            now_ms=NOW,
            recovery_point=synced,
            log_start_offset=self.noted_start,
        )
        assert self.log.log_end_offset >= synced
        self.log.update_high_watermark(self.log.log_end_offset)
        self.adopt_unsynced(synced)
        self.lead_again()

    # How

    def note_start(self) -> None:
        self.noted_start = self.log.log_start_offset

    def adopt_unsynced(self, synced: int) -> None:
        """Unsynced records may be lost, or be records that an earlier life had written there: each power failure keeps what it likes."""
        self.values = {offset: value for offset, value in self.values.items() if offset < min(synced, self.log.log_end_offset)}
        for offset in range(max(synced, self.log.log_start_offset), self.log.log_end_offset):
            self.values[offset] = self.value_at(offset)
            assert (offset, self.values[offset]) in self.ever_appended

    def run(self, work: Coroutine[Any, Any, None], crash_at: int | None) -> None:
        steps = 0

        def strike(call: str, name: str) -> None:
            nonlocal steps
            steps += 1
            if crash_at is not None and steps > crash_at:
                raise Crash

        self.tier.store.hook = self.tier.metadata.hook = strike
        try:
            asyncio.run(work)
        except Crash:
            self.lead_again()
        finally:
            self.tier.store.hook = self.tier.metadata.hook = lambda call, name: None

    def lead_again(self) -> None:
        """The next leader begins: it knows what the metadata says, and nothing else."""
        self.tier.store.hook = self.tier.metadata.hook = lambda call, name: None
        self.tier.metadata.remote = self.tier.metadata.replayed()
        self.tier.copier = self.tier.new_copier()
        self.elect()
        self.log.copied_offset = copied_up_to(self.log, self.tier.remote)

    # What must hold

    @invariant()
    def every_record_that_is_kept_is_read(self) -> None:
        log = self.log
        places = {log.log_start_offset, log.local_log_start_offset - 1, log.local_log_start_offset, log.log_end_offset - 1}
        places |= {entry.start_offset + step for entry in log.epochs.entries for step in (-1, 0)}
        for offset in sorted(places):
            if log.log_start_offset <= offset < log.log_end_offset:
                assert self.value_at(offset) == self.values[offset], offset

    def value_at(self, offset: int) -> bytes:
        if offset >= self.log.local_log_start_offset:
            data = self.log.read(offset, 1)
            assert isinstance(data, FetchData) and data.records is not None, data
            raw = memoryview(data.records.read())
        else:
            reader = self.tier.new_reader()
            found = asyncio.run(reader.read(self.log, self.tier.remote, offset, 1000, min_one_batch=True, with_aborted=True))
            assert isinstance(found, RemoteData), (offset, found)
            raw = found.records
            for position, header in batches(raw):  # all records are of this history, not only the one asked for
                for record in records_of(raw[position : position + header.size]):
                    assert bytes(record.value or b"") == self.values[record.offset]
        (record,) = [each for position, header in list(batches(raw))[:1] for each in records_of(raw[position:])]
        assert record.offset == offset
        return bytes(record.value or b"")

    @invariant()
    def objects_are_those_that_the_metadata_speaks_of(self) -> None:
        known = {segment.id for segment in self.tier.remote.segments.values()}
        assert {segment_id_in(name) for name in self.tier.store.objects} <= known
        whole = {each.id for each in self.tier.remote.segments.values() if each.state is SegmentState.COPY_FINISHED}
        assert {segment_id_in(name) for name in self.tier.store.objects if name.endswith(".log")} >= whole

    @invariant()
    def the_start_is_where_it_was_put(self) -> None:
        assert self.log.log_start_offset == self.noted_start <= self.log.high_watermark


TestTieredLog = TieredLogMachine.TestCase
TestTieredLog.settings = settings(stateful_step_count=25)
