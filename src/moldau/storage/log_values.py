"""◇ What a log is asked and answers with: the outcome of an append, what a reader gets, what one flush syncs."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.storage.epochs import EpochEntry, LeaderEpochs
from moldau.storage.files import File, Files
from moldau.storage.index import AbortedTransaction
from moldau.storage.segment import Segment
from moldau.types import FileSlice

NO_OFFSET: Final = -1


class AppendResult(NamedTuple):
    """What became of an append.  Offsets are inclusive; -1 when there was nothing to append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 for CreateTime."""
    log_start_offset: int
    max_timestamp: int
    records_count: int
    size: int
    is_duplicate: bool = False


class FetchData(NamedTuple):
    """What a reader gets: whole batches first to last, but for the last, which may be cut."""

    records: FileSlice | None
    """None: nothing to read."""
    offset: int
    segment_base_offset: int
    position: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return self.records.size if self.records is not None else 0


class Past(NamedTuple):
    """What a log must know of the records before its first one, when those are in remote storage only.  `end_offset` exclusive."""

    end_offset: int
    epochs: list[EpochEntry]
    snapshot: bytes
    """Of the producers, as in a snapshot file."""

    @property
    def start_offset(self) -> int:
        """The first whose epoch it tells."""
        return self.epochs[0].start_offset


class ProducerStatus(NamedTuple):
    """One line of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class Flush:
    """What one flush syncs.  `sync` may run in another thread: it only touches the files it was given, and asks the log how far it is."""

    __slots__ = ("_directories", "_end_of_file", "_epochs", "_file", "_files", "_paths", "_sealed", "moves", "truncations", "upto")

    def __init__(
        self,
        files: Files,
        file: File,
        sealed: list[Segment],
        paths: list[str],
        directories: list[str],
        epochs: LeaderEpochs,
        *,
        upto: int,
        end_of_file: Callable[[], int],
        truncations: int,
        moves: int,
    ) -> None:
        """`end_of_file`: the offset behind the last record in `file`; NO_OFFSET where the log has gone on in another one."""
        self._files = files
        self._file = file
        self._sealed = sealed
        self._paths = paths
        self._directories = directories
        self._epochs = epochs
        self._end_of_file = end_of_file
        self.upto = upto
        self.truncations = truncations
        self.moves = moves

    @property
    def sealed(self) -> list[Segment]:
        return self._sealed

    def sync(self) -> None:
        """Errors: OSError."""
        for segment in self._sealed:
            segment.file.sync()
            with suppress(FileNotFoundError):  # deleted since: then nobody needs it
                segment.sync_indexes()
        for path in self._paths:
            with suppress(FileNotFoundError):
                sync_path(self._files, path)
        # A thread is not there at once: what was appended until now shares the sync.
        self.upto = max(self.upto, self._end_of_file())
        self._file.sync()
        with suppress(FileNotFoundError):  # the log was deleted: its directory has another name
            self._epochs.save()
            for directory in self._directories:
                self._files.sync_dir(directory)


def sync_path(files: Files, path: str) -> None:
    """Errors: OSError."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()
