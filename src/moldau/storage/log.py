"""◇ One partition's log: segments, what is known of their producers and leader epochs, and the offsets that say who may see how far.

    log_start_offset ≤ … ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset        recovery_point: everything below is on stable storage
          local_log_start_offset: what lies before is in remote storage only (see `tiered`)

Guarantees:

- Offsets are given once, without gaps by a leader; a batch is in the log whole or not at all.
- What a client appends again (idempotence) is answered with its old offset and not stored twice.
- `recovery_point` moves only after a sync that covered everything below it; after a failed sync it never moves again and
  the log refuses to work.
- Reading hands out `FileSlice`s; they stay readable whatever happens to the log afterwards.

A log is put together of parts; it keeps the offsets and sees to the order of the steps:

    log_segments        the segments and how they roll             flush.durability      what is owed to the disk, and the flushes
    log_reader          what readers get                           producers.state       who has sent what, and open transactions
    retention           what size and age let go                   producers.snapshots   the same in files
    validator           what a client's batch must be              epochs                which leader epoch began where
    log_values          what a log answers with

Time is an argument, files are an argument, nothing here waits.  `flush` is in three steps so that the shell can run the middle one
elsewhere: `begin_flush` (what to sync), `Flush.sync` (blocks, touches nothing of the log), `end_flush` (installs the result).
What leaves a log goes in an order that `manager` keeps, because a crash may come between any two steps:

    start      `raise_log_start_offset` ─▶ noted on the disk ─▶ `drop_below_start`: whole segments, as far as they were flushed
    end        recovery point lowered on the disk ─▶ `truncate_to`

Source: UnifiedLog, LocalLog; KIP-98, KIP-101, KIP-279.  Called by replication, coordinators, the raft driver.
"""

import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final
from uuid import UUID

from moldau.config import MAX_LONG
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    batches,
    patch_create_time,
    patch_max_timestamp_log_append,
    read_header,
    verify_crc,
)
from moldau.storage.config import LogConfig
from moldau.storage.epochs import UNDEFINED_EPOCH, EpochEnd, EpochEntry
from moldau.storage.files import Files, is_shortage
from moldau.storage.flush.durability import Durability, Flush
from moldau.storage.folders.checkpoints import PARTITION_METADATA, write_partition_metadata
from moldau.storage.index import AbortedTransaction
from moldau.storage.log_reader import LogReader
from moldau.storage.log_segments import LogSegments
from moldau.storage.log_values import AppendResult, FetchData, Past, ProducerStatus
from moldau.storage.producers.recall import recall
from moldau.storage.producers.replay import read_marker, replay_producer
from moldau.storage.producers.snapshots import ProducerSnapshots
from moldau.storage.producers.state import AppendOrigin, VerificationGuard
from moldau.storage.recovery import LogState, RecoveryProgress, load_log
from moldau.storage.retention import passed
from moldau.storage.segment import Segment, delete_files_of
from moldau.storage.time_search import Candidate, TimestampOffset, first_record_at_or_after
from moldau.storage.validator import (
    AppendFailure,
    Examined,
    Rules,
    Unexamined,
    check_client_batch,
    examine_if_light,
    too_large,
    wants_examination,
)
from moldau.types import INTERNAL_TOPICS, METADATA_TOPIC, NO_OFFSET, REMOTE_LOG_METADATA_TOPIC, TopicPartition

__all__ = ["AppendResult", "FetchData", "Flush", "Log", "Past", "ProducerStatus"]

LOG: Final = logging.getLogger(__name__)
NEVER_TIERED: Final = INTERNAL_TOPICS | {METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC}
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")


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
        self.producers = state.producers
        self.epochs = state.epochs
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_start_offset
        self.last_flush_ms = 0
        self.failure: OSError | None = None
        """The error of its failed disk; nothing is appended, read or acknowledged any more."""
        self.on_failure: Callable[[Log, OSError], None] | None = None
        self.verifies_transactions = True
        self.copied_offset = 0
        """The offset (exclusive) below which everything can be read from remote storage, so that local copies may be deleted."""
        self.durability = Durability(files, directory, state.epochs, recovery_point=state.recovery_point, is_settled=state.is_as_closed)
        for segment in state.unsynced:
            self.durability.owe_sealed(segment)
        if not state.is_as_closed:  # a log is made without waiting for the disk; its first flush covers its maker's debts
            self.durability.owe_path(f"{directory}/{PARTITION_METADATA}")
        self._segments = LogSegments(files, directory, state.segments, self.durability, name=str(topic_partition))
        self._reader = LogReader(self._segments)
        self._snapshots = ProducerSnapshots(files, directory, state.producers, self.durability)
        self._closed_at = (state.log_end_offset, 0) if state.is_as_closed else None
        """The end when all of it was saved and synced last, and the number of truncations then; None while that is not known."""
        self._local_start_wanted = 0
        self._epochs_come_first = False
        self.configure(config)

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

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
        is_never_truncated: Callable[[], bool] = lambda: False,
    ) -> "Log":
        """The log in `directory`, recovered unless it was closed cleanly; a new one where there is none.

        `is_never_truncated` is asked when a batch contradicts the checkpoint of its epochs: if its owner never truncates the log, and lets
        epochs come first, this can only be damage.  Otherwise the batch and all after it are cut off.
        Errors: LogDamaged when flushed bytes have changed, CorruptCheckpoint, OSError.
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

    def configure(self, config: LogConfig) -> None:
        """Take new options."""
        self.config = config
        self._rules = Rules.of(config)
        self._segments.configure(config)
        if not self.is_tiered:
            self.log_start_offset = max(self.log_start_offset, self._segments.bases[0])  # the records in remote storage only are gone

    # ---------------------------------------------------------------- offsets and state

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; the last one is the active one."""
        return self._segments.all

    @property
    def active_segment(self) -> Segment:
        return self._segments.active

    @property
    def size(self) -> int:
        """The bytes of local records, without indexes."""
        return self._segments.size

    @property
    def is_tiered(self) -> bool:
        """Whether older segments are in remote storage."""
        return self.config.remote_storage_enable and self.topic_partition.topic not in NEVER_TIERED

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read here."""
        return max(self.log_start_offset, self._segments.bases[0])

    @property
    def certain_start_offset(self) -> int:
        """The start that a checkpoint may have: no crash leaves the log with an end below it.  So a noted start beyond the end is damage,
        and no reason to drop the log.
        """
        return min(self.log_start_offset, max(self.recovery_point, self._segments.bases[0]))

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is undecided (exclusive)."""
        first = self.producers.first_unstable_offset
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark.  Returns the new one, which never leaves the log's range."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        if offset != self.high_watermark:
            self.high_watermark = offset
            if self.producers.unreplicated:
                self.producers.high_watermark_moved(offset)
        return offset

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The end of the largest epoch that is not newer than `epoch`.  An epoch without a record left ended at the log's start."""
        found = self.epochs.end_offset_for(epoch, self.log_end_offset)
        if (found.epoch == UNDEFINED_EPOCH and found.end_offset < 0) or found.end_offset > self.log_start_offset:
            return found
        return found if found.epoch == self.epochs.latest_epoch else EpochEnd(epoch, self.log_start_offset)

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

    # ---------------------------------------------------------------- appending

    def append_from_client(
        self,
        records: memoryview | bytearray,
        *,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
        examined: Examined | None = None,
    ) -> AppendResult | AppendFailure | Unexamined:  # hot: 10 µs + CRC + pwrite
        """Give the one batch in `records` its offsets, in place, and append it.

        `examined`: the result of `validator.examine` for a batch that came back Unexamined; it comes back again if the rules have changed.
        Errors: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE,
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        if self.failure is not None:
            return self._storage_failure()
        rules = self._rules
        header = check_client_batch(records, rules)
        if isinstance(header, AppendFailure):
            return header
        if wants_examination(header, rules, now_ms):
            if examined is None or examined.rules != rules:
                said = examine_if_light(records, header, rules, now_ms)
                if not isinstance(said, Examined):
                    return said
                examined = said
            if examined.rebuilt is not None:
                records, header = examined.rebuilt, read_header(examined.rebuilt)
        producer_id = header.producer_id
        if producer_id >= 0:
            duplicate = self.producers.duplicate_of(header)
            if duplicate is not None:
                count = duplicate.last_offset - duplicate.first_offset + 1
                time = duplicate.timestamp
                return AppendResult(
                    duplicate.first_offset, duplicate.last_offset, time, self.log_start_offset, -1, count, 0, is_duplicate=True
                )
            refusal = self.producers.refusal_of(header, AppendOrigin.CLIENT, guard, verify=self.verifies_transactions)
            if refusal is not None:
                if self._recalls(header):
                    return self.append_from_client(records, leader_epoch=leader_epoch, now_ms=now_ms, guard=guard, examined=examined)
                return AppendFailure(*refusal)
        if rules.log_append_time:
            records = _writable(records)
            patch_max_timestamp_log_append(records, 0, header, now_ms)
            header = read_header(records)
        elif header.attributes & LOG_APPEND_TIME:
            records = _writable(records)
            patch_create_time(records, 0, header)
            header = read_header(records)
        size = len(records)
        if size > rules.segment_bytes:
            return self._list_too_large(size)
        offset = self.log_end_offset
        last_offset = offset + header.last_offset_delta
        header = BatchHeader(offset, header[1], leader_epoch, *header[3:])
        try:
            _INT64.pack_into(records, 0, offset)
        except TypeError:  # a read-only view: the owner of the bytes may need them unchanged
            records = bytearray(records)
            _INT64.pack_into(records, 0, offset)
        _INT32.pack_into(records, 12, leader_epoch)
        epochs_before = self.epochs.entries
        try:
            if leader_epoch != self.epochs.appendable_epoch:
                self._begin_epoch(leader_epoch, offset)
            if self._segments.must_roll(size, last_offset, header.max_timestamp, now_ms):
                self.roll(now_ms)
            self._segments.active.append(records, header)
        except OSError as error:
            return self._write_failed(error, epochs_before)
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self.producers.append(header)
        self.producers.end_offset = last_offset + 1
        time = now_ms if rules.log_append_time else -1
        return AppendResult(offset, last_offset, time, self.log_start_offset, header.max_timestamp, header.records_count, size)

    def _recalls(self, header: BatchHeader) -> bool:
        """Whether the log was searched for earlier batches of a producer of which a snapshot has only the last one."""
        entry = self.producers.half_known(header)
        if entry is None:
            return False
        try:
            recall(entry, self.segments, start_offset=self.log_start_offset)
        except (CorruptBatch, OSError) as error:
            LOG.warning("%r: the batches that producer %d sent before the start cannot be read: %s", self, header.producer_id, error)
        return True

    def append_as_follower(self, records: memoryview | bytearray, leader_epoch: int) -> AppendResult | AppendFailure:
        """Append the leader's batches unchanged.  A cut last batch and batches of a newer epoch than `leader_epoch` are left out.

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
                        f"Offset {header.base_offset} came from the leader of {self.topic_partition}, but {next_offset} was expected",
                    )
                headers.append((position, header))
                end, next_offset = position + header.size, header.next_offset
        except CorruptBatch as error:
            return AppendFailure(ErrorCode.CORRUPT_MESSAGE, f"The bytes from the leader are no batch: {error}")
        if not headers:
            return AppendResult(NO_OFFSET, NO_OFFSET, -1, self.log_start_offset, -1, 0, 0)
        # Followers roll when the leader's batches say so: by their timestamps, not by a clock.
        return self._append_batches(view[:end], headers, headers[-1][1].max_timestamp, AppendOrigin.REPLICATION)

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | AppendFailure:
        """Append one or more trusted batches of the broker itself, such as markers.

        Errors: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED,
        KAFKA_STORAGE_ERROR.
        """
        assert origin is not AppendOrigin.CLIENT, "what a client sends is checked: append_from_client"
        if self.failure is not None:
            return self._storage_failure()
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
            else:
                header = BatchHeader(offset, header[1], leader_epoch, *header[3:])
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
        epochs_before = self.epochs.entries
        try:
            for _, header in headers:
                if header.partition_leader_epoch != self.epochs.appendable_epoch and header.partition_leader_epoch >= 0:
                    self._begin_epoch(header.partition_leader_epoch, header.base_offset)
            if self._segments.must_roll(size, last.last_offset, max_timestamp, now_ms):
                self.roll(now_ms, first.base_offset)
            self._segments.active.append_many(view, headers)
        except OSError as error:
            return self._write_failed(error, epochs_before)
        self.log_end_offset = last.next_offset
        try:
            for position, header in headers:
                if header.producer_id >= 0:
                    replay_producer(self.producers, header, self._segments.active, partial(_batch_in, view, position, header.size))
        except OSError as error:  # the transaction index failed: the batch is there, and its entry is not
            self.fail(error)
            return self._storage_failure()
        self.producers.end_offset = last.next_offset
        count = sum(header.records_count for _, header in headers)
        time = max_timestamp if last.attributes & LOG_APPEND_TIME else -1
        return AppendResult(first.base_offset, last.last_offset, time, self.log_start_offset, max_timestamp, count, size)

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        """Note that the batch at `offset`, which is about to be written, is the first of `epoch`.

        Errors: OSError, and nothing has changed.
        """
        self.epochs.assign(epoch, offset, at_once=self.durability.is_cut or self._epochs_come_first)
        self.durability.stop_sharing()

    def let_epochs_come_first(self, wanted: bool) -> None:
        """Whether an epoch is on the disk before its first batch.  A recovery can then take a batch that contradicts the epochs for damage.

        Errors: OSError, and nothing has changed.
        """
        if wanted and not self._epochs_come_first:
            self.epochs.save()
        self._epochs_come_first = wanted

    def roll(self, now_ms: int, next_offset: int | None = None) -> Segment:
        """Start a new active segment at the log's end (or at `next_offset`, beyond it, for a follower with a gap to fill).

        Errors: OSError.
        """
        base_offset = max(self.log_end_offset, next_offset or 0)
        before = self._segments.active
        if before.size == 0 and before.base_offset == base_offset:
            return before
        if before.size == 0:
            self._drop([before], now_ms)
            self._segments.start(base_offset, now_ms)
            return self._segments.active
        # Each step may fail and be repeated; the log changes only after the last one has succeeded.
        before.save_indexes()
        self._snapshots.write(base_offset)
        if (
            not self.durability.is_named
        ):  # otherwise a crash might leave the second segment without the first: the log's start would be lost
            self.files.sync_dir(self.directory)
        self._segments.start(base_offset, now_ms)
        before.seal()
        self.durability.owe_sealed(before)
        return self._segments.active

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

        With `min_one_batch` the first batch comes whole, however large it is; without, nothing comes if it does not fit.
        Errors: OFFSET_OUT_OF_RANGE, OFFSET_MOVED_TO_TIERED_STORAGE when it is in remote storage only, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE
        if the file has no batch there.
        """
        end_offset = self.log_end_offset
        if self.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if offset < self.log_start_offset or offset > end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        limit = end_offset if limit_offset is None else min(limit_offset, end_offset)
        try:
            return self._reader.read(
                offset, max_bytes, limit=limit, end_offset=end_offset, min_one_batch=min_one_batch, with_aborted=with_aborted
            )
        except OSError as error:
            self.fail(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptBatch:
            return ErrorCode.CORRUPT_MESSAGE

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records in the range (`end_offset` exclusive), oldest marker first."""
        return self._reader.aborted_transactions(start_offset, end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is `timestamp` or later, however long the search takes.  Errors: CorruptBatch, OSError."""
        candidate = self.candidate_for_timestamp(timestamp)
        while candidate is not None:
            found = first_record_at_or_after(*candidate.search)
            if found is not None:
                return found
            candidate = self.candidate_for_timestamp(timestamp, candidate.next_offset)
        return None

    def candidate_for_timestamp(self, timestamp: int, start_offset: int = 0) -> Candidate | None:
        """The first batch from `start_offset` on whose header promises a record of `timestamp` or later.  Errors: CorruptBatch, OSError."""
        return self._reader.candidate_for_timestamp(timestamp, max(start_offset, self.log_start_offset))

    def candidate_for_max_timestamp(self) -> Candidate | None:
        """The first batch whose header promises the record with the largest timestamp.  Errors: CorruptBatch, OSError."""
        return self._reader.candidate_for_max_timestamp()

    # ---------------------------------------------------------------- flushing

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on stable storage (exclusive)."""
        return self.durability.recovery_point

    @property
    def truncations(self) -> int:
        """The number of times that the log's past was changed.  Work beside the loop compares this number before and after."""
        return self.durability.truncations

    @property
    def moves(self) -> int:
        """The number of moves of all files to another disk.  A failure on the earlier disk is no failure of this log."""
        return self.durability.moves

    @property
    def is_flushed(self) -> bool:
        return self.durability.recovery_point >= self.log_end_offset

    @property
    def unflushed_records(self) -> int:
        return self.log_end_offset - self.durability.recovery_point

    def begin_flush(self) -> Flush:
        """Begin a flush of everything that is in the log now, and perhaps of appends until the disk is asked."""
        return self.durability.begin(self._segments.active, self.log_end_offset)

    def note_end(self) -> None:
        """Note that new appends may share a flush that has begun and has not asked the disk yet."""
        self.durability.note_end(self._segments.active, self.log_end_offset)

    def end_flush(self, flush: Flush) -> int:
        """Note that `flush.sync` has returned.  Returns the new recovery point."""
        return self.durability.end(flush, may_count=self.failure is None)

    def flush(self) -> int:
        """Do all three steps here and now.  Errors: KafkaError KAFKA_STORAGE_ERROR, and the log is offline."""
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
        """Whether flush.messages or flush.ms is due, or a new start can be noted only after a flush."""
        if self.is_flushed or self.failure is not None:
            return False
        if self.certain_start_offset < self.log_start_offset:
            return True
        config = self.config
        by_time = config.flush_ms != MAX_LONG and now_ms - self.last_flush_ms >= config.flush_ms
        return by_time or self.unflushed_records >= config.flush_messages

    # ---------------------------------------------------------------- removal at the start

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Hide records below `offset`; -1 means up to the high watermark.  Returns the new log start offset.

        Errors: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.raise_log_start_offset(offset)
        return self.log_start_offset

    def raise_log_start_offset(self, offset: int) -> bool:
        """Raise the start to `offset` if that is more; the next `delete_old_segments` deletes files."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        return True

    def apply_retention(self, now_ms: int, *, trusted_now_ms: int | None = None) -> bool:
        """Raise the log's start by retention by size and age; age is counted from `trusted_now_ms`.  Returns whether it moved.

        Errors: OSError.
        """
        config = self.config
        if not config.is_deleted:
            return False
        oldest_ms = now_ms if trusted_now_ms is None else trusted_now_ms
        if self.is_tiered and not config.remote_log_copy_disable:
            # Expiry in remote storage moves the log's start.  Here only local copies of remote records are dropped, and only after a flush:
            # the epochs, by which the rest is found, are on the disk with it.
            wanted = self._passed(now_ms, config.effective_local_retention_bytes, config.effective_local_retention_ms, oldest_ms)
            number = self._segments.number_of(min(wanted, self.copied_offset, self.recovery_point))
            self._local_start_wanted = self._segments.bases[max(number, 0)]
            return False
        start = self._passed(now_ms, config.retention_bytes, config.retention_ms, oldest_ms)
        return start > self._segments.bases[0] and self.raise_log_start_offset(start)

    def _passed(self, now_ms: int, retention_bytes: int, retention_ms: int, oldest_ms: int) -> int:
        """The offset up to which retention deletes segments; the active one is rolled if it is among them."""
        start = passed(
            self._segments,
            retention_bytes=retention_bytes,
            retention_ms=retention_ms,
            oldest_ms=oldest_ms,
            end_offset=self.log_end_offset,
            high_watermark=self.high_watermark,
        )
        active_base = self._segments.active.base_offset
        if start > active_base:
            if not self.files.has_spare_descriptors(for_new_log=False):
                return active_base
            self.roll(now_ms)
        return start

    def drop_below_start(self, now_ms: int, *, is_start_noted: bool = True) -> int:
        """Drop segments that lie wholly below the log's start, and those that the local retention of a tiered log releases.  Note the start
        on the disk first: a crash may bring some segments back.  If a full disk has no room for the note, they are dropped one after the
        other.  Unflushed segments wait for the flush.  Returns the number of dropped segments.  Errors: OSError.
        """
        start = self.certain_start_offset
        if is_start_noted:  # otherwise a crash may bring records back of which the epochs know no more
            try:
                self.epochs.truncate_from_start(start)
            except OSError as error:
                if not is_shortage(error):  # the epochs may know of dropped records, and this makes room
                    raise
        count = self._segments.number_of(max(start, self._local_start_wanted))
        if count <= 0:
            return 0
        going = self.segments[:count]
        if self.is_tiered:
            self._snapshots.note_before(self._segments.bases[count], going, start_offset=self.log_start_offset)
        if is_start_noted and not self.is_tiered:
            self._drop(going, now_ms)
        else:
            # They leave the disk one after the other, too. The noted start does not say how far this has come, and after a crash that had
            # undone some of it in the middle, records would seem to be missing.
            for segment in going:
                self._drop([segment], now_ms)
                self.files.sync_dir(self.directory)
        return count

    def delete_old_segments(self, now_ms: int, *, trusted_now_ms: int | None = None) -> int:
        """Do both steps, for a log without a manager.  Returns the number of dropped segments.  Errors: OSError."""
        self.apply_retention(now_ms, trusted_now_ms=trusted_now_ms)
        return self.drop_below_start(now_ms)

    def _drop(self, segments: list[Segment], now_ms: int) -> None:
        self._segments.drop(segments, now_ms)
        for segment in segments:
            self._snapshots.delete(segment.base_offset)

    def due_segments(self, now_ms: int) -> list[Segment]:
        """The segments that have waited long enough, for `delete_files_of`, which may run in a thread: the log no longer has them."""
        return self._segments.due(now_ms)

    def delete_due_files(self, now_ms: int) -> int:
        """Delete due files here and now.  Returns the number of segments."""
        due = self.due_segments(now_ms)
        count = len(due)
        delete_files_of(due)
        return count

    def replace_segments(self, replaced: tuple[int, ...], swap: Segment, now_ms: int) -> None:
        """Put a compacted segment, which stands beside the log as `.swap`, in place of those with these base offsets.  Errors: OSError."""
        for segment in self._segments.replace(replaced, swap, now_ms)[1:]:
            self._snapshots.delete(segment.base_offset)

    # ---------------------------------------------------------------- removal at the end

    def batch_boundary(self, offset: int) -> int:
        """The start of the batch that holds `offset`; `offset` itself if there is none.  Errors: CorruptBatch, OSError."""
        return self._segments.batch_boundary(offset, self.log_end_offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point before a truncation to `offset`."""
        self.durability.lower_to(offset)

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Let the log end at `offset` at the latest, and with a whole batch.  Lower the recovery-point checkpoint first: see `manager`.
        Returns whether anything was removed.  Errors: CorruptBatch, OSError.
        """
        offset = self.batch_boundary(offset)
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(max(offset, self.log_end_offset))
            return False
        if offset < self._segments.bases[0]:
            # Without local records nothing here tells of the remote ones before them: the log begins as a new one.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset) if self.is_tiered else offset, now_ms)
            return True
        self.durability.past_changed()
        number = self._segments.number_of(offset)
        gone = self.segments[number + 1 :]
        self._segments.cut_after(offset, now_ms)
        for segment in gone:
            self._snapshots.delete(segment.base_offset)
        self._end_at(offset)
        self.epochs.truncate_from_end(offset)
        self._snapshots.delete_above(offset)
        self._snapshots.reload(self.segments, start_offset=self.log_start_offset, end_offset=self.log_end_offset)
        self.producers.high_watermark_moved(self.high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0, log_start_offset: int | None = None) -> None:
        """Remove every record; the next one gets `offset`.  Errors: OSError."""
        self.durability.past_changed()
        self._drop(list(self.segments), now_ms)
        self._segments.start(offset, now_ms)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._end_at(offset)
        self.epochs.clear()
        self._snapshots.delete_above(-1)
        self.producers.clear(offset)

    def begin_after(self, past: Past, now_ms: int, *, log_start_offset: int) -> None:
        """Remove every local record, and go on after the remote segments.  `manager` makes sure that a crash leaves no half of this.

        Errors: OSError.
        """
        assert log_start_offset <= past.end_offset, (log_start_offset, past.end_offset)
        self.truncate_fully_and_start_at(past.end_offset, now_ms, log_start_offset)
        self.update_high_watermark(past.end_offset)
        self.epochs.replace(past.epochs)
        self.producers.restore(past.snapshot, past.end_offset)
        self._snapshots.write(past.end_offset)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.copied_offset = min(self.copied_offset, offset)
        self._local_start_wanted = min(self._local_start_wanted, offset)
        self.durability.recovery_point = min(self.recovery_point, offset)
        self.update_high_watermark(self.high_watermark)

    # ---------------------------------------------------------------- life

    def close(self) -> None:
        """Save and sync everything: a clean start then has nothing to do.  If a full disk has no room for that, the records are synced.

        Errors: OSError, KafkaError KAFKA_STORAGE_ERROR.
        """
        if self.failure is None and not self._is_as_closed:
            active = self._segments.active
            try:
                active.save_indexes()
                self._snapshots.write(self.log_end_offset)
            except OSError:
                self.flush()
                raise
            self.durability.owe_path(active.offset_index.path)
            self.durability.owe_path(active.time_index.path)
            self.flush()
            self._closed_at = self.log_end_offset, self.truncations
        self._segments.close()

    @property
    def _is_as_closed(self) -> bool:
        return self._closed_at == (self.log_end_offset, self.truncations) and self.is_flushed and self.durability.owes_nothing

    def belongs_to(self, topic_id: UUID) -> None:
        """Note the topic's id, durably with the next flush.  Errors: OSError."""
        write_partition_metadata(self.files, self.directory, topic_id)
        self.topic_id = topic_id
        self.durability.owe_path(f"{self.directory}/{PARTITION_METADATA}")
        self.durability.owe_names()

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed."""
        self.directory = directory
        for part in (self.epochs, self.durability, self._segments, self._snapshots):
            part.moved_to(directory)

    def relocated(self, directory: str) -> None:
        """Note that all files are elsewhere now, byte for byte and on stable storage: see `move`.  Readers of the old files read on."""
        self.directory = directory
        self.epochs.moved_to(directory)
        self._snapshots.moved_to(directory)
        self._segments.relocated(directory)
        self.durability.relocated(directory, self.log_end_offset)

    # ---------------------------------------------------------------- failing

    def fail(self, error: OSError) -> None:
        """Take the log offline for good, because its disk cannot be trusted any more."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure(self, error)

    def _write_failed(self, error: OSError, epochs_before: list[EpochEntry]) -> AppendFailure:
        """Remove the torn bytes, and the epochs that came with them.  A disk that is only full has lost nothing and may have room later."""
        self.durability.write_failed()
        self.epochs.not_written(epochs_before)
        active = self._segments.active
        try:
            active.file.truncate(active.size)
        except OSError as second:
            self.fail(second)
        else:
            if not is_shortage(error):
                self.fail(error)
        return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error}")

    def _storage_failure(self) -> AppendFailure:
        return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self.failure}")

    def _list_too_large(self, size: int) -> AppendFailure:
        return AppendFailure(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes in one append exceed the segment size of {self._rules.segment_bytes} bytes"
        )


def _batch_in(view: memoryview, position: int, size: int) -> memoryview:
    return view[position : position + size]


def _writable(records: memoryview | bytearray) -> memoryview | bytearray:
    return bytearray(records) if isinstance(records, memoryview) and records.readonly else records
