"""◇ Keeps account of one log: the data on stable storage, the data that is not, and the syncs under way.

    durability.owe_path(path) …        a change that a crash could still undo is a debt
    flush = durability.begin(…)        on the loop: everything owed now, as frozen inputs
    flush.sync()                       blocks, on any thread: touches the files that it was given and nothing of the log
    durability.end(flush, …)           on the loop: the debts are paid and the recovery point moves

Guarantees:

- The recovery point never passes a record whose bytes, index, file name or leader epoch a crash could still take.
- Each flush carries every debt that is not paid when it begins, also those that an earlier flush carries which is still under way.  So
  flushes may overlap and end in any order: each one that counts is complete in itself.
- A flush during which the log's past changed (a truncation) does not move the recovery point.

A thread is not there at once.  What is appended until it asks the disk shares its sync: the thread reports the size of the file that it
synced, and the marks, which the loop made meanwhile, say which offset that size stands for.
Called by `log`; the queue of flushes is `queue`, the shell that runs them is `flusher`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.storage.epochs import EpochsWrite, LeaderEpochs
from moldau.storage.files import File, Files
from moldau.storage.segment import Segment

MAX_MARKS: Final = 4096
"""The most appends that may share a sync which has begun; later ones wait for the next sync."""


class _Mark(NamedTuple):
    """A mark: once the active file is synced up to `size`, everything below `end_offset` (exclusive) is on stable storage."""

    size: int
    end_offset: int


class Flush:
    """The syncs of one flush.  Made by `Durability.begin`; `sync` may run in another thread."""

    __slots__ = (
        "_directories",
        "_file",
        "_files",
        "_marks",
        "_paths",
        "_sealed",
        "_synced_size",
        "_upto",
        "epochs",
        "moves",
        "number",
        "truncations",
    )

    def __init__(
        self,
        files: Files,
        *,
        file: File,
        sealed: list[File],
        paths: list[str],
        directories: list[str],
        epochs: EpochsWrite | None,
        upto: int,
        marks: list[_Mark],
        number: int,
        truncations: int,
        moves: int,
    ) -> None:
        self._files = files
        self._file = file
        self._sealed = sealed
        self._paths = paths
        self._directories = directories
        self._upto = upto
        self._marks = marks
        self._synced_size = 0
        self.epochs = epochs
        self.number = number
        self.truncations = truncations
        self.moves = moves

    def sync(self) -> None:
        """Sync the files.  Errors: OSError."""
        for file in self._sealed:
            file.sync()
        for path in self._paths:
            with suppress(FileNotFoundError):  # the file was deleted since, so it is not needed
                sync_path(self._files, path)
        self._synced_size = self._file.size()
        self._file.sync()
        if self.epochs is not None:
            self.epochs.run()
        with suppress(FileNotFoundError):  # the log was deleted: its directory has another name
            for directory in self._directories:
                self._files.sync_dir(directory)

    @property
    def upto(self) -> int:
        """The offset (exclusive) that this flush covers.  It grows while `sync` has not asked the disk yet."""
        return max([self._upto, *(mark.end_offset for mark in self._marks if mark.size <= self._synced_size)])


class Durability:
    """The durability of one log.  Everything but `Flush.sync` is called on the loop."""

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, *, recovery_point: int, is_settled: bool) -> None:
        """`is_settled`: the directory is as a clean stop left it."""
        self.recovery_point = recovery_point
        """The offset below which everything is on stable storage (exclusive)."""
        self.truncations = 0
        """The number of times that the log's past was changed.  Work beside the loop compares this number before and after."""
        self.moves = 0
        """The number of moves of all files to another disk.  A failure on the earlier disk is no failure of this log."""
        self._files = files
        self._directory = directory
        self._epochs = epochs
        self._begun = 0
        # Each debt has the number of the first flush that can pay it: an earlier flush does not know of the change.
        self._sealed: dict[int, tuple[Segment, int]] = {}
        self._paths: dict[str, int] = {}
        self._names: int | None = None if is_settled else 0
        self._own_name: int | None = None if is_settled else 0
        self._cut: int | None = None
        self._marks: list[_Mark] | None = None

    # ---------------------------------------------------------------- debts

    @property
    def owes_nothing(self) -> bool:
        return not self._sealed and not self._paths and self._names is None

    @property
    def is_named(self) -> bool:
        """Whether the name of the log's own directory is on stable storage."""
        return self._own_name is None

    @property
    def is_cut(self) -> bool:
        """Whether bytes that were cut off the log's end could come back behind new appends."""
        return self._cut is not None

    def owe_names(self) -> None:
        """Note that a file in the directory was created, renamed or unlinked."""
        self._names = self._begun

    def owe_path(self, path: str) -> None:
        """Note that the file at `path` was written."""
        self._paths[path] = self._begun

    def owe_sealed(self, segment: Segment) -> None:
        """Note that the active segment was sealed; another one takes its place."""
        self._sealed[id(segment)] = segment, self._begun
        self._marks = None

    def forgive(self, segments: Iterable[Segment]) -> None:
        """Drop the debts of segments that left the log, or that are the active one again."""
        for segment in segments:
            self._sealed.pop(id(segment), None)

    # ---------------------------------------------------------------- flushes

    def begin(self, active: Segment, end_offset: int) -> Flush:
        """Begin a flush of everything below `end_offset`, the log's present end."""
        if active.txn_index.is_unsynced:
            self.owe_path(active.txn_index.path)
            active.txn_index.is_unsynced = False
        sealed = [segment for segment, _ in self._sealed.values()]
        epochs = self._epochs.staged
        directories = [self._directory] if self._names is not None or epochs is not None else []
        if self._own_name is not None:
            directories.append(self._directory.rpartition("/")[0])
        self._marks = []
        flush = Flush(
            self._files,
            file=active.file,
            sealed=[segment.file for segment in sealed],
            paths=[*(path for segment in sealed for path in segment.index_paths), *self._paths],
            directories=directories,
            epochs=epochs,
            upto=end_offset,
            marks=self._marks,
            number=self._begun,
            truncations=self.truncations,
            moves=self.moves,
        )
        self._begun += 1
        return flush

    def note_end(self, active: Segment, end_offset: int) -> None:
        """Note an append.  A sync that is under way and has not asked the disk yet may cover it."""
        marks = self._marks
        if marks is not None and len(marks) < MAX_MARKS:
            marks.append(_Mark(active.size, end_offset))

    def stop_sharing(self) -> None:
        """Let later appends wait for a later flush: an epoch has begun that the flushes under way do not know."""
        self._marks = None

    def end(self, flush: Flush, *, may_count: bool) -> int:
        """Note that `flush.sync` has returned.

        Returns the recovery point, which stays without `may_count`, because the disk has failed.
        """
        if flush.moves != self.moves:
            return self.recovery_point
        self._pay(flush.number)
        if flush.epochs is not None:
            self._epochs.written(flush.epochs)
        is_complete = flush.epochs is None or flush.epochs.is_in_place
        if may_count and is_complete and flush.truncations == self.truncations:
            self.recovery_point = max(self.recovery_point, flush.upto)
        if self._marks is flush._marks:
            self._marks = None
        return self.recovery_point

    def _pay(self, number: int) -> None:
        """Pay every debt that was known before flush `number` began."""
        self._sealed = {key: debt for key, debt in self._sealed.items() if debt[1] > number}
        self._paths = {path: since for path, since in self._paths.items() if since > number}
        self._names = _unless_paid(self._names, number)
        self._own_name = _unless_paid(self._own_name, number)
        self._cut = _unless_paid(self._cut, number)

    # ---------------------------------------------------------------- the past changes

    def lower_to(self, offset: int) -> None:
        """Note that everything above `offset` is about to be cut off."""
        self.past_changed()
        self.recovery_point = min(self.recovery_point, offset)

    def past_changed(self) -> None:
        self.truncations += 1
        self._cut = self._begun
        self._void_marks()

    def write_failed(self) -> None:
        """Note that torn bytes were removed from the end of the active file: the synced sizes say nothing any more."""
        self._void_marks()

    def _void_marks(self) -> None:
        if self._marks is not None:
            self._marks.clear()  # the flush under way has the same list
            self._marks = None

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed."""
        self._directory = directory
        self._paths = {f"{directory}/{path.rpartition('/')[2]}": since for path, since in self._paths.items()}

    def relocated(self, directory: str, end_offset: int) -> None:
        """Note that all files are in another folder now, on stable storage up to `end_offset`."""
        self.past_changed()
        self.moves += 1
        self._directory = directory
        self.recovery_point = end_offset
        self._sealed, self._paths = {}, {}
        self._names = self._own_name = self._cut = None


def _unless_paid(owed_since: int | None, number: int) -> int | None:
    return owed_since if owed_since is not None and owed_since > number else None


def sync_path(files: Files, path: str) -> None:
    """Sync a file.  Errors: OSError."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()
