"""◇ One partition's log: segments, what is known of their producers and leader epochs, and the offsets that say who may see how far.

    log_start_offset ≤ … ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset        recovery_point: everything below is on stable storage
          local_log_start_offset: what lies before is in remote storage only (see `tiered`)

Guarantees:

- Offsets are given once, without gaps by a leader; a batch is in the log whole or not at all.
- What a client appends again (idempotence) is answered with its old offset and not stored twice.
- `recovery_point` moves only after a sync that covered everything below it; after a failed sync it never moves again and
  the log refuses to work.
- Reading hands out `FileSlice`s; they stay readable whatever happens to the log afterwards.

    log_core          segments, offsets, rolling, failing         log_reading       records and offsets for readers
    log_values        what it is asked and answers with           log_shortening    retention, DeleteRecords, truncation, compaction
    log (here)        opening, appending, flushing, closing

Time is an argument, files are an argument, nothing here waits.  `flush` is in three steps so that the shell can run the middle one
elsewhere: `begin_flush` (what to sync), `Flush.sync` (blocks, touches nothing of the log), `end_flush` (installs the result).
Source: UnifiedLog, LocalLog; KIP-98, KIP-101, KIP-279.  Called by replication, coordinators, the raft driver.
"""

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
    patch_max_timestamp_log_append,
    read_header,
    verify_crc,
)
from moldau.storage.checkpoints import PARTITION_METADATA, write_partition_metadata
from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.log_reading import LogReading
from moldau.storage.log_shortening import LogShortening
from moldau.storage.log_values import NO_OFFSET, AppendResult, FetchData, Flush, Past, ProducerStatus, sync_path
from moldau.storage.producer_state import (
    AppendOrigin,
    VerificationGuard,
)
from moldau.storage.recovery import RecoveryProgress, load_log
from moldau.storage.replay import read_marker, replay_producer
from moldau.storage.segment import Segment
from moldau.storage.validator import (
    AppendFailure,
    Examined,
    Unexamined,
    check_client_batch,
    examine_if_light,
    too_large,
    wants_examination,
)
from moldau.types import TopicPartition

__all__ = ["AppendResult", "FetchData", "Flush", "Log", "Past", "ProducerStatus", "sync_path"]

_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")


class Log(LogReading, LogShortening):
    """See the module.  Made by `Log.open`."""

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

        `examined`: what `validator.examine` found of a batch that came back Unexamined; it comes back again if the rules have changed.
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
                return AppendFailure(*refusal)
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
        """From the broker itself: one or more batches that need no suspicion, markers among them.

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

    # ---------------------------------------------------------------- flushing

    @property
    def is_flushed(self) -> bool:
        return self.recovery_point >= self.log_end_offset

    @property
    def unflushed_records(self) -> int:
        return self.log_end_offset - self.recovery_point

    def begin_flush(self) -> Flush:
        """What must be synced for everything that is in the log now, and perhaps what is appended until the disk is asked."""
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
            end_of_file=partial(self._end_within, self._active),
            truncations=self.truncations,
            moves=self.moves,
        )

    def _end_within(self, segment: Segment) -> int:
        """On any thread."""
        end_offset = self.log_end_offset  # first: a roll makes the new segment before it moves the end
        return end_offset if segment is self._active else NO_OFFSET

    def end_flush(self, flush: Flush) -> int:
        """`flush.sync` has returned.  The new recovery point."""
        self._is_named = True
        if flush.truncations != self.truncations:
            return self.recovery_point  # a segment that was sealed may have been written to, and sealed again, since it was synced
        done = set(map(id, flush.sealed))
        self._unsynced = [segment for segment in self._unsynced if id(segment) not in done]
        if flush.upto > self.recovery_point and self.failure is None:
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

    # ---------------------------------------------------------------- life

    def close(self) -> None:
        """Everything saved and synced: a clean start finds nothing to do.  Errors: KafkaError KAFKA_STORAGE_ERROR."""
        if self.failure is None and not self._is_as_closed:
            self._active.save_indexes()
            self._write_snapshot(self.log_end_offset)
            self._unsynced_paths += [self._active.offset_index.path, self._active.time_index.path]
            self.flush()
            self._closed_at = self.log_end_offset, self.truncations
        for segment in self.segments:
            segment.close()

    @property
    def _is_as_closed(self) -> bool:
        is_changed = self._names_changed or self._unsynced_paths or self._unsynced
        return self._closed_at == (self.log_end_offset, self.truncations) and self.is_flushed and not is_changed

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


def _batch_in(view: memoryview, position: int, size: int) -> memoryview:
    return view[position : position + size]


def _writable(records: memoryview | bytearray) -> memoryview | bytearray:
    return bytearray(records) if isinstance(records, memoryview) and records.readonly else records
