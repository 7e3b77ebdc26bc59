"""◇ The snapshot files of one log's producers: `%020d.snapshot`, what is known of them just before that offset.

A snapshot spares a recovery the batches before it.  One stands at the base of each segment, and one at the end after a clean stop.
It is not synced when it is written: a torn one fails its CRC, and the flush that counts syncs it.
Source: ProducerStateManager.  Called by `log`.
"""

from moldau.storage.files import Files
from moldau.storage.flush.durability import Durability, sync_path
from moldau.storage.producers.state import SNAPSHOT_SUFFIX, ProducerStates
from moldau.storage.recovery import load_producers, producers_at, snapshot_offsets
from moldau.storage.segment import Segment, file_name


class ProducerSnapshots:
    """The snapshots of one log."""

    def __init__(self, files: Files, directory: str, producers: ProducerStates, durability: Durability) -> None:
        self._files = files
        self._directory = directory
        self._producers = producers
        self._durability = durability

    def write(self, offset: int) -> None:
        """Write the producers' present state, which is the one before `offset`.  Errors: OSError."""
        path = self._path(offset)
        file = self._files.open(path, create=True)
        content = self._producers.snapshot()
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()
        self._durability.owe_path(path)
        self._durability.owe_names()

    def note_before(self, offset: int, segments: list[Segment], *, start_offset: int) -> None:
        """Durably, what is known of the producers by `segments`, which leave while their records stay to be read in remote storage.

        Without it a crash would leave nothing that tells of them: what was sent again would be stored twice, and a replica that is behind
        would show transactions that are open, and then what was aborted.  Errors: OSError, also where batches cannot be read.
        """
        content = producers_at(self._files, self._directory, segments, start_offset=start_offset, offset=offset)
        path = self._path(offset)
        if self._files.exists(path) and self._files.read(path) == content:  # a full disk has room for what is there
            sync_path(self._files, path)
            self._files.sync_dir(self._directory)
        else:
            self._files.write_atomically(path, content)

    def delete(self, offset: int) -> None:
        """Errors: OSError."""
        path = self._path(offset)
        if self._files.exists(path):
            self._files.unlink(path)

    def delete_above(self, offset: int) -> None:
        """Delete snapshots above `offset`, synced at once.

        Their batches are gone, and they must not come back when the log has grown past them again.

        Errors: OSError.
        """
        for taken_at in snapshot_offsets(self._files, self._directory):
            if taken_at > offset:
                self.delete(taken_at)
        self._files.sync_dir(self._directory)

    def reload(self, segments: list[Segment], *, start_offset: int, end_offset: int) -> None:
        """The producers' state again, as it was at `end_offset`.  Errors: CorruptBatch, OSError."""
        load_producers(self._files, self._directory, self._producers, segments, start_offset=start_offset, end_offset=end_offset)

    def moved_to(self, directory: str) -> None:
        self._directory = directory

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
