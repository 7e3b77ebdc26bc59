"""● The log of one internal partition, for its coordinator.  The records of one turn of the loop become one batch.

    decide ─▶ append ─▶ gathered ──the turn is over, or another append comes──▶ one batch in the log ──sync──▶ acknowledged

A client has several requests on the way, and a packet brings them together: one batch for all of them costs a fraction of one each.
Gathered records have their offsets already, so `Partition.before_append` keeps other appends from coming in between.  Records of a
transaction and large ones are written at once: only they can be refused for their content, and their sender must be told.  If gathered
records are refused the machine is ahead of its log, and its shard is dropped.

Source: CoordinatorRuntime (its batches, group.coordinator.append.linger.ms).  Made by `topic.py`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.coordinator.outcome import CoordinatorRecord, ProducerIdAndEpoch
from moldau.errors import ErrorCode
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.stored import KeyedRecords
from moldau.protocol.wire import EncodeError, StoredRecord
from moldau.replication.partition import ALL_IN_SYNC, Partition
from moldau.replication.waits import ProduceWait
from moldau.storage.producers.state import AppendOrigin, VerificationGuard
from moldau.storage.validator import AppendFailure

LOG: Final = logging.getLogger(__name__)

GATHERED_BYTES: Final = 64 * 1024
"""This many bytes are written without waiting for the turn's end."""
RECORD_OVERHEAD: Final = 32
"""The most bytes of a record beside its key and value."""


class RecordFormat(NamedTuple):
    """The records of an internal topic, and the version in which each value is written."""

    records: KeyedRecords
    version_of: Callable[[StoredRecord], int]
    codec: Codec = Codec.NONE


class Slot:
    """The place in which a partition writes the outcome of one append."""

    __slots__ = ("error_code",)

    def __init__(self) -> None:
        self.error_code = 0


class PartitionLog:
    """See the module; a `runtime.PartitionWriter`."""

    def __init__(
        self, partition: Partition, record_format: RecordFormat, *, on_acknowledged: Callable[[], None], on_lost: Callable[[], None]
    ) -> None:
        """`on_acknowledged`: an append can no longer be lost, or its partition has given up.

        `on_lost`: gathered records that counted as appended were refused.
        """
        self.partition: Final = partition
        self._format: Final = record_format
        self._on_acknowledged: Final = on_acknowledged
        self._on_lost: Final = on_lost
        self._loop: Final = asyncio.get_running_loop()
        self._gathered: list[NewRecord] = []
        self._gathered_bytes = 0
        self._is_end_of_turn_due = False

    @property
    def end_offset(self) -> int:
        return self.partition.log.log_end_offset + len(self._gathered)

    @property
    def committed_offset(self) -> int:
        return self.partition.acknowledged_offset

    # hot: 8 µs a record, with its encoding
    def append(
        self, records: list[CoordinatorRecord], producer: ProducerIdAndEpoch | None, guard: object | None, now_ms: int
    ) -> int | ErrorCode:
        """Append records.  Errors: those of `Partition.append`; MESSAGE_TOO_LARGE for a field longer than its record can hold."""
        try:
            encoded, size = self._encoded(records, now_ms)
        except EncodeError as error:
            LOG.warning("%s: %d records were not written: %s", self.partition.topic_partition, len(records), error)
            return ErrorCode.MESSAGE_TOO_LARGE
        config = self.partition.log.config
        # Half of the allowed size, because a codec may make records larger.
        at_most = min(GATHERED_BYTES, config.max_message_bytes // 2, config.segment_bytes // 2)
        if self._gathered and (producer is not None or self._gathered_bytes + size > at_most):
            code = self._write_gathered()
            if code is not ErrorCode.NONE:
                return code
        if producer is not None or size > at_most:
            assert guard is None or isinstance(guard, VerificationGuard)
            return self._write(encoded, producer, guard)
        if not self._gathered:
            self.partition.before_append = self._write_gathered
            if not self._is_end_of_turn_due:
                self._is_end_of_turn_due = True
                self._loop.call_soon(self._turn_is_over)
        self._gathered += encoded
        self._gathered_bytes += size
        return self.end_offset

    def watch(self, end_offset: int) -> None:
        if end_offset > self.partition.acknowledged_offset:
            self.partition.await_acknowledgement(end_offset, ProduceWait(self._on_acknowledged), Slot())

    def drop(self) -> None:
        """Drop the gathered records, because this broker leads the partition no more.  They were never acknowledged."""
        if self._gathered:
            self._gathered, self._gathered_bytes = [], 0
            self.partition.before_append = None

    def _turn_is_over(self) -> None:
        self._is_end_of_turn_due = False
        self._write_gathered()

    def _write_gathered(self) -> ErrorCode:
        if not self._gathered:
            return ErrorCode.NONE
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self.partition.before_append = None
        written = self._write(gathered, None, None)
        if isinstance(written, ErrorCode):
            self._on_lost()
            return written
        if written <= self.partition.acknowledged_offset:
            # No request waits for these records any more.
            self._on_acknowledged()
        return ErrorCode.NONE

    def _write(self, records: list[NewRecord], producer: ProducerIdAndEpoch | None, guard: VerificationGuard | None) -> int | ErrorCode:
        batch = build_batch(
            records,
            producer_id=producer.producer_id if producer is not None else -1,
            producer_epoch=producer.epoch if producer is not None else -1,
            is_transactional=producer is not None,
            codec=self._format.codec,
        )
        now_ms = records[-1].timestamp
        result = self.partition.append(batch, acks=ALL_IN_SYNC, now_ms=now_ms, origin=AppendOrigin.COORDINATOR, guard=guard)
        if isinstance(result, AppendFailure):
            LOG.warning("%s: %d records were not written: %s", self.partition.topic_partition, len(records), result.detail)
            return result.error
        end_offset = result.last_offset + 1
        self.watch(end_offset)
        return end_offset

    def _encoded(self, records: list[CoordinatorRecord], now_ms: int) -> tuple[list[NewRecord], int]:
        """The records as a batch, and the most bytes that it will have."""
        keyed, version_of, _ = self._format
        encoded, size = [], RECORD_OVERHEAD * len(records)
        for key, value in records:
            key_bytes = keyed.encode_key(key)
            value_bytes = None if value is None else keyed.encode_value(value, version_of(value))
            size += len(key_bytes) + len(value_bytes or b"")
            encoded.append(NewRecord(now_ms, key_bytes, value_bytes))
        return encoded, size
