"""● `__remote_log_metadata` on this broker: its partitions that live here, read into a `RemoteLog` for each tiered partition, and written.

    append ─▶ the partition's log ─ acknowledged (in sync, on stable storage) ─▶ replayed here ─▶ whether it was taken

Everything is decided by the order of its records, so a writer learns from the reader what became of what it wrote.  Nothing is replayed
that could still be lost.  Kafka's own brokers read and write the same records (`storage/tiered/records.py`).
Source: TopicBasedRemoteLogMetadataManager, ConsumerTask, RemotePartitionMetadataStore; KIP-405.  Owned by `manager.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import BatchHeader, batches, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.protocol.stored import Data
from moldau.protocol.wire import DecodeError, StoredRecord
from moldau.replication.partition import ALL_IN_SYNC, Isolation, Partition
from moldau.replication.waits import FetchWait, ProduceWait
from moldau.server.coordinators.log import Slot
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.tiered.config import MetadataTopicConfig
from moldau.storage.tiered.records import REMOTE_LOG_RECORDS
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import TopicIdPartition, where_of
from moldau.storage.validator import AppendFailure
from moldau.types import REMOTE_LOG_METADATA_TOPIC

LOG: Final = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20
"""The bytes that are replayed at once; the loop serves others between two reads."""
CREATE_AGAIN_S: Final = 5.0

CreateTopic = Callable[[str, int, int, dict[str, str]], Awaitable[None]]


class _Reader:
    """The reader of one partition of the topic, from its start to its end and on."""

    def __init__(self, partition: Partition, replay: Callable[[StoredRecord], bool]) -> None:
        self.partition: Final = partition
        self.loaded: Final = asyncio.Event()
        self.next_offset = partition.log.log_start_offset
        self._replay: Final = replay
        self._load_until = partition.log.log_end_offset
        self._waiting: Final[dict[int, asyncio.Future[bool]]] = {}
        self._task: Final = in_background(self._run(), name=f"read {partition.topic_partition}")

    def stop(self, code: ErrorCode) -> None:
        """Stop reading.

        A waiting writer does not learn the outcome of its record; a caller that waits for all records asks the next reader.
        """
        self._task.cancel()
        self.loaded.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(KafkaError(code))
        self._waiting.clear()

    async def replayed(self, offset: int) -> bool:
        """Wait until the record at `offset` is replayed.

        Returns whether it was taken.  Errors: KafkaError when this broker does not find out.
        """
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[offset] = waiting
        return await waiting

    async def _run(self) -> None:
        try:
            while self.partition.log.failure is None:
                end = self._end()
                while self.next_offset < end:
                    self._read(end)
                    await asyncio.sleep(0)
                # A follower without news of its leader knows too little: records that look gone may have been copied since.
                if self.next_offset >= self._load_until and (self.partition.is_leader or self.partition.has_caught_up):
                    self.loaded.set()
                await self._growth()
        except CorruptBatch as reason:
            LOG.error("%s cannot be read on, nothing more is copied or expired by it: %s", self.partition.topic_partition, reason)

    def _end(self) -> int:
        partition = self.partition
        return partition.acknowledged_offset if partition.is_leader else partition.log.high_watermark

    def _read(self, end: int) -> None:
        data = self.partition.log.read(self.next_offset, READ_BYTES, limit_offset=end)
        if isinstance(data, ErrorCode):
            raise CorruptBatch(f"offset {self.next_offset} cannot be read: {data.name}")
        view = memoryview(data.records.read() if data.records is not None else b"")
        for position, header in batches(view):
            if not header.is_control:
                self._read_batch(header, view[position : position + header.size])
            self.next_offset = max(self.next_offset, header.next_offset)

    def _read_batch(self, header: BatchHeader, batch: memoryview) -> None:
        """Read a batch.  Errors: CorruptBatch, unless it was written like that: then it is a client's."""
        try:
            records = list(records_of(batch))
        except CorruptBatch as reason:
            if not verify_crc(batch, 0, header):
                raise
            LOG.warning("%s: the batch at offset %d is ignored: %s", self.partition.topic_partition, header.base_offset, reason)
            return
        for record in records:
            taken = self._taken(record.offset, record.value or b"")
            waiting = self._waiting.pop(record.offset, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(taken)

    def _taken(self, offset: int, value: Data) -> bool:
        """Replay a record.  Clients may write to the topic, too; every broker passes over their records."""
        try:
            return self._replay(REMOTE_LOG_RECORDS.decode(value))
        except (DecodeError, ValueError) as reason:
            LOG.warning("%s: the record at offset %d is ignored: %s", self.partition.topic_partition, offset, reason)
            return False

    async def _growth(self) -> None:
        """Wait until there may be more to read: new commits, a sync of committed records, or another leader."""
        partition, grown = self.partition, asyncio.Event()
        if partition.is_leader and self.next_offset < partition.log.log_end_offset:
            if partition.await_acknowledgement(self.next_offset + 1, ProduceWait(grown.set), Slot()):
                return
            await grown.wait()
            return
        wait = FetchWait(1, grown.set)
        partition.park_fetch(wait, self.next_offset, Isolation.HIGH_WATERMARK, max_bytes=1, available_bytes=0)
        try:
            await grown.wait()
        finally:
            partition.unpark_fetch(wait)


class RemoteMetadata:
    """See the module."""

    def __init__(self, config: MetadataTopicConfig, clock: Clock, create_topic: CreateTopic) -> None:
        self.config: Final = config
        self.remote_logs: Final[dict[TopicIdPartition, RemoteLog]] = {}
        self._clock: Final = clock
        self._create_topic: Final = create_topic
        self._readers: Final[dict[int, _Reader]] = {}
        self._creating: asyncio.Task[None] | None = None

    def start(self, *, is_known: Callable[[], bool]) -> None:
        """Start, and create the topic if it is missing."""
        self._creating = in_background(self._create(is_known), name="create remote log metadata")

    def close(self) -> None:
        if self._creating is not None:
            self._creating.cancel()
        for number in list(self._readers):
            self.gone(number)

    def hosted(self, partition: Partition) -> None:
        """Note that a partition of the topic is here, or has another leader epoch."""
        number = partition.topic_partition.partition
        reader = self._readers.get(number)
        if reader is not None:
            reader.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            following = _Reader(partition, self._replay)
            following.next_offset = max(reader.next_offset, partition.log.log_start_offset)
            self._readers[number] = following
        else:
            self._readers[number] = _Reader(partition, self._replay)

    def gone(self, number: int) -> None:
        """Note that a partition of the topic is here no more."""
        reader = self._readers.pop(number, None)
        if reader is not None:
            reader.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            for where in [where for where in self.remote_logs if self._number_of(where) == number]:
                del self.remote_logs[where]

    async def loaded(self, where: TopicIdPartition) -> RemoteLog:
        """The remote log of `where`, once all earlier records are replayed.  Errors: KafkaError where its partition is not here."""
        number = self._number_of(where)
        while True:
            reader = self._readers.get(number)
            if reader is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {number} of {REMOTE_LOG_METADATA_TOPIC} is not here")
            await reader.loaded.wait()
            if self._readers.get(number) is reader:
                return self.of(where)

    def of(self, where: TopicIdPartition) -> RemoteLog:
        """The remote log of `where` as replayed so far."""
        remote = self.remote_logs.get(where)
        if remote is None:
            remote = self.remote_logs[where] = RemoteLog(where)
        return remote

    def led(self) -> Iterator[RemoteLog]:
        """The partitions whose metadata this broker leads, and has read."""
        for where, remote in list(self.remote_logs.items()):
            reader = self._readers.get(self._number_of(where))
            if reader is not None and reader.partition.is_leader and reader.loaded.is_set():
                yield remote

    async def append(self, record: StoredRecord) -> bool:
        """Append a record; returns when it is durable and replayed, and whether it was taken.  Errors: KafkaError."""
        reader = self._readers.get(self._number_of(where_of(record)))
        if reader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{REMOTE_LOG_METADATA_TOPIC} is not led here")
        batch = build_batch([NewRecord(self._clock.now_ms(), None, REMOTE_LOG_RECORDS.encode(record))])
        result = reader.partition.append(batch, acks=ALL_IN_SYNC, now_ms=self._clock.now_ms(), origin=AppendOrigin.COORDINATOR)
        if isinstance(result, AppendFailure):
            raise KafkaError(result.error, result.detail)
        return await reader.replayed(result.last_offset)

    def _replay(self, record: StoredRecord) -> bool:
        return self.of(where_of(record)).replay(record)

    def _number_of(self, where: TopicIdPartition) -> int:
        return where.metadata_partition(self.config.partition_count)

    async def _create(self, is_known: Callable[[], bool]) -> None:
        configs = {"cleanup.policy": "delete", "retention.ms": str(self.config.retention_ms), "remote.storage.enable": "false"}
        while not is_known():
            try:
                await self._create_topic(REMOTE_LOG_METADATA_TOPIC, self.config.partition_count, self.config.replication_factor, configs)
            except KafkaError as error:
                LOG.warning(
                    "%s could not be created, nothing is copied before it is: %s (replicas are set by "
                    "rlmm.config.remote.log.metadata.topic.replication.factor)",
                    REMOTE_LOG_METADATA_TOPIC,
                    error,
                )
                await asyncio.sleep(CREATE_AGAIN_S)
            else:
                return
