"""◇ The snapshots in the folder of a metadata log: their list, writing one, and when the oldest may be deleted.

A snapshot counts once it bears its name: it is written under another name and renamed when it is on the disk.  A retired snapshot is
renamed first and unlinked later.  `driver.py` keeps snapshots and log in step.

A fetched snapshot has a mark beside it, which comes before its name and goes when the log that it replaces is gone, durably.  Without the
mark a log that ends before the newest snapshot has lost records.

Source: KafkaMetadataLog, Snapshots.java.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from moldau.raft.snapshots import (
    DELETED_SUFFIX,
    FETCHED_SUFFIX,
    PARTIAL_SUFFIX,
    SUFFIX,
    CorruptSnapshot,
    Snapshot,
    parse_snapshot_name,
    read_snapshot,
    snapshot_name,
)
from moldau.storage.files import Files
from moldau.types import FileSlice, OffsetAndEpoch


class SnapshotFolder:
    """The snapshots of a folder; `ids` has the oldest first."""

    def __init__(self, files: Files, directory: str) -> None:
        self.ids: list[OffsetAndEpoch] = []
        self.fetched: OffsetAndEpoch | None = None
        """The newest snapshot while the log that it replaces may still be there."""
        self._files: Final = files
        self._directory: Final = directory

    @property
    def newest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def open(self) -> None:
        """Remove unfinished and retired snapshots, and list the rest.  Errors: OSError."""
        for name in self._files.listdir(self._directory):
            if name.endswith((PARTIAL_SUFFIX, DELETED_SUFFIX, SUFFIX + ".tmp")):
                self._files.unlink(f"{self._directory}/{name}")
        found = (parse_snapshot_name(name) for name in self._files.listdir(self._directory))
        self.ids = sorted(snapshot_id for snapshot_id in found if snapshot_id is not None)
        for name in self._files.listdir(self._directory):
            if name.endswith(FETCHED_SUFFIX):
                if self.newest is not None and f"{self._directory}/{name}" == self._mark(self.newest):
                    self.fetched = self.newest
                else:  # the crash came before the snapshot had its name
                    self._files.unlink(f"{self._directory}/{name}")

    def read(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        """A snapshot.  Errors: CorruptSnapshot, which names the file."""
        path = self._path(snapshot_id)
        try:
            return read_snapshot(self._files.read(path))
        except CorruptSnapshot as error:
            raise CorruptSnapshot(f"{path}: {error}; bring it back from a backup or from another controller") from error

    def write(self, snapshot_id: OffsetAndEpoch, parts: Iterable[bytearray]) -> None:
        """Write a snapshot, which is on the disk afterwards.  A caller in a thread adds it to `ids` in the loop.

        Errors: OSError, and nothing is left of it.
        """
        path, partial = self._path(snapshot_id), self._partial(snapshot_id)
        try:
            self._write(partial, parts)
            self._files.rename(partial, path)
        except OSError:
            with suppress(OSError):
                self._files.unlink(partial)  # on a full disk the rest would take room until the next start
            raise
        self._files.sync_dir(self._directory)

    def _write(self, path: str, parts: Iterable[bytearray]) -> None:
        file = self._files.open(path, create=True)
        try:
            file.truncate(0)
            position = 0
            for part in parts:
                file.pwrite([part], position)
                position += len(part)
            file.sync()
        finally:
            file.close()

    def read_part(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[int, FileSlice]:
        """The size of the file, and some of its bytes; none if `position` is not in it.  Errors: OSError."""
        file = self._files.open(self._path(snapshot_id), read_only=True)
        size = file.size()
        part = max(0, min(size - position, max_bytes)) if position >= 0 else 0
        return size, FileSlice(file, position if part else 0, part)

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write a part of a snapshot that is fetched from another replica.  The first part begins it anew.  Errors: OSError."""
        file = self._files.open(self._partial(snapshot_id), create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.pwrite([data], position)
        finally:
            file.close()

    def finish(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        """Complete a fetched snapshot.  It counts if it is whole.  The caller replaces the log by it, adds it to `ids`, and calls
        `log_is_replaced`.  Errors: CorruptSnapshot, OSError.
        """
        partial = self._partial(snapshot_id)
        try:
            snapshot = read_snapshot(self._files.read(partial))
        except CorruptSnapshot:
            self._files.unlink(partial)
            raise
        file = self._files.open(partial)
        try:
            file.sync()
        finally:
            file.close()
        self._files.open(self._mark(snapshot_id), create=True).close()
        self._files.sync_dir(self._directory)
        self.fetched = snapshot_id
        self._files.rename(partial, self._path(snapshot_id))
        self._files.sync_dir(self._directory)
        return snapshot

    def log_is_replaced(self) -> None:
        """Remove the mark: what a crash leaves of the log goes on after the fetched snapshot.  Errors: OSError."""
        if self.fetched is not None:
            with suppress(FileNotFoundError):
                self._files.unlink(self._mark(self.fetched))
            self._files.sync_dir(self._directory)
            self.fetched = None

    def total_size(self) -> int:
        return sum(self._files.size(self._path(one)) for one in self.ids)

    def retire_oldest(self) -> str:
        """Retire the oldest snapshot.  Returns the path of its file, to unlink."""
        path = self._path(self.ids.pop(0))
        retired = path.removesuffix(SUFFIX) + DELETED_SUFFIX
        self._files.rename(path, retired)
        return retired

    def is_oldest_older_than(self, retention_ms: int, now_ms: int) -> bool:
        """Whether the oldest snapshot's last record was written longer ago than `retention_ms`; negative: never.

        A snapshot that cannot be read is of no use, so it counts as older.
        """
        if retention_ms < 0:
            return False
        try:
            timestamp_ms = self.read(self.ids[0]).last_contained_log_timestamp
        except CorruptSnapshot:
            return True
        return timestamp_ms > 0 and now_ms - timestamp_ms > retention_ms

    def _partial(self, snapshot_id: OffsetAndEpoch) -> str:
        return self._path(snapshot_id).removesuffix(SUFFIX) + PARTIAL_SUFFIX

    def _mark(self, snapshot_id: OffsetAndEpoch) -> str:
        return self._path(snapshot_id).removesuffix(SUFFIX) + FETCHED_SUFFIX

    def _path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self._directory}/{snapshot_name(snapshot_id)}"
