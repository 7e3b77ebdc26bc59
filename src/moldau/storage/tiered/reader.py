"""● Reads remote segments: chunk by chunk into a bounded cache, some ahead of each reader, never on the loop.

    offset ─ lineage ─▶ segment ─ .index ─▶ position ─ chunks ─▶ the batch that holds the offset, and what follows it in its chunk

A chunk is asked of the object store once however many wait for it, and stays wanted when they give up: a reader that came too early finds
it there the next time.  At most `reader_threads` reads run at a time and `reader_max_pending` wait; beyond that nobody gets in.
Indexes are not trusted: what one says of a batch is held against the batch.
Source: RemoteLogManager.read, findOffsetByTimestamp, RemoteIndexCache, DelayedRemoteFetch; KIP-405.  Called by `server/tier/manager.py`.
"""

import asyncio
import logging
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import ErrorCode
from moldau.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, batches, read_header
from moldau.storage.index import AbortedTransaction
from moldau.storage.log import Log
from moldau.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.storage.tiered.cache import ByteCache
from moldau.storage.tiered.config import RemoteLogConfig, StoreConfig
from moldau.storage.tiered.copier import Elsewhere
from moldau.storage.tiered.objects import (
    aborted_between,
    aborted_in,
    last_offset_and_position,
    object_name,
    offset_at_or_after,
    timestamp_and_offset,
)
from moldau.storage.tiered.quota import ByteQuota
from moldau.storage.tiered.remote_log import RemoteLog, filtered, is_within, shared_end
from moldau.storage.tiered.segments import RemoteSegment
from moldau.storage.tiered.store import ObjectStore
from moldau.storage.time_search import TimestampOffset, first_record_at_or_after

TOLD: Final = logging.getLogger(__name__)

_BOUNDS: Final = Struct(">qi11xi")  # base offset, length, 11 bytes of no interest here, last offset delta

ChunkKey = tuple[UUID, int]
IndexKey = tuple[UUID, str]
K = TypeVar("K", ChunkKey, IndexKey)


class Busy(Exception):
    """Too many reads wait already, so no other is taken."""


class RemoteData(NamedTuple):
    """Whole batches, but for the last, which may be cut.  `aborted` when it was asked for."""

    records: memoryview
    aborted: tuple[AbortedTransaction, ...] = ()


class RemoteReader:
    """See the module.  One for each node."""

    def __init__(
        self, *, store: ObjectStore, options: StoreConfig, limits: Callable[[], RemoteLogConfig], clock: Clock, elsewhere: Elsewhere
    ) -> None:
        """`limits` are the broker's options as they hold now."""
        self.chunks: Final[ByteCache[ChunkKey]] = ByteCache(options.cache_size)
        self.indexes: Final[ByteCache[IndexKey]] = ByteCache(limits().index_cache_bytes)
        self._store: Final = store
        self._options: Final = options
        self._limits: Final = limits
        self._clock: Final = clock
        self._elsewhere: Final = elsewhere
        self._quota: Final = ByteQuota()
        self._thread_count = limits().reader_threads
        self._slots = asyncio.Semaphore(self._thread_count)
        self._loading: Final[dict[ChunkKey | IndexKey, asyncio.Task[memoryview]]] = {}

    # Records

    async def read(
        self, log: Log, remote: RemoteLog, offset: int, max_bytes: int, *, min_one_batch: bool, with_aborted: bool
    ) -> RemoteData | ErrorCode:
        """Read from the batch that holds `offset` on, about `max_bytes`.  With `min_one_batch` the first batch comes whole, however large
        it is.

        Errors: OFFSET_OUT_OF_RANGE when no remote segment holds it; OSError of the store; Busy.
        """
        lineage = log.epochs.entries
        segment = remote.find_in(lineage, offset)
        found = None if segment is None or offset < log.log_start_offset else await self._find(segment, offset)
        if segment is None or found is None:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        position, first_size = found
        if first_size > max_bytes and not min_one_batch:
            return RemoteData(memoryview(b""))
        records = await self._bytes(segment, position, self._size_at(segment, position, first_size, max_bytes))
        if not is_within(segment, filtered(lineage), log.log_end_offset):
            records = _cut_at_fork(records, log)
        end_position = position + len(records)
        self._read_ahead(log, remote, segment, end_position)
        return RemoteData(records, await self._aborted(log, remote, segment, offset, end_position) if with_aborted else ())

    def _size_at(self, segment: RemoteSegment, position: int, first_size: int, max_bytes: int) -> int:
        """Not beyond the chunk in which the first batch ends: what has to be joined has to be copied."""
        chunk_size = self._options.chunk_size
        chunk_end = -(-(position + first_size) // chunk_size) * chunk_size
        return min(max(first_size, max_bytes), chunk_end - position, segment.size - position)

    async def _find(self, segment: RemoteSegment, offset: int) -> tuple[int, int] | None:
        """Position and size of the first batch whose last offset is `offset` or more."""
        position = await self._indexed_position(segment, offset)
        while position + _BOUNDS.size <= segment.size:
            base_offset, length, last_offset_delta = _BOUNDS.unpack(await self._bytes(segment, position, _BOUNDS.size))
            size = length + LOG_OVERHEAD
            if length <= 0 or position + size > segment.size:
                raise OSError(f"{object_name(segment, LOG_SUFFIX)} holds no batch at byte {position}")
            if base_offset + last_offset_delta >= offset:
                return position, size
            position += size
        return None

    async def _indexed_position(self, segment: RemoteSegment, offset: int) -> int:
        """The position at which to begin looking; 0 if the index has none, or a wrong one."""
        entry = last_offset_and_position(await self._index(segment, INDEX_SUFFIX), segment.start_offset, offset)
        if entry is None or entry[1] + _BOUNDS.size > segment.size:
            return 0
        base_offset, _, last_offset_delta = _BOUNDS.unpack(await self._bytes(segment, entry[1], _BOUNDS.size))
        return entry[1] if base_offset + last_offset_delta == entry[0] else 0

    # Transactions

    async def _aborted(
        self, log: Log, remote: RemoteLog, segment: RemoteSegment, offset: int, end_position: int
    ) -> tuple[AbortedTransaction, ...]:
        """Aborted transactions with records between `offset` and the batch at `end_position`; the marker may be in a much later segment.

        Where a segment goes on with what a lost leader wrote, its index tells of markers that are not in this history.
        """
        lineage = log.epochs.entries
        indexed = offset_at_or_after(await self._index(segment, INDEX_SUFFIX), segment.start_offset, end_position)
        end_offset = segment.end_offset + 1 if indexed is None else indexed + 1
        found: list[AbortedTransaction] = []
        current: RemoteSegment | None = segment
        while current is not None and (current is segment or current.start_offset < log.local_log_start_offset):
            own_end = shared_end(current, lineage)
            if not current.is_txn_index_empty:
                entries = aborted_in(await self._index(current, TXN_INDEX_SUFFIX))
                own = (each for each in entries if each.last_offset < own_end)
                more, is_complete = aborted_between(own, offset, end_offset)
                found += (each for each in more if each not in found)
                if is_complete:
                    return tuple(found)
            current = remote.find_in(lineage, own_end)
        return (*found, *(each for each in log.aborted_transactions(offset, end_offset) if each not in found))

    # Time

    async def find_timestamp(self, log: Log, remote: RemoteLog, timestamp: int) -> TimestampOffset | None:
        """The first record that is only in remote storage and whose timestamp is `timestamp` or later.  Errors: as `read`."""
        for segment in list(remote.readable(log.epochs.entries, log.log_end_offset)):
            if segment.start_offset >= log.local_log_start_offset:
                return None
            if segment.max_timestamp_ms >= timestamp and segment.end_offset >= log.log_start_offset:
                found = await self._first_at_or_after(segment, timestamp, log.log_start_offset)
                if found is not None:
                    return found
        return None

    async def _first_at_or_after(self, segment: RemoteSegment, timestamp: int, start_offset: int) -> TimestampOffset | None:
        offset = max(start_offset, await self._offset_before(segment, timestamp))
        found = await self._find(segment, offset)
        position = found[0] if found is not None else segment.size
        while position < segment.size:
            header = read_header(await self._bytes(segment, position, min(HEADER_SIZE, segment.size - position)))
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                batch = await self._bytes(segment, position, header.size)
                record: TimestampOffset | None = await self._elsewhere(first_record_at_or_after, batch, timestamp, start_offset)
                if record is not None:
                    return record
            position += header.size
        return None

    async def _offset_before(self, segment: RemoteSegment, timestamp: int) -> int:
        entry = timestamp_and_offset(await self._index(segment, TIME_INDEX_SUFFIX), segment.start_offset, timestamp)
        found = None if entry is None else await self._find(segment, entry[1])
        if entry is None or found is None:
            return segment.start_offset
        header = read_header(await self._bytes(segment, found[0], HEADER_SIZE))
        return entry[1] if (header.max_timestamp, header.last_offset) == entry else segment.start_offset

    # The store

    async def _bytes(self, segment: RemoteSegment, position: int, size: int) -> memoryview:
        """Errors: OSError when the segment is shorter."""
        chunk_size = self._options.chunk_size
        first, last = position // chunk_size, (position + size - 1) // chunk_size
        start = position - first * chunk_size
        if first == last:
            found = (await self._chunk(segment, first))[start : start + size]
        else:
            joined = b"".join([await self._chunk(segment, number) for number in range(first, last + 1)])
            found = memoryview(joined)[start : start + size]
        if len(found) < size:
            raise OSError(f"{object_name(segment, LOG_SUFFIX)} ends before byte {position + size}")
        return found

    async def _chunk(self, segment: RemoteSegment, number: int) -> memoryview:
        known = self.chunks.get((segment.id, number))
        return known if known is not None else await asyncio.shield(self._load_chunk(segment, number))

    def _load_chunk(self, segment: RemoteSegment, number: int) -> "asyncio.Task[memoryview]":
        start = number * self._options.chunk_size
        size = min(self._options.chunk_size, segment.size - start)
        return self._loaded((segment.id, number), self.chunks, object_name(segment, LOG_SUFFIX), start, size)

    async def _index(self, segment: RemoteSegment, suffix: str) -> memoryview:
        """One of its indexes; empty where there is none."""
        key, now_ms = (segment.id, suffix), self._clock.monotonic_ms()
        known = self.indexes.get(key, now_ms)
        if known is not None:
            return known
        try:
            return await asyncio.shield(self._loaded(key, self.indexes, object_name(segment, suffix), 0, None))
        except FileNotFoundError:
            self.indexes.put(key, memoryview(b""), now_ms)
            return memoryview(b"")

    def _loaded(self, key: K, cache: ByteCache[K], name: str, start: int, size: int | None) -> "asyncio.Task[memoryview]":
        """Errors: Busy."""
        task = self._loading.get(key)
        if task is None:
            limits = self._limits()
            if len(self._loading) >= limits.reader_threads + limits.reader_max_pending:
                raise Busy(f"{len(self._loading)} reads of the object store run or wait")
            task = asyncio.get_running_loop().create_task(self._load(key, cache, name, start, size), name=f"read {name}")
            self._loading[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return task

    async def _load(self, key: K, cache: ByteCache[K], name: str, start: int, size: int | None) -> memoryview:
        async with self._slots:
            wait_ms = self._quota.take(size or 0, self._limits().fetch_max_bytes_per_second, self._clock.monotonic_ms())
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)
            content: memoryview = await self._elsewhere(self._store.get, name, start, size)
        cache.put(key, content, self._clock.monotonic_ms())
        return content

    def _finished(self, key: ChunkKey | IndexKey, task: "asyncio.Task[memoryview]") -> None:
        del self._loading[key]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, FileNotFoundError):
            TOLD.warning("%s", error)

    def _read_ahead(self, log: Log, remote: RemoteLog, segment: RemoteSegment, position: int) -> None:
        """Read the most likely next bytes, as long as no other read has to wait for that."""
        left = min(self._options.prefetch_size, self._options.cache_size // 2)
        while left > 0 and len(self._loading) < self._limits().reader_threads:
            if position >= segment.size:
                following = remote.find_in(log.epochs.entries, segment.end_offset + 1)
                if following is None or following.start_offset >= log.local_log_start_offset:
                    return
                segment, position = following, 0
                if (segment.id, INDEX_SUFFIX) not in self.indexes:
                    self._loaded((segment.id, INDEX_SUFFIX), self.indexes, object_name(segment, INDEX_SUFFIX), 0, None)
            number = position // self._options.chunk_size
            if (segment.id, number) not in self.chunks:
                self._load_chunk(segment, number)
            end = (number + 1) * self._options.chunk_size
            left -= end - position
            position = end

    def configure(self) -> None:
        """The options have changed."""
        limits = self._limits()
        self.indexes.max_bytes = limits.index_cache_bytes
        if limits.reader_threads != self._thread_count:
            self._thread_count = limits.reader_threads
            self._slots = asyncio.Semaphore(self._thread_count)

    def tick(self) -> None:
        """Drop indexes that were not read for a while.  To be called at intervals."""
        self.indexes.drop_unused_since(self._clock.monotonic_ms() - self._limits().index_cache_ttl_ms)

    async def stop(self) -> None:
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _cut_at_fork(records: memoryview, log: Log) -> memoryview:
    """The segment goes on with what an older leader wrote and nobody committed: not in this history.

    A batch is told by its last record: the log may start within it, and knows no epoch of what lies before.
    """
    end = 0
    for position, header in batches(records):
        if header.partition_leader_epoch != log.epochs.epoch_for_offset(header.last_offset):
            return records[:position]
        end = position + header.size
    return records[:end]
