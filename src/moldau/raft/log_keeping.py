"""● The driver's operations on its replica's log: it appends, shares one sync, and replaces the log by snapshots.

A leader with a full disk resigns if there is another voter; a lone voter waits for room.  Part of `driver.py`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.raft.config import QuorumConfig
from moldau.raft.events import Entry, Fetched, Lost, SnapshotChunk, SnapshotInstalled, SnapshotRefused, SnapshotWritten, Synced
from moldau.raft.listener import Listener
from moldau.raft.log_bytes import encoded
from moldau.raft.machine.node import RaftNode
from moldau.raft.replica_log import ReplicaLog
from moldau.raft.snapshot_folder import SnapshotFolder
from moldau.raft.snapshots import CorruptSnapshot, Snapshot
from moldau.storage.files import Files, is_shortage
from moldau.storage.log import Log
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.validator import AppendFailure
from moldau.types import OffsetAndEpoch

LOG: Final = logging.getLogger(__name__)

ROOM_CHECK_MS: Final = 1000
"""The milliseconds after which a write that a full disk refused is tried again."""


class LogKeeper(ABC):
    """See the module."""

    node: RaftNode
    _listener: Listener

    def __init__(self, *, files: Files, clock: Clock, config: QuorumConfig, disk: ReplicaLog) -> None:
        self.files: Final = files
        self.clock: Final = clock
        self.config: Final = config
        self.directory: Final = disk.directory
        self.bytes_since_snapshot = 0
        self.last_append_ms = -1
        self.failure: Exception | None = None
        self._disk: Final = disk
        self._delivered = 0
        self._unwritten: deque[Entry] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self._persisting: asyncio.Task[None] | None = None
        self._installing: asyncio.Task[None] | None = None
        self._unsynced: Final = asyncio.Event()

    @property
    def log(self) -> Log:
        return self._disk.log

    @property
    def snapshots(self) -> SnapshotFolder:
        return self._disk.snapshots

    @abstractmethod
    def _step(self, event: Any) -> int | ErrorCode | None:
        """Tell the machine of an event, and carry its orders out."""

    @abstractmethod
    def _fail(self, error: Exception) -> None:
        """Stop committing on this node."""

    def _append(self, entries: Sequence[Entry | Fetched]) -> None:
        """Append to the page cache, at once: offsets are given in the order of the proposals."""
        if entries:
            self._let_epochs_come_first()
        for entry in entries:
            if isinstance(entry, Entry):
                self._unwritten.append(entry)
            elif not self._append_fetched(entry):
                return
        if self._retry is None:
            self._append_unwritten()

    def _let_epochs_come_first(self) -> None:
        """Let a lone voter's recovery tell damage from a torn tail.  On a full disk the next append tries again."""
        try:
            self.log.let_epochs_come_first(self.node.is_lone_voter)
        except OSError as error:
            if not is_shortage(error):
                raise
            LOG.error("%s: the epochs of the metadata wait for room", error)

    def _append_fetched(self, entry: Fetched) -> bool:
        assert isinstance(entry.records, bytes | bytearray | memoryview)
        done = self.log.append_as_follower(memoryview(entry.records), entry.epoch)
        if isinstance(done, AppendFailure):
            if not self._is_full(done):
                raise KafkaError(done.error, done.detail)
            LOG.error("%s: metadata is fetched again when there is room", done.detail)
            self.node.step(Lost(self.log.log_end_offset), self.clock.monotonic_ms())
            return False
        assert self.log.log_end_offset == entry.next_offset, f"{done} for {entry.base_offset}"
        self._unsynced.set()
        return True

    def _is_full(self, failure: AppendFailure) -> bool:
        return failure.error is ErrorCode.KAFKA_STORAGE_ERROR and self.log.failure is None

    def _append_unwritten(self) -> None:
        """Append all waiting entries.  On a full disk a lone voter lets them wait for room; another voter resigns."""
        while self._unwritten:
            entry = self._unwritten[0]
            now_ms = self.clock.now_ms()
            batch = encoded(entry, now_ms)
            done = self.log.append_as_leader(batch, leader_epoch=entry.epoch, now_ms=now_ms, origin=AppendOrigin.RAFT_LEADER)
            if isinstance(done, AppendFailure):
                if not self._is_full(done):
                    raise KafkaError(done.error, done.detail)
                self._no_room(done)
                return
            assert (done.first_offset, done.last_offset) == (entry.base_offset, entry.next_offset - 1), f"{done} for {entry.base_offset}"
            self._unwritten.popleft()
            self.last_append_ms = now_ms
            self._unsynced.set()
        self._retry = None

    def _no_room(self, failure: AppendFailure) -> None:
        if self.node.is_lone_voter:
            if self._retry is None:
                LOG.error("%s: metadata waits for room, and no more is taken until then.  Make room", failure.detail)
            self._retry = asyncio.get_running_loop().call_later(ROOM_CHECK_MS / 1000, self._try_again)
        else:
            LOG.error("%s: this node leads the metadata no more.  Make room", failure.detail)
            self._unwritten.clear()
            self.node.step(Lost(self.log.log_end_offset), self.clock.monotonic_ms())

    def _try_again(self) -> None:
        if self.failure is None:
            try:
                self._append_unwritten()
            except KafkaError as error:
                self._fail(error)

    async def _sync_for_ever(self) -> None:
        """Group commit: one sync for all that was appended while the one before it ran."""
        try:
            while True:
                await self._unsynced.wait()
                self._unsynced.clear()
                flush = self.log.begin_flush()
                await self.files.run(flush.sync)
                if self._persisting is not None:
                    await asyncio.wait([self._persisting])
                if flush.truncations != self.log.truncations:
                    self._unsynced.set()
                    continue
                if self.snapshots.fetched in self.snapshots.ids:
                    await self.files.run(self.snapshots.log_is_replaced)
                self._step(Synced(min(self.log.end_flush(flush), self.node.end_offset)))
        except Exception as error:
            self._fail(error)

    async def write_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Callable[[], Sequence[bytes]]) -> None:
        """Write a snapshot of everything below `snapshot_id.offset`.

        `records` encodes the records in a thread, from objects that no longer change.  metadata.max.retention.* decides when old snapshots,
        and the log before the remaining ones, are deleted.
        """
        if self.snapshots.newest is not None and snapshot_id <= self.snapshots.newest:
            return
        self.bytes_since_snapshot = 0
        change = self.node.history.voters_at(snapshot_id.offset)
        await self.files.run(self._disk.write_snapshot, snapshot_id, timestamp_ms, records, change)
        if self.snapshots.newest is not None and snapshot_id <= self.snapshots.newest:
            return  # a newer one was fetched meanwhile
        self.snapshots.ids.append(snapshot_id)
        await self._disk.retire_snapshots()
        start = next((one for one in self.snapshots.ids if one.offset == self.log.log_start_offset), self.node.history.start)
        self._step(SnapshotWritten(snapshot_id, start))

    def _take_chunk(self, chunk: SnapshotChunk) -> None:
        """Write a chunk of a fetched snapshot.  The last chunk replaces the log by the snapshot."""
        try:
            self.snapshots.write_part(chunk.snapshot_id, chunk.position, chunk.data)
        except OSError as error:
            if not is_shortage(error):
                raise
            LOG.error("%s: the snapshot is fetched again when there is room", error)
            self.node.step(SnapshotRefused(), self.clock.monotonic_ms())
            return
        if chunk.is_last:
            self._installing = in_background(self._install(chunk.snapshot_id), name="raft snapshot")

    async def _install(self, snapshot_id: OffsetAndEpoch) -> None:
        try:
            snapshot = await self.files.run(self.snapshots.finish, snapshot_id)
        except CorruptSnapshot as error:
            LOG.error("the snapshot that was fetched is not whole, and is fetched again: %s", error)
            self._step(SnapshotRefused())
            return
        except Exception as error:
            if not (isinstance(error, OSError) and is_shortage(error)):
                self._fail(error)
                return
            LOG.error("%s: the snapshot is fetched again when there is room", error)
            self._step(SnapshotRefused())
            return
        if self._persisting is not None:
            await asyncio.wait([self._persisting])
        try:
            self._replace_log(snapshot_id, snapshot)
        except Exception as error:
            self._fail(error)
            return
        self._step(SnapshotInstalled(snapshot_id, snapshot.voters, snapshot.kraft_version))
        await self._disk.retire_snapshots()

    def _replace_log(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        self._disk.replace(snapshot_id)
        self._listener.load_snapshot(snapshot_id, snapshot.last_contained_log_timestamp, snapshot.records)
        self._delivered = snapshot_id.offset
        self.bytes_since_snapshot = 0
        self._unsynced.set()
