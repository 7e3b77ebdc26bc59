"""◇ One partition's log: segments, what is known of their producers and leader epochs, and the offsets that say who may see how far.

    log_start_offset ≤ … ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset        recovery_point: everything below is on stable storage
          local_log_start_offset: what lies before is in remote storage only (see `tiered`)

Guarantees:

- Offsets are given once, without gaps by a leader; a batch is in the log whole or not at all.
- What a client appends again (idempotence) is answered with its old offset and not stored twice.
- `recovery_point` moves only after a sync that covered everything below it; after a failed sync it never moves again and
  the log refuses to work.
- Reading hands out `FileSlice`s; they stay readable whatever happens to the log afterwards.

Time is an argument, files are an argument, nothing here waits.  `flush` is in three steps so that the shell can run the middle one
elsewhere: `begin_flush` (what to sync), `Flush.sync` (blocks, touches nothing of the log), `end_flush` (installs the result).
Source: UnifiedLog, LocalLog; KIP-98, KIP-101, KIP-279.  Called by replication, coordinators, the raft driver.
"""

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from errno import ENOSPC
from functools import partial
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from moldau.config import MAX_LONG
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    batches,
    patch_max_timestamp_log_append,
    read_header,
    records_of,
    verify_crc,
)
from moldau.storage.checkpoints import PARTITION_METADATA, write_partition_metadata
from moldau.storage.config import LogConfig
from moldau.storage.epochs import EpochEnd, EpochEntry, LeaderEpochs
from moldau.storage.files import File, Files
from moldau.storage.index import OFFSET_ENTRY, TIME_ENTRY, AbortedTransaction
from moldau.storage.producer_state import (
    SNAPSHOT_SUFFIX,
    AppendOrigin,
    VerificationGuard,
)
from moldau.storage.recovery import LogState, RecoveryProgress, load_log, load_producers, snapshot_offsets
from moldau.storage.replay import read_marker, replay_producer
from moldau.storage.segment import DELETED_SUFFIX, Segment, TimestampOffset, file_name
from moldau.storage.validator import AppendFailure, Rules, check_client_batch, needs_rewrite, rewrite, too_large
from moldau.types import INTERNAL_TOPICS, METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC, FileSlice, TopicPartition

NO_OFFSET: Final = -1
NEVER_TIERED: Final = INTERNAL_TOPICS | {METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC}

_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")


class AppendResult(NamedTuple):
    """What became of an append.  Offsets are inclusive; -1 when there was nothing to append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 for CreateTime."""
    log_start_offset: int
    max_timestamp: int
    records_count: int
    size: int
    is_duplicate: bool = False


class FetchData(NamedTuple):
    """What a reader gets: whole batches first to last, but for the last, which may be cut."""

    records: FileSlice | None
    """None: nothing to read."""
    offset: int
    segment_base_offset: int
    position: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return self.records.size if self.records is not None else 0


class Past(NamedTuple):
    """What a log must know of the records before its first one, when those are in remote storage only.  `end_offset` exclusive."""

    end_offset: int
    epochs: list[EpochEntry]
    snapshot: bytes
    """Of the producers, as in a snapshot file."""


class ProducerStatus(NamedTuple):
    """One line of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class Flush:
    """What one flush syncs.  `sync` may run in another thread: it only touches the files it was given."""

    __slots__ = ("_directories", "_epochs", "_file", "_files", "_paths", "_sealed", "moves", "truncations", "upto")

    def __init__(
        self,
        files: Files,
        file: File,
        sealed: list[Segment],
        paths: list[str],
        directories: list[str],
        epochs: LeaderEpochs,
        *,
        upto: int,
        truncations: int,
        moves: int,
    ) -> None:
        self._files = files
        self._file = file
        self._sealed = sealed
        self._paths = paths
        self._directories = directories
        self._epochs = epochs
        self.upto = upto
        self.truncations = truncations
        self.moves = moves

    @property
    def sealed(self) -> list[Segment]:
        return self._sealed

    def sync(self) -> None:
        """Errors: OSError."""
        for segment in self._sealed:
            segment.file.sync()
            with suppress(FileNotFoundError):  # deleted since: then nobody needs it
                segment.sync_indexes()
        for path in self._paths:
            with suppress(FileNotFoundError):
                sync_path(self._files, path)
        self._file.sync()
        with suppress(FileNotFoundError):  # the log was deleted: its directory has another name
            self._epochs.save()
            for directory in self._directories:
                self._files.sync_dir(directory)


class Log:
    """See the module.  Made by `Log.open`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        state: LogState,
        *,
        topic_id: UUID | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = state.segments
        self.producers = state.producers
        self.epochs = state.epochs
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_start_offset
        self.recovery_point = state.recovery_point
        self.last_flush_ms = 0
        self.failure: OSError | None = None
        """Set once its disk has failed: nothing is appended, read or acknowledged any more."""
        self.on_failure: Callable[[Log, OSError], None] | None = None
        self.verifies_transactions = True
        self._active = state.segments[-1]
        self._bases = [segment.base_offset for segment in state.segments]
        self._unsynced = state.unsynced
        # A log is made without waiting for the disk; its first flush covers what the one who made it, or this process before, left undone.
        self._unsynced_paths: list[str] = [] if state.is_as_closed else [f"{directory}/{PARTITION_METADATA}"]
        self._names_changed = not state.is_as_closed
        self._is_named = state.is_as_closed
        self._closed_at = state.log_end_offset if state.is_as_closed else None
        """Where it ended when all of it was saved and synced last; None while that cannot be said."""
        self.truncations = 0
        """How often its past was changed: whoever works beside the loop compares before and after."""
        self.moves = 0
        """How often all its files went to another disk: what fails on the one before is not its failure."""
        self._waiting_deletion: list[tuple[int, Segment]] = []
        self.copied_offset = 0
        """Exclusive: everything below it can be read from remote storage, so its local copy may go."""
        self._local_start_wanted = 0
        self.configure(config)

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool = False,
        topic_id: UUID | None = None,
        progress: RecoveryProgress | None = None,
        is_never_truncated: bool = False,
    ) -> "Log":
        """The log in `directory`, recovered unless it was closed cleanly; a new one where there is none.

        `is_never_truncated` means by its owner, so that no batch can contradict the checkpoint of its epochs but by damage to either.
        Errors: LogDamaged when bytes that were flushed are not what they were, CorruptCheckpoint, OSError.
        """
        state = load_log(
            files,
            directory,
            config,
            name=str(topic_partition),
            now_ms=now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            progress=progress,
            is_never_truncated=is_never_truncated,
        )
        return cls(files, directory, topic_partition, config, state, topic_id=topic_id)

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    def configure(self, config: LogConfig) -> None:
        """The options from now on."""
        self.config = config
        self._rules = Rules.of(config)
        self._max_offset_entries = config.segment_index_bytes // OFFSET_ENTRY.size
        self._max_time_entries = config.segment_index_bytes // TIME_ENTRY.size - 1  # the last one is for the roll
        self._active.index_interval_bytes = config.index_interval_bytes
        self._roll_after_ms = self._jittered(config)
        if not self.is_tiered:
            self.log_start_offset = max(self.log_start_offset, self._bases[0])  # what was in remote storage only is gone

    # ---------------------------------------------------------------- offsets

    @property
    def active_segment(self) -> Segment:
        return self._active

    @property
    def is_tiered(self) -> bool:
        """Whether older segments are in remote storage."""
        return self.config.remote_storage_enable and self.topic_partition.topic not in NEVER_TIERED

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read here."""
        return max(self.log_start_offset, self._bases[0])

    @property
    def size(self) -> int:
        """Bytes of records that are here, without indexes."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """Exclusive: below it no transaction is undecided."""
        first = self.producers.first_unstable_offset
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def update_high_watermark(self, offset: int) -> int:
        """The new one, which never leaves what the log holds."""
        moved = min(max(offset, self.log_start_offset), self.log_end_offset)
        if moved != self.high_watermark:
            self.high_watermark = moved
            if self.producers.unreplicated:
                self.producers.high_watermark_moved(moved)
        return moved

    # ---------------------------------------------------------------- appending

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | AppendFailure:  # hot: 10 µs + CRC + pwrite
        """Give `records` their offsets, in place, and append them.

        Errors: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE,
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        if self.failure is not None:
            return self._storage_failure()
        if origin is not AppendOrigin.CLIENT:
            return self._append_internal(records, leader_epoch, now_ms, origin, guard=guard, transaction_version=transaction_version)
        rules = self._rules
        header = check_client_batch(records, rules, now_ms)
        if isinstance(header, AppendFailure):
            return header
        producer_id = header.producer_id
        if producer_id >= 0:
            duplicate = self.producers.duplicate_of(header)
            if duplicate is not None:
                count = duplicate.last_offset - duplicate.first_offset + 1
                time = duplicate.timestamp
                return AppendResult(
                    duplicate.first_offset, duplicate.last_offset, time, self.log_start_offset, -1, count, 0, is_duplicate=True
                )
            refusal = self.producers.refusal_of(header, origin, guard, verify=self.verifies_transactions)
            if refusal is not None:
                return AppendFailure(*refusal)
        if rules.codec is not None and needs_rewrite(header, rules):
            rebuilt = rewrite(records, header, rules, now_ms)
            if isinstance(rebuilt, AppendFailure):
                return rebuilt
            records, header = rebuilt, read_header(rebuilt)
        if rules.log_append_time:
            records = _writable(records)
            patch_max_timestamp_log_append(records, 0, header, now_ms)
            header = read_header(records)
        size = len(records)
        if size > rules.segment_bytes:
            return self._list_too_large(size)
        offset = self.log_end_offset
        last_offset = offset + header.last_offset_delta
        header = BatchHeader(offset, header[1], leader_epoch, *header[3:])
        try:
            _INT64.pack_into(records, 0, offset)
        except TypeError:  # a read-only view: whoever holds the bytes may need them as they are
            records = bytearray(records)
            _INT64.pack_into(records, 0, offset)
        _INT32.pack_into(records, 12, leader_epoch)
        try:
            if leader_epoch != self.epochs.appendable_epoch:
                self.epochs.assign(leader_epoch, offset)
            if self._must_roll(size, last_offset, header.max_timestamp, now_ms):
                self.roll(now_ms)
            self._active.append(records, header)
        except OSError as error:
            return self._write_failed(error)
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self.producers.append(header)
        self.producers.end_offset = last_offset + 1
        time = now_ms if rules.log_append_time else -1
        return AppendResult(offset, last_offset, time, self.log_start_offset, header.max_timestamp, header.records_count, size)

    def append_as_follower(self, records: memoryview | bytearray, leader_epoch: int) -> AppendResult | AppendFailure:
        """What the leader has, as it has it; a cut last batch and batches of a newer epoch than `leader_epoch` are left out.

        Errors: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when the offsets do not follow, KAFKA_STORAGE_ERROR.
        """
        if self.failure is not None:
            return self._storage_failure()
        view = memoryview(records)
        headers: list[tuple[int, BatchHeader]] = []
        end, next_offset = 0, self.log_end_offset
        try:
            for position, header in batches(view):
                if header.partition_leader_epoch > leader_epoch:
                    break
                if not verify_crc(view, position, header):
                    return AppendFailure(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {header.base_offset} from the leader is corrupt")
                if header.base_offset < next_offset or header.last_offset_delta < 0:
                    return AppendFailure(
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        f"Offset {header.base_offset} came from the leader of {self.topic_partition}, {next_offset} was to come",
                    )
                headers.append((position, header))
                end, next_offset = position + header.size, header.next_offset
        except CorruptBatch as error:
            return AppendFailure(ErrorCode.CORRUPT_MESSAGE, f"What came from the leader is no batch: {error}")
        if not headers:
            return AppendResult(NO_OFFSET, NO_OFFSET, -1, self.log_start_offset, -1, 0, 0)
        # Followers roll when the leader's batches say so: by their timestamps, not by a clock.
        return self._append_batches(view[:end], headers, headers[-1][1].max_timestamp, AppendOrigin.REPLICATION)

    def _append_internal(
        self,
        records: memoryview | bytearray,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        *,
        guard: VerificationGuard | None,
        transaction_version: int,
    ) -> AppendResult | AppendFailure:
        """From the broker itself: one or more batches that need no suspicion, markers among them."""
        records = _writable(records)
        view = memoryview(records)
        headers: list[tuple[int, BatchHeader]] = []
        offset = self.log_end_offset
        for position, header in batches(view, strict=True):
            if header.size > self._rules.max_message_bytes and origin is AppendOrigin.COORDINATOR:
                return too_large(header.size, self._rules.max_message_bytes)
            if header.producer_id >= 0:
                refusal = self._internal_refusal(view, position, header, origin, guard=guard, transaction_version=transaction_version)
                if refusal is not None:
                    return refusal
            _INT64.pack_into(view, position, offset)
            _INT32.pack_into(view, position + 12, leader_epoch)
            if self._rules.log_append_time and not header.is_control:
                patch_max_timestamp_log_append(view, position, header, now_ms)
            header = read_header(view, position)
            headers.append((position, header))
            offset = header.next_offset
        assert headers, "an append has a batch"
        return self._append_batches(view, headers, now_ms, origin)

    def _internal_refusal(
        self,
        view: memoryview,
        position: int,
        header: BatchHeader,
        origin: AppendOrigin,
        *,
        guard: VerificationGuard | None,
        transaction_version: int,
    ) -> AppendFailure | None:
        if header.is_control:
            marker = read_marker(view[position : position + header.size])
            refusal = marker and self.producers.marker_refusal_of(header, marker, origin, transaction_version=transaction_version)
        else:
            refusal = self.producers.refusal_of(header, origin, guard, verify=self.verifies_transactions)
        return AppendFailure(*refusal) if refusal else None

    def _append_batches(
        self, view: memoryview, headers: list[tuple[int, BatchHeader]], now_ms: int, origin: AppendOrigin
    ) -> AppendResult | AppendFailure:
        first, last = headers[0][1], headers[-1][1]
        size = len(view)
        if origin is not AppendOrigin.REPLICATION and size > self._rules.segment_bytes:
            return self._list_too_large(size)
        max_timestamp = max(header.max_timestamp for _, header in headers)
        try:
            for _, header in headers:
                if header.partition_leader_epoch != self.epochs.appendable_epoch and header.partition_leader_epoch >= 0:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if self._must_roll(size, last.last_offset, max_timestamp, now_ms):
                self.roll(now_ms, first.base_offset)
            self._active.append_many(view, headers)
        except OSError as error:
            return self._write_failed(error)
        self.log_end_offset = last.next_offset
        try:
            for position, header in headers:
                if header.producer_id >= 0:
                    replay_producer(self.producers, header, self._active, partial(_batch_in, view, position, header.size))
        except OSError as error:  # the transaction index: the batch is there, and what follows from it is not
            self.fail(error)
            return self._storage_failure()
        self.producers.end_offset = last.next_offset
        count = sum(header.records_count for _, header in headers)
        time = max_timestamp if last.attributes & LOG_APPEND_TIME else -1
        return AppendResult(first.base_offset, last.last_offset, time, self.log_start_offset, max_timestamp, count, size)

    def _must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        active = self._active
        if active.size == 0:
            return not active.has_room_for(last_offset)
        return (
            active.size > self._rules.segment_bytes - size
            or active.waited_ms(now_ms, max_timestamp) > self._roll_after_ms
            or active.offset_index.count >= self._max_offset_entries
            or active.time_index.count >= self._max_time_entries
            or not active.has_room_for(last_offset)
        )

    def roll(self, now_ms: int, next_offset: int | None = None) -> Segment:
        """A new active segment at the log's end (or at `next_offset`, beyond it, for a follower with a gap to fill).  Errors: OSError."""
        base_offset = max(self.log_end_offset, next_offset or 0)
        if self._active.size == 0 and self._active.base_offset == base_offset:
            return self._active
        before = self._active
        if before.size == 0:
            self._drop([before], now_ms)
            self._start_segment(base_offset, now_ms)
            return self._active
        # Each step may fail and be taken again; nothing of the log changes before the last one has succeeded.
        before.save_indexes()
        self._write_snapshot(base_offset)
        if not self._is_named:  # else a crash might leave the second segment without the first: where the log begins would be lost
            self.files.sync_dir(self.directory)
        self._start_segment(base_offset, now_ms)
        before.seal()
        self._unsynced.append(before)
        return self._active

    def _start_segment(self, base_offset: int, now_ms: int) -> None:
        interval = self.config.index_interval_bytes
        self._active = Segment.create(self.files, self.directory, base_offset, index_interval_bytes=interval, now_ms=now_ms)
        self.segments.append(self._active)
        self._bases.append(base_offset)
        self._names_changed = True
        self._roll_after_ms = self._jittered(self.config)

    def _jittered(self, config: LogConfig) -> int:
        """segment.ms less this segment's share of the jitter: a number that is the same whenever it is asked for."""
        limit = min(config.segment_jitter_ms, config.segment_ms)
        if limit <= 0:
            return config.segment_ms
        mixed = (hash_of(str(self.topic_partition)) * 31 + self._active.base_offset * 2654435761) & 0x7FFFFFFF
        return config.segment_ms - mixed % limit

    def _write_snapshot(self, offset: int) -> None:
        """Of the producers' state at the log's end.  Not synced here: a torn one fails its CRC, and the flush that counts syncs it."""
        path = f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        file = self.files.open(path, create=True)
        content = self.producers.snapshot()
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()
        self._unsynced_paths.append(path)
        self._names_changed = True

    # ---------------------------------------------------------------- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit_offset: int | None = None,
        min_one_batch: bool = True,
        with_aborted: bool = False,
    ) -> FetchData | ErrorCode:  # hot: 5 µs
        """Batches from the one that holds `offset` on, below `limit_offset` (exclusive, default the log's end), about `max_bytes` of them.

        With `min_one_batch` the first comes whole however large it is; without, nothing comes when it does not fit.
        Errors: OFFSET_OUT_OF_RANGE, OFFSET_MOVED_TO_TIERED_STORAGE when it is in remote storage only, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE
        where the disk holds no batch.
        """
        if self.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if offset < self.log_start_offset or offset > self.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        limit = self.log_end_offset if limit_offset is None else min(limit_offset, self.log_end_offset)
        try:
            number = bisect_right(self._bases, offset) - 1
            if number < 0:
                return ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            while offset < limit and number < len(self.segments):
                segment = self.segments[number]
                position = segment.position_of(offset) if offset >= segment.base_offset else 0
                if position is not None and position < segment.size:
                    end = self._end_for(segment, number, limit)
                    if position >= end:
                        break
                    data = self._slice(segment, offset, position, end, max_bytes, min_one_batch=min_one_batch)
                    if not with_aborted or data.records is None:
                        return data
                    return data._replace(aborted=self._aborted_in(segment, offset, position + data.size, limit))
                number += 1  # compaction left nothing there
        except OSError as error:
            self.fail(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptBatch:
            return ErrorCode.CORRUPT_MESSAGE
        return FetchData(None, offset, self._active.base_offset, self._active.size)

    def _end_for(self, segment: Segment, number: int, limit: int) -> int:
        """Where the reader must stop in `segment`."""
        if limit >= self.log_end_offset or (number + 1 < len(self._bases) and limit >= self._bases[number + 1]):
            return segment.size
        position = segment.position_of(limit)
        return segment.size if position is None else position

    def _slice(self, segment: Segment, offset: int, position: int, end: int, max_bytes: int, *, min_one_batch: bool) -> FetchData:
        size = end - position
        if size > max_bytes:
            first = segment.batch_size_at(position)
            if first > max_bytes:
                if not min_one_batch:
                    return FetchData(None, offset, segment.base_offset, position)
                size = first
            else:
                size = max_bytes
        return FetchData(FileSlice(segment.file, position, size), offset, segment.base_offset, position)

    def _aborted_in(self, segment: Segment, offset: int, end_position: int, limit: int) -> tuple[AbortedTransaction, ...]:
        """Aborted transactions with records between `offset` and the batch at `end_position`, oldest marker first; at times some more."""
        number = self.segments.index(segment)
        upper = self.log_end_offset
        if end_position < segment.size:
            indexed = segment.offset_index.first_at_or_after(end_position)
            if indexed is not None:
                upper = segment.base_offset + indexed + 1
            elif number + 1 < len(self._bases):
                upper = self._bases[number + 1]
        elif number + 1 < len(self._bases):
            upper = self._bases[number + 1]
        return self.aborted_transactions(offset, min(upper, limit))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """Those with records in the range (`end_offset` exclusive)."""
        number = max(0, bisect_right(self._bases, start_offset) - 1)
        found = []
        for segment in self.segments[number:]:
            for aborted in segment.txn_index.entries():
                if aborted.last_offset >= start_offset and aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return tuple(found)
        return tuple(found)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is `timestamp` or later."""
        for segment in self.segments:
            if segment.largest_timestamp >= timestamp:
                found = segment.first_record_at_or_after(timestamp, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The record with the largest timestamp, the first of them."""
        newest = max(self.segments, key=lambda segment: segment.largest_timestamp)
        if newest.largest_timestamp < 0:
            return None
        position = newest.position_of(newest.offset_of_largest_timestamp)
        if position is None:
            return None
        header = newest.header_at(position)
        if header.attributes & LOG_APPEND_TIME:
            return TimestampOffset(header.max_timestamp, header.base_offset)
        for record in records_of(newest.batch_at(position, header)):
            if record.timestamp == header.max_timestamp:
                return TimestampOffset(record.timestamp, record.offset)
        return None

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerStatus]:
        return [
            ProducerStatus(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in self.producers.producers.values()
        ]

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        return self.producers.remove_expired(now_ms, expiration_ms)

    # ---------------------------------------------------------------- flushing

    @property
    def is_flushed(self) -> bool:
        return self.recovery_point >= self.log_end_offset

    @property
    def unflushed_records(self) -> int:
        return self.log_end_offset - self.recovery_point

    def begin_flush(self) -> Flush:
        """What must be synced for everything that is in the log now."""
        paths, self._unsynced_paths = self._unsynced_paths, []
        if self._active.txn_index.is_unsynced:
            paths = [*paths, self._active.txn_index.path]
            self._active.txn_index.is_unsynced = False
        directories = [self.directory] if self._names_changed else []
        if not self._is_named:
            directories.append(self.directory.rpartition("/")[0])
        self._names_changed = False
        return Flush(
            self.files,
            self._active.file,
            list(self._unsynced),
            paths,
            directories,
            self.epochs,
            upto=self.log_end_offset,
            truncations=self.truncations,
            moves=self.moves,
        )

    def end_flush(self, flush: Flush) -> int:
        """`flush.sync` has returned.  The new recovery point."""
        done = set(map(id, flush.sealed))
        self._unsynced = [segment for segment in self._unsynced if id(segment) not in done]
        self._is_named = True
        if flush.truncations == self.truncations and flush.upto > self.recovery_point and self.failure is None:
            self.recovery_point = flush.upto
        return self.recovery_point

    def flush(self) -> int:
        """All three steps here and now.  Errors: KafkaError KAFKA_STORAGE_ERROR, and the log works no more."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        flush = self.begin_flush()
        try:
            flush.sync()
        except OSError as error:
            self.fail(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error}") from error
        return self.end_flush(flush)

    def wants_flush(self, now_ms: int) -> bool:
        """What flush.messages and flush.ms ask for; and a start that cannot be noted before."""
        if self.is_flushed or self.failure is not None:
            return False
        if self.certain_start_offset < self.log_start_offset:
            return True
        config = self.config
        by_time = config.flush_ms != MAX_LONG and now_ms - self.last_flush_ms >= config.flush_ms
        return by_time or self.unflushed_records >= config.flush_messages

    def fail(self, error: OSError) -> None:
        """Its disk cannot be trusted any more: the log goes offline, for good."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure(self, error)

    def _write_failed(self, error: OSError) -> AppendFailure:
        """Take the torn bytes away again; a disk that is only full has lost nothing and may have room later."""
        try:
            self._active.file.truncate(self._active.size)
        except OSError as second:
            self.fail(second)
        else:
            if error.errno != ENOSPC:
                self.fail(error)
        return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error}")

    def _storage_failure(self) -> AppendFailure:
        return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self.failure}")

    def _list_too_large(self, size: int) -> AppendFailure:
        return AppendFailure(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes in one append exceed the segment size of {self._rules.segment_bytes} bytes"
        )

    # ---------------------------------------------------------------- shortening

    @property
    def certain_start_offset(self) -> int:
        """What a checkpoint may say of the start: no crash leaves the log with an end below it.

        So a start beyond the end is damage, and no reason to let the log go.
        """
        return min(self.log_start_offset, max(self.recovery_point, self._bases[0]))

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Records below `offset` are not to be seen any more; -1 means up to the high watermark.  The new log start offset.

        Errors: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.raise_log_start_offset(offset)
        return self.log_start_offset

    def raise_log_start_offset(self, offset: int) -> bool:
        """To `offset` if that is more; files go with the next `delete_old_segments`."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        return True

    def apply_retention(self, now_ms: int, *, trusted_now_ms: int | None = None) -> bool:
        """Raise the log's start by what retention by size and by age lets go; `trusted_now_ms` is what age goes by.  Whether it moved."""
        config = self.config
        if not config.is_deleted:
            return False
        oldest_ms = now_ms if trusted_now_ms is None else trusted_now_ms
        if self.is_tiered and not config.remote_log_copy_disable:
            # The log's start is moved by what expires in remote storage; here only the local copies of what is there go, and only after a
            # flush: the epochs, by which the rest is found, are on the disk with it.
            wanted = self._passed(now_ms, config.effective_local_retention_bytes, config.effective_local_retention_ms, oldest_ms)
            number = bisect_right(self._bases, min(wanted, self.copied_offset, self.recovery_point)) - 1
            self._local_start_wanted = self._bases[max(number, 0)]
            return False
        passed = self._passed(now_ms, config.retention_bytes, config.retention_ms, oldest_ms)
        return passed > self._bases[0] and self.raise_log_start_offset(passed)

    def _passed(self, now_ms: int, retention_bytes: int, retention_ms: int, oldest_ms: int) -> int:
        """The offset up to which retention by size and by age lets segments go."""
        start = self._bases[0]
        if retention_bytes >= 0:
            excess = self.size - retention_bytes

            def is_excess(segment: Segment) -> bool:
                nonlocal excess
                excess -= segment.size
                return excess >= 0

            start = max(start, self._pass_over(now_ms, is_excess))
        if retention_ms >= 0:
            oldest = oldest_ms - retention_ms
            start = max(start, self._pass_over(now_ms, lambda segment: segment.age_timestamp < oldest))
        return start

    def _pass_over(self, now_ms: int, is_old: Callable[[Segment], bool]) -> int:
        """From the oldest segment on, as long as `is_old` and everything in it lies below the high watermark.  The end of the last one."""
        start = self._bases[0]
        for number, segment in enumerate(self.segments):
            is_active = segment is self._active
            end = self.log_end_offset if is_active else self._bases[number + 1]
            if end > self.high_watermark or (is_active and segment.size == 0) or not is_old(segment):
                break
            start = end
        if start > self._active.base_offset:
            self.roll(now_ms)
        return start

    def drop_below_start(self, now_ms: int) -> int:
        """Segments that lie wholly below the log's start go.  Note that start on the disk first: a crash may bring some of them back.

        What was not flushed yet waits for it.  So do those go that the local retention of a tiered log lets go.  How many went.
        Errors: OSError.
        """
        start = self.certain_start_offset
        self.epochs.truncate_from_start(start)
        count = bisect_right(self._bases, max(start, self._local_start_wanted)) - 1
        if count > 0 and not self.is_tiered:
            self._drop(self.segments[:count], now_ms)
        elif count > 0:
            # One after the other on the disk too.  The log's start does not say how far this has come, and after a crash that had undone
            # some of it in the middle, records would seem to be missing.
            for segment in self.segments[:count]:
                self._drop([segment], now_ms)
                self.files.sync_dir(self.directory)
        return max(count, 0)

    def delete_old_segments(self, now_ms: int, *, trusted_now_ms: int | None = None) -> int:
        """Both steps, for a log that no manager keeps.  How many segments went."""
        self.apply_retention(now_ms, trusted_now_ms=trusted_now_ms)
        return self.drop_below_start(now_ms)

    def _drop(self, segments: list[Segment], now_ms: int) -> None:
        """Out of the log at once, off the disk after file.delete.delay.ms: readers may still be at it."""
        going = set(map(id, segments))
        self.segments = [segment for segment in self.segments if id(segment) not in going]
        self._bases = [segment.base_offset for segment in self.segments]
        self._unsynced = [segment for segment in self._unsynced if id(segment) not in going]
        self._set_aside(segments, now_ms)
        for segment in segments:
            self._delete_snapshot(segment.base_offset)

    def _set_aside(self, segments: list[Segment], now_ms: int) -> None:
        for segment in segments:
            segment.rename_suffix(DELETED_SUFFIX)
            segment.close()
            self._waiting_deletion.append((now_ms + self.config.file_delete_delay_ms, segment))
        self._names_changed = True

    def replace_segments(self, replaced: tuple[int, ...], swap: Segment, now_ms: int) -> None:
        """Take a compacted segment, which stands beside the log as `.swap`, in place of those with these base offsets.  Errors: OSError."""
        going = [segment for segment in self.segments if segment.base_offset in replaced]
        number = self.segments.index(going[0])
        self._set_aside(going, now_ms)
        self.files.sync_dir(self.directory)
        swap.rename_suffix("")
        self.files.sync_dir(self.directory)
        swap.adopt_indexes()
        rest = [segment for segment in self.segments if segment.base_offset not in replaced]
        self.segments = [*rest[:number], swap, *rest[number:]]
        self._bases = [segment.base_offset for segment in self.segments]
        self._unsynced = [segment for segment in self._unsynced if segment.base_offset not in replaced]
        for segment in going[1:]:
            self._delete_snapshot(segment.base_offset)

    def _delete_snapshot(self, offset: int) -> None:
        path = f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        if self.files.exists(path):
            self.files.unlink(path)

    def delete_due_files(self, now_ms: int) -> int:
        """Unlink what has waited long enough.  How many segments' files went."""
        due = [segment for at, segment in self._waiting_deletion if at <= now_ms]
        self._waiting_deletion = [(at, segment) for at, segment in self._waiting_deletion if at > now_ms]
        for segment in due:
            segment.delete_files()
        return len(due)

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """The log ends at `offset` at the latest.  Lower the recovery-point checkpoint first: see `manager`."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(max(offset, self.log_end_offset))
            return False
        if offset < self.segments[0].base_offset:
            # Of what is in remote storage before it nothing here tells, without the records that follow: it begins as a new one.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset) if self.is_tiered else offset, now_ms)
            return True
        self.truncations += 1
        number = bisect_right(self._bases, offset) - 1
        self._drop(self.segments[number + 1 :], now_ms)
        self._active = self.segments[-1]
        self._active.unseal()
        self._active.truncate_to(offset)
        self._active.index_interval_bytes = self.config.index_interval_bytes
        self._unsynced = [segment for segment in self._unsynced if segment is not self._active]
        self._end_at(offset)
        self.epochs.truncate_from_end(offset)
        self._delete_snapshots_above(offset)
        self._reload_producers()
        return True

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation: what is above is about to go."""
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0, log_start_offset: int | None = None) -> None:
        """Nothing is left; the next record gets `offset`."""
        self.truncations += 1
        self._drop(list(self.segments), now_ms)
        self._start_segment(offset, now_ms)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._end_at(offset)
        self.epochs.clear()
        self._delete_snapshots_above(-1)
        self.producers.clear(offset)

    def begin_after(self, past: Past, now_ms: int, *, log_start_offset: int) -> None:
        """Nothing of it is left; it goes on after what is in remote storage.  `manager` sees to it that a crash leaves no half of it."""
        assert log_start_offset <= past.end_offset, (log_start_offset, past.end_offset)
        self.truncate_fully_and_start_at(past.end_offset, now_ms, log_start_offset)
        self.update_high_watermark(past.end_offset)
        self.epochs.replace(past.epochs)
        self.producers.restore(past.snapshot, past.end_offset)
        self._write_snapshot(past.end_offset)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.copied_offset = min(self.copied_offset, offset)
        self._local_start_wanted = min(self._local_start_wanted, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.update_high_watermark(self.high_watermark)

    def _reload_producers(self) -> None:
        load_producers(
            self.files, self.directory, self.producers, self.segments, start_offset=self.log_start_offset, end_offset=self.log_end_offset
        )
        self.producers.high_watermark_moved(self.high_watermark)

    def _delete_snapshots_above(self, offset: int) -> None:
        """They tell of batches that are no more, and must not come back when the log has grown past them again: synced at once."""
        for taken_at in snapshot_offsets(self.files, self.directory):
            if taken_at > offset:
                self._delete_snapshot(taken_at)
        self.files.sync_dir(self.directory)

    # ---------------------------------------------------------------- life

    def close(self) -> None:
        """Everything saved and synced: a clean start finds nothing to do.  Errors: KafkaError KAFKA_STORAGE_ERROR."""
        if self.failure is None and not self._is_as_closed:
            self._active.save_indexes()
            self._write_snapshot(self.log_end_offset)
            self._unsynced_paths += [self._active.offset_index.path, self._active.time_index.path]
            self.flush()
        for segment in self.segments:
            segment.close()

    @property
    def _is_as_closed(self) -> bool:
        is_changed = self._names_changed or self._unsynced_paths or self._unsynced or self.truncations
        return self._closed_at == self.log_end_offset == self.recovery_point and not is_changed

    def belongs_to(self, topic_id: UUID) -> None:
        """Notes whose log it is, durably with the next flush.  Errors: OSError."""
        write_partition_metadata(self.files, self.directory, topic_id)
        self.topic_id = topic_id
        self._unsynced_paths.append(f"{self.directory}/{PARTITION_METADATA}")
        self._names_changed = True

    def moved_to(self, directory: str) -> None:
        """The directory was renamed."""
        self.directory = directory
        self.epochs.moved_to(directory)
        for segment in (*self.segments, *(segment for _, segment in self._waiting_deletion)):
            segment.moved_to(directory)
        self._unsynced_paths = [f"{directory}/{path.rpartition('/')[2]}" for path in self._unsynced_paths]

    def relocated(self, directory: str) -> None:
        """All its files stand elsewhere now, byte for byte and on stable storage: see `move`.  Readers of the old ones read on."""
        self.truncations += 1  # whoever works beside the loop has worked on the old files
        self.moves += 1
        self.directory = directory
        self.epochs.moved_to(directory)
        for segment in self.segments:
            segment.close()
            segment.moved_to(directory)
            segment.txn_index.is_unsynced = False
        self.recovery_point = self.log_end_offset
        self._waiting_deletion, self._unsynced, self._unsynced_paths = [], [], []
        self._names_changed = False


def hash_of(text: str) -> int:
    """The same in every process, unlike `hash`."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) & 0x7FFFFFFF
    return value


def sync_path(files: Files, path: str) -> None:
    """Errors: OSError."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def _batch_in(view: memoryview, position: int, size: int) -> memoryview:
    return view[position : position + size]


def _writable(records: memoryview | bytearray) -> memoryview | bytearray:
    return bytearray(records) if isinstance(records, memoryview) and records.readonly else records
