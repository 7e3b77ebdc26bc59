"""● Brings a local segment into the object store, and takes remote segments away, so that a crash between any two steps does no harm.

    copy      COPY_STARTED is committed ─▶ objects are stored ─▶ COPY_FINISHED is committed          (only then may the local segment go)
    delete    DELETE_STARTED is committed ─▶ objects are gone ─▶ DELETE_FINISHED is committed

What broke off is found in the metadata by whoever leads next, and deleted: in DELETE_STARTED at once, in COPY_STARTED as soon as its
records are in another segment (`copy_and_expiry.expired`).
A leader that lost its place while it copied learns at COPY_FINISHED that its segment was given up, and takes its objects away itself; if it
died before it could, `sweep` finds objects that no metadata speaks of.
Source: RemoteLogManager.RLMCopyTask.copyLogSegment, deleteRemoteLogSegment; KIP-405.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from moldau.clock import Clock
from moldau.protocol.wire import StoredRecord
from moldau.storage.epochs import checkpoint_text
from moldau.storage.files import Files
from moldau.storage.log import Log
from moldau.storage.producers.state import SNAPSHOT_SUFFIX
from moldau.storage.recovery import producers_at
from moldau.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.storage.tiered.copy_and_expiry import Candidate, leader_epochs_in
from moldau.storage.tiered.objects import LEADER_EPOCHS_SUFFIX, folder_of, names_of, object_name, segment_id_in
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import RemoteSegment, SegmentState, TopicIdPartition
from moldau.storage.tiered.store import ObjectStore
from moldau.types import FileSlice

TOLD: Final = logging.getLogger(__name__)

READ_SIZE: Final = 1 << 20
STRAY_AGE_MS: Final = 3_600_000
"""An object that no metadata speaks of is left alone for so long."""

Elsewhere = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments where it may block."""


class MetadataWriter(Protocol):
    """`__remote_log_metadata`, as the copier sees it."""

    async def append(self, record: StoredRecord) -> bool:
        """Returns when it is committed and replayed: whether it was taken, or did not follow from what others had written before it.

        Errors: KafkaError when it cannot be written; it may have been all the same.
        """
        ...


@dataclass(slots=True)
class _Source:
    """The source of a copy: nothing of the log itself is touched beside the loop."""

    records: FileSlice
    paths: list[tuple[str, str]]
    """Suffix and path of the indexes beside it."""
    snapshot: Callable[[], bytes]
    """The snapshot of the producers at its end.  Errors: OSError, CorruptBatch."""
    epochs: bytes
    is_given_up: bool = False
    """Whether the upload is no longer wanted and breaks off."""


class SegmentCopier:
    """See the module.  One for each node."""

    def __init__(
        self,
        *,
        files: Files,
        store: ObjectStore,
        metadata: MetadataWriter,
        clock: Clock,
        broker_id: int,
        new_id: Callable[[], UUID],
        elsewhere: Elsewhere,
    ) -> None:
        self.copying: Final[set[UUID]] = set()
        """The segments that this node is copying: they do not count as broken off."""
        self._files: Final = files
        self._store: Final = store
        self._metadata: Final = metadata
        self._clock: Final = clock
        self._broker_id: Final = broker_id
        self._new_id: Final = new_id
        self._elsewhere: Final = elsewhere
        self._is_stopping = False

    def stop(self) -> None:
        """Uploads break off at their next piece: the process is not to wait for them."""
        self._is_stopping = True

    async def copy(self, log: Log, where: TopicIdPartition, candidate: Candidate) -> bool:
        """Whether it can be read from remote storage now.  Errors: OSError of the store or the disk, KafkaError of the metadata."""
        segment, source = self._described(log, where, candidate)
        self.copying.add(segment.id)
        upload: asyncio.Future[None] | None = None
        try:
            if not await self._metadata.append(segment.record()):
                return False
            upload = asyncio.ensure_future(self._elsewhere(self._upload, segment, source))
            try:
                await asyncio.shield(upload)
            except OSError:
                await self._give_up(segment)
                raise
            if await self._append(segment, SegmentState.COPY_FINISHED):
                return True
            TOLD.warning("%s was given up by another leader while it was copied", segment)
            await self._elsewhere(self._store.delete, names_of(segment))
            return False
        finally:
            if upload is None or upload.done():
                self.copying.discard(segment.id)
            else:  # cancelled: its thread breaks off at the next piece, and until then nobody deletes what it stores
                source.is_given_up = True
                upload.add_done_callback(lambda done: self._broken_off(segment, done))

    async def delete(self, segment: RemoteSegment) -> None:
        """Errors: OSError of the store, KafkaError of the metadata; then it is tried again later."""
        if not await self._append(segment, SegmentState.DELETE_STARTED):
            return  # another leader has
        await self._elsewhere(self._store.delete, names_of(segment))
        await self._append(segment, SegmentState.DELETE_FINISHED)

    async def sweep(self, remote: RemoteLog) -> int:
        """Deletes objects of the partition that its metadata does not speak of, and says how many.  Errors: OSError.

        Metadata that speaks of no copy at all may have been lost: then nothing is touched.
        """
        if not remote.has_copies:
            return 0
        found = await self._elsewhere(lambda: list(self._store.list(folder_of(remote.where))))
        oldest_ms = self._clock.now_ms() - STRAY_AGE_MS
        strays = [
            each.name
            for each in found
            if each.modified_ms < oldest_ms
            and (segment_id := segment_id_in(each.name)) is not None
            and segment_id not in remote.segments
            and segment_id not in self.copying
        ]
        if strays:
            TOLD.info("%s: %d object(s) that no metadata speaks of are deleted", remote.where, len(strays))
            await self._elsewhere(self._store.delete, strays)
        return len(strays)

    def _broken_off(self, segment: RemoteSegment, upload: "asyncio.Future[None]") -> None:
        self.copying.discard(segment.id)
        if not upload.cancelled() and upload.exception() is not None:
            TOLD.debug("%s: %s", segment, upload.exception())

    async def _append(self, segment: RemoteSegment, state: SegmentState) -> bool:
        return await self._metadata.append(segment.update(state, broker_id=self._broker_id, now_ms=self._clock.now_ms()))

    async def _give_up(self, segment: RemoteSegment) -> None:
        """Give a copy up.  Its stored objects are deleted at once if possible; if not, they are found again."""
        try:
            await self.delete(segment)
        except OSError as error:
            TOLD.info("%s could not be cleaned up yet: %s", segment, error)

    def _described(self, log: Log, where: TopicIdPartition, candidate: Candidate) -> tuple[RemoteSegment, _Source]:
        local, next_offset = candidate
        entries = [entry for entry in log.epochs.entries if entry.start_offset < next_offset]
        segment = RemoteSegment(
            where=where,
            id=self._new_id(),
            start_offset=local.base_offset,
            end_offset=next_offset - 1,
            leader_epochs=leader_epochs_in(entries, local.base_offset, next_offset),
            max_timestamp_ms=local.age_timestamp,
            size=local.size,
            broker_id=self._broker_id,
            event_timestamp_ms=self._clock.now_ms(),
            is_txn_index_empty=not local.txn_index.entries(),
        )
        indexes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, *(() if segment.is_txn_index_empty else (TXN_INDEX_SUFFIX,)))
        paths = [(suffix, local.path(suffix)) for suffix in indexes]
        segments = log.segments[: log.segments.index(local) + 1]
        snapshot = partial(producers_at, self._files, log.directory, segments, start_offset=log.log_start_offset, offset=next_offset)
        epochs = checkpoint_text([f"{entry.epoch} {entry.start_offset}" for entry in entries])
        return segment, _Source(FileSlice(local.file, 0, local.size), paths, snapshot, epochs)

    def _upload(self, segment: RemoteSegment, source: _Source) -> None:
        """The records last: where they are, the rest is.

        An index that is not there is an error: its segment has left meanwhile, or stands on another disk now.
        """
        parts: list[tuple[str, Callable[[], bytes]]] = [(LEADER_EPOCHS_SUFFIX, lambda: source.epochs), (SNAPSHOT_SUFFIX, source.snapshot)]
        parts += [(suffix, partial(self._files.read, path)) for suffix, path in source.paths]
        for suffix, read in parts:
            self._check(source)
            self._store.put(object_name(segment, suffix), [read()])
        self._check(source)
        self._store.put(object_name(segment, LOG_SUFFIX), self._pieces(source))

    def _check(self, source: _Source) -> None:
        """Errors: OSError when the upload is not wanted any more."""
        if self._is_stopping or source.is_given_up:
            raise OSError("the copy was broken off")

    def _pieces(self, source: _Source) -> Iterator[bytes]:
        """Errors: OSError when the file is shorter than it was."""
        records = source.records
        for position in range(records.position, records.position + records.size, READ_SIZE):
            size = min(READ_SIZE, records.position + records.size - position)
            piece = records.file.pread(size, position)
            if len(piece) < size:
                raise OSError(f"{records!r} ends at byte {position + len(piece)}")
            self._check(source)
            yield piece
