"""● Tiered storage at work: this broker copies, reads and expires segments in the object store.

    every remote.log.manager.task.interval.ms, for each tiered partition here
        leader      copy sealed segments ─▶ expire: the log's start moves, durably ─▶ delete segments below it
        follower    note how far copies go: local segments up to there may leave by local retention
    a leader that follows
        its copy breaks off at any point; the next leader finds it in the metadata and deletes it
    a follower that is far behind
        begins after the remote segments (`replication/tier_start.py`), told by `segments_of` and `past`
    for each partition of `__remote_log_metadata` led here
        delete segments of deleted topics

A fetch or a search by time that needs the object store waits beside the loop, for a limited time.
Source: RemoteLogManager, DelayedRemoteFetch, DelayedRemoteListOffsets; KIP-405, 950.  Put together by `server/node`; the publisher tells it
of partitions, handlers of the data plane ask it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, Protocol
from uuid import UUID

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.image import MetadataImage
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.protocol.wire import StoredRecord
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.storage.files import Files
from moldau.storage.log import Past
from moldau.storage.manager import LogManager
from moldau.storage.threads import BlockingThreads
from moldau.storage.tiered.config import RemoteLogConfig, StoreConfig
from moldau.storage.tiered.copier import Elsewhere, SegmentCopier
from moldau.storage.tiered.copy_and_expiry import copied_up_to, expired, first_offset, segments_to_copy
from moldau.storage.tiered.past import read_past
from moldau.storage.tiered.quota import ByteQuota
from moldau.storage.tiered.reader import Busy, RemoteData, RemoteReader
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import PartitionDeletion, RemoteSegment, TopicIdPartition, partition_deletion
from moldau.storage.tiered.store import ObjectStore
from moldau.storage.time_search import TimestampOffset
from moldau.types import REMOTE_LOG_METADATA_TOPIC

LOG: Final = logging.getLogger(__name__)

ThreadsOf = Callable[[int, str], Elsewhere]
"""A function of (count, name) that makes threads with that name.  Their calls wait in line."""


def blocking_threads(count: int, name: str) -> Elsewhere:
    return BlockingThreads(count, name).run


class SegmentMetadata(Protocol):
    """The interface to `__remote_log_metadata`: see `metadata.py`."""

    def start(self, *, is_known: Callable[[], bool]) -> None: ...
    def close(self) -> None: ...
    def hosted(self, partition: Partition) -> None: ...
    def gone(self, number: int) -> None: ...
    async def loaded(self, where: TopicIdPartition) -> RemoteLog: ...
    def of(self, where: TopicIdPartition) -> RemoteLog: ...
    def led(self) -> Iterator[RemoteLog]: ...
    async def append(self, record: StoredRecord) -> bool: ...


class RemoteLogManager:
    """See the module.  `start` once, `stop` once."""

    def __init__(
        self,
        *,
        local_id: int,
        limits: RemoteLogConfig,
        options: StoreConfig,
        store: ObjectStore,
        metadata: SegmentMetadata,
        files: Files,
        clock: Clock,
        logs: LogManager,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        new_id: Callable[[], UUID],
        checkpoint: Callable[[], Awaitable[None]],
        threads_of: ThreadsOf = blocking_threads,
    ) -> None:
        """`limits`: the broker's options; `checkpoint` notes log starts on the disk."""
        self.metadata: Final = metadata
        self._local_id: Final = local_id
        self.limits = limits
        self._clock: Final = clock
        self._logs: Final = logs
        self._replicas: Final = replicas
        self._image: Final = image
        self._checkpoint: Final = checkpoint
        self._store: Final = store
        self._threads_of: Final = threads_of
        self._writing = threads_of(limits.copier_threads + limits.expiration_threads, "remote-copy")
        self._reading = threads_of(limits.reader_threads, "remote-read")
        self._copies = asyncio.Semaphore(limits.copier_threads)
        self._deletions = asyncio.Semaphore(limits.expiration_threads)
        self._quota: Final = ByteQuota()
        self.copier: Final = SegmentCopier(
            files=files,
            store=store,
            metadata=metadata,
            clock=clock,
            broker_id=local_id,
            new_id=new_id,
            elsewhere=self._write,
        )
        self.reader: Final = RemoteReader(store=store, options=options, limits=lambda: self.limits, clock=clock, elsewhere=self._read)
        self._tasks: Final[dict[TopicIdPartition, asyncio.Task[None]]] = {}
        self._others: Final[set[asyncio.Task[None]]] = set()
        self._orphans: set[TopicIdPartition] = set()
        self._deleting: Final[set[TopicIdPartition]] = set()

    # ---------------------------------------------------------------- called by the publisher

    def start(self) -> None:
        self.metadata.start(is_known=lambda: REMOTE_LOG_METADATA_TOPIC in self._image().topics)
        self._spawn(self._clean_up())

    async def stop(self) -> None:
        self.copier.stop()
        tasks = [*self._tasks.values(), *self._others]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.metadata.close()
        await self.reader.stop()

    async def _write(self, *call: Any) -> Any:
        return await self._writing(*call)

    async def _read(self, *call: Any) -> Any:
        return await self._reading(*call)

    def configure(self, limits: RemoteLogConfig) -> None:
        """Take options; work under way ends under the old ones."""
        before, self.limits = self.limits, limits
        if (limits.copier_threads, limits.expiration_threads) != (before.copier_threads, before.expiration_threads):
            self._copies = asyncio.Semaphore(limits.copier_threads)
            self._deletions = asyncio.Semaphore(limits.expiration_threads)
            self._writing = self._threads_of(limits.copier_threads + limits.expiration_threads, "remote-copy")
        if limits.reader_threads != before.reader_threads:
            self._reading = self._threads_of(limits.reader_threads, "remote-read")
        self.reader.configure()

    def leadership_changed(self, partition: Partition) -> None:
        """Note that a partition here has another role or leader epoch."""
        if partition.topic_partition.topic == REMOTE_LOG_METADATA_TOPIC:
            self.metadata.hosted(partition)
        else:
            if not partition.is_leader:
                self._break_off(partition)
            self.hosted(partition)

    def hosted(self, partition: Partition) -> None:
        """Note that a partition is here, perhaps with new options."""
        if partition.log.is_tiered:
            where = _where(partition)
            if where not in self._tasks:
                self._tasks[where] = in_background(self._keep(where, partition), name=f"tier {where}")

    def removed(self, partition: Partition) -> None:
        """Note that a partition is here no more."""
        if partition.topic_partition.topic == REMOTE_LOG_METADATA_TOPIC:
            self.metadata.gone(partition.topic_partition.partition)
        self._break_off(partition)

    def _break_off(self, partition: Partition) -> None:
        task = self._tasks.pop(_where(partition), None)
        if task is not None:
            task.cancel()

    def topics_deleted(self, image: MetadataImage) -> None:
        """Delete the remote segments of deleted topics at once."""
        for remote in self.metadata.led():
            if remote.segments and remote.where.topic_id not in image.topic_names:
                self._spawn(self._delete_partition(remote))

    # ---------------------------------------------------------------- called by handlers

    async def read(
        self, partition: Partition, offset: int, max_bytes: int, *, min_one_batch: bool, with_aborted: bool
    ) -> RemoteData | ErrorCode:
        """Read remote records.  Nothing if too many reads wait already.  Errors: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""
        try:
            remote = await self.metadata.loaded(_where(partition))
            return await self.reader.read(
                partition.log,
                remote,
                offset,
                max_bytes,
                min_one_batch=min_one_batch,
                with_aborted=with_aborted,
            )
        except Busy:
            return RemoteData(memoryview(b""))
        except (KafkaError, OSError, CorruptBatch):
            return ErrorCode.KAFKA_STORAGE_ERROR  # the reader has logged the reason

    async def find_timestamp(self, partition: Partition, timestamp: int) -> TimestampOffset | ErrorCode | None:
        """Search a timestamp in remote storage only.  Errors: KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT."""
        try:
            async with asyncio.timeout(self.limits.list_offsets_timeout_ms / 1000):
                remote = await self.metadata.loaded(_where(partition))
                return await self.reader.find_timestamp(partition.log, remote, timestamp)
        except (TimeoutError, Busy):
            return ErrorCode.REQUEST_TIMED_OUT
        except (KafkaError, OSError, CorruptBatch):
            return ErrorCode.KAFKA_STORAGE_ERROR

    # ---------------------------------------------------------------- called by a follower that begins after remote storage

    async def segments_of(self, partition: Partition) -> RemoteLog:
        """The remote segments of a partition.  Errors: KafkaError while the metadata is not here."""
        return await self.metadata.loaded(_where(partition))

    async def past(self, segment: RemoteSegment) -> Past:
        """The past of a segment.  Errors: UnusablePast, OSError of the store."""
        past: Past = await self._reading(read_past, self._store, segment)
        return past

    @property
    def fetch_max_wait_ms(self) -> int:
        return self.limits.fetch_max_wait_ms

    # ---------------------------------------------------------------- one partition

    async def _keep(self, where: TopicIdPartition, partition: Partition) -> None:
        """Look after a partition as long as it is here."""
        has_swept = False
        while True:
            if await self._attempt(where, self._catch_up(where, partition)):
                if partition.is_leader and partition.log.is_tiered:
                    remote = self.metadata.of(where)
                    has_swept = has_swept or await self._attempt(where, self.copier.sweep(remote))
                    # Each step runs by itself: a full store takes no copies, and has room again when segments expire.
                    await self._attempt(where, self._copy(where, partition, remote))
                    await self._attempt(where, self._expire(partition, remote))
                else:
                    has_swept = False
            self.reader.tick()
            await asyncio.sleep(self.limits.task_interval_ms / 1000)

    async def _attempt(self, where: TopicIdPartition, work: Coroutine[Any, Any, object]) -> bool:
        """Whether a step came to its end; if not, it is tried again at the next interval."""
        try:
            await work
        except KafkaError as error:
            LOG.info("%s waits for its metadata: %s", where, error)
        except OSError as error:
            LOG.warning("%s is tried again in %d ms: %s", where, self.limits.task_interval_ms, error)
        except Exception:
            LOG.exception("%s is tried again in %d ms", where, self.limits.task_interval_ms)
        else:
            return True
        return False

    async def _catch_up(self, where: TopicIdPartition, partition: Partition) -> None:
        """Wait for the metadata of a partition.  Errors: KafkaError where the metadata is not here."""
        remote = await self.metadata.loaded(where)
        self._note_copied(partition, remote)
        if partition.is_leader and partition.log.is_tiered:
            self._restore_start(partition, remote)

    def _note_copied(self, partition: Partition, remote: RemoteLog) -> None:
        partition.log.copied_offset = copied_up_to(partition.log, remote) if partition.log.is_tiered else 0

    def _restore_start(self, partition: Partition, remote: RemoteLog) -> None:
        """Move the log's start past segments that another leader let expire: its followers may not have heard of it."""
        partition.log.raise_log_start_offset(first_offset(partition.log, remote))

    async def _copy(self, where: TopicIdPartition, partition: Partition, remote: RemoteLog) -> None:
        """Copy sealed segments.  Errors: OSError of the object store or the disk, KafkaError of the metadata."""
        log = partition.log
        if log.config.remote_log_copy_disable:
            return
        for candidate in segments_to_copy(log, max(log.copied_offset, log.log_start_offset)):
            async with self._copies:
                wait_ms = self._quota.take(candidate.segment.size, self.limits.copy_max_bytes_per_second, self._clock.monotonic_ms())
                if wait_ms:
                    await asyncio.sleep(wait_ms / 1000)
                if not partition.is_leader or log.failure is not None or candidate.segment not in log.segments:
                    return
                if candidate.next_offset <= log.copied_offset:
                    continue  # the former leader has finished it meanwhile
                is_copied = await self.copier.copy(log, where, candidate)
            self._note_copied(partition, remote)
            if not is_copied:
                return
            LOG.debug("%s is copied up to offset %d", where, log.copied_offset)

    async def _expire(self, partition: Partition, remote: RemoteLog) -> None:
        """Expire segments.  Errors: as `_copy`."""
        log = partition.log
        if not partition.is_leader:
            return
        now_ms = self._logs.trusted_now_ms(self._clock.now_ms(), self._clock.monotonic_ms())
        start, segments = expired(log, remote, now_ms=now_ms, copying=self.copier.copying)
        if log.raise_log_start_offset(start):
            await self._checkpoint()
        if log.failure is None and partition.is_leader:
            await self._delete_all(segments)

    async def _delete_all(self, segments: list[RemoteSegment]) -> None:
        for segment in segments:
            async with self._deletions:
                await self.copier.delete(segment)

    # ---------------------------------------------------------------- deleted topics

    async def _clean_up(self) -> None:
        """Delete segments that can be read no more: of topics that were deleted while no broker could delete them here, or that are not
        tiered any more.

        A topic counts as deleted when it stays unknown for a whole interval: its metadata may just not have come here yet.
        """
        while True:
            await asyncio.sleep(self.limits.task_interval_ms / 1000)
            unknown = {remote.where: remote for remote in self.metadata.led() if remote.where.topic_id not in self._image().topic_names}
            for where, remote in unknown.items():
                if where in self._orphans and remote.segments:
                    await self._delete_partition(remote)
            self._orphans = set(unknown)
            for remote in self.metadata.led():
                partition = self._replicas.hosted.get(remote.where.topic_partition)
                if remote.segments and partition is not None and _where(partition) == remote.where and _is_switched_off(partition):
                    await self._delete_partition(remote)

    async def _delete_partition(self, remote: RemoteLog) -> None:
        if remote.where in self._deleting:
            return
        self._deleting.add(remote.where)
        try:
            for state in (PartitionDeletion.MARKED, PartitionDeletion.STARTED):
                await self._tell_deletion(remote, state)
            await self._delete_all([segment for segment in remote.segments.values() if segment.id not in self.copier.copying])
            if not remote.segments:
                await self._tell_deletion(remote, PartitionDeletion.FINISHED)
            LOG.info("%s is gone from remote storage", remote.where)
        except (KafkaError, OSError) as error:
            LOG.warning("the deletion of %s from remote storage is tried again: %s", remote.where, error)
        finally:
            self._deleting.discard(remote.where)

    async def _tell_deletion(self, remote: RemoteLog, state: PartitionDeletion) -> None:
        await self.metadata.append(partition_deletion(remote.where, state, broker_id=self._local_id, now_ms=self._clock.now_ms()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = in_background(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)


def _is_switched_off(partition: Partition) -> bool:
    log = partition.log
    return partition.is_leader and not log.is_tiered and log.config.remote_log_delete_on_disable


def _where(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.topic_partition.topic, partition.topic_partition.partition)
