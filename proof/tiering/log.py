"""● A tiered log in memory with everything that it needs except a broker, for tests that copy, read, and fail at every step."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.wire import StoredRecord
from moldau.storage.config import LogConfig
from moldau.storage.log import AppendResult, Log
from moldau.storage.tiered.config import RemoteLogConfig, StoreConfig
from moldau.storage.tiered.copier import SegmentCopier
from moldau.storage.tiered.copy_and_expiry import copied_up_to, segments_to_copy
from moldau.storage.tiered.reader import RemoteReader
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import TopicIdPartition
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition
from proof.tiering.object_store import MemoryObjectStore

NOW = 1_700_000_000_000
WHERE = TopicIdPartition(UUID(int=9), "t", 0)


class ManualClock:
    """Both clocks stand still until they are moved."""

    def __init__(self, now_ms: int) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


async def at_once(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


class Metadata:
    """`__remote_log_metadata` as one broker after the other sees it.  All records in `records` are committed."""

    def __init__(self, hook: Callable[[str, str], None]) -> None:
        self.records: list[StoredRecord] = []
        self.remote = RemoteLog(WHERE)
        self.hook = hook

    async def append(self, record: StoredRecord) -> bool:
        self.hook("append", type(record).__name__)
        self.records.append(record)
        taken = self.remote.replay(record)
        self.hook("appended", type(record).__name__)
        return taken

    def replayed(self) -> RemoteLog:
        remote = RemoteLog(WHERE)
        for record in self.records:
            remote.replay(record)
        return remote


class Tier:
    """One partition on one broker."""

    def __init__(self, *, hook: Callable[[str, str], None] = lambda call, name: None, **options: Any) -> None:
        self.clock = ManualClock(NOW)
        self.files = MemoryFiles()
        self.files.mkdir("/data")
        self.files.sync_everything()
        self.store = MemoryObjectStore(hook=hook, now_ms=self.clock.now_ms)
        self.metadata = Metadata(hook)
        settings = {"remote_storage_enable": True, "segment_bytes": 1000, "file_delete_delay_ms": 0, "index_interval_bytes": 100}
        config = LogConfig(**{**settings, "local_retention_bytes": 0, "retention_ms": -1, **options})
        self.log = Log.open(self.files, "/data/t-0", TopicPartition("t", 0), config, now_ms=NOW)
        self._ids: Iterator[UUID] = (UUID(int=number) for number in range(1, 1 << 30))
        self.copier = self.new_copier()

    @property
    def remote(self) -> RemoteLog:
        return self.metadata.remote

    def new_copier(self) -> SegmentCopier:
        return SegmentCopier(
            files=self.files,
            store=self.store,
            metadata=self.metadata,
            clock=self.clock,
            broker_id=1,
            new_id=lambda: next(self._ids),
            elsewhere=at_once,
        )

    def new_reader(self, **options: Any) -> RemoteReader:
        limits = RemoteLogConfig(**{name: value for name, value in options.items() if name in RemoteLogConfig.OPTIONS})
        store = {name: value for name, value in options.items() if name in StoreConfig.OPTIONS}
        return RemoteReader(
            store=self.store,
            options=StoreConfig(**{"chunk_size": 300, "prefetch_size": 0, **store}),
            limits=lambda: limits,
            clock=self.clock,
            elsewhere=at_once,
        )

    def append(self, count: int, *, epoch: int = 0) -> None:
        """Append records with values that begin with their offset."""
        for _ in range(count):
            self.append_value(b"%d " % self.log.log_end_offset + b"v" * 30, epoch=epoch)

    def append_value(self, value: bytes, *, epoch: int) -> None:
        """Append one record in a batch of its own, a second after the one before.  It is acknowledged at once."""
        record = NewRecord(NOW + 1000 * self.log.log_end_offset, b"k", value)
        result = self.log.append_from_client(build_batch([record]), leader_epoch=epoch, now_ms=NOW)
        assert isinstance(result, AppendResult), result
        self.log.update_high_watermark(self.log.log_end_offset)

    async def copy(self) -> None:
        for candidate in segments_to_copy(self.log, copied_up_to(self.log, self.remote)):
            assert await self.copier.copy(self.log, WHERE, candidate)
        self.log.copied_offset = copied_up_to(self.log, self.remote)

    async def move(self) -> None:
        """Move everything into remote storage.  The disk keeps an empty active segment only."""
        self.log.roll(NOW)
        self.log.flush()
        await self.copy()
        self.log.delete_old_segments(NOW)
        assert self.log.local_log_start_offset == self.log.log_end_offset
