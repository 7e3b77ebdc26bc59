"""● The start offset of each leader epoch, and their file `leader-epoch-checkpoint`.

    0                    version
    2                    entries
    0 0                  epoch, start offset: both rise
    3 117

An epoch is on stable storage no later than its first batch counts as flushed: a recovery holds every batch against the epochs, and a
follower that asks for the end of one must not get a wrong answer after a crash.  No append waits for the disk before that:

    assign      before the first batch: the new content stands in `leader-epoch-checkpoint.<n>.next`, not synced
    flush       syncs it and gives it its name, beside the loop
    start       after the process was killed, finds the `.next` file whole and goes by it, as it goes by the batches beside it; a power cut
                may have taken it, and then the batches that it told of are cut off.  None of them was flushed.

Two changes must be on the disk at once.  The first is the removal of lines, because recovery would compare batches with them.  The second
is a new line while bytes that were cut off the log's end could still come back behind its first batch (`at_once`), because only the line
tells the two apart. An epoch without a batch (`begin`) is in no file.
Source: KIP-101, KIP-279; LeaderEpochFileCache, LeaderEpochCheckpointFile.
"""

from bisect import bisect_right
from contextlib import suppress
from itertools import pairwise
from typing import Final, NamedTuple

from moldau.config import MAX_LONG
from moldau.storage.files import File, Files

FILE_NAME: Final = "leader-epoch-checkpoint"
NEXT_SUFFIX: Final = ".next"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end of an epoch: `end_offset` is exclusive; both fields are -1 if nothing is known."""

    epoch: int
    end_offset: int


UNKNOWN_END: Final = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class CorruptCheckpoint(Exception):
    """A checkpoint file that cannot be read.  The text has the file, the line and the error."""


def checkpoint_lines(path: str, raw: bytes, columns: int) -> list[list[str]]:
    """The entries of a file in Kafka's checkpoint form; an empty file has none.  Errors: CorruptCheckpoint."""
    try:
        lines = raw.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path} is no text") from None
    if not lines:
        return []  # Kafka makes an empty checkpoint file before it has entries, and reads it as such
    if lines[0].strip() != "0":
        raise CorruptCheckpoint(f"{path}: line 1 must be the version 0, it is {lines[0][:40]!r}")
    count = lines[1].strip() if len(lines) > 1 else ""
    if not count.isdigit() or int(count) != len(lines) - 2:
        raise CorruptCheckpoint(f"{path}: line 2 must be the number of entries, {max(0, len(lines) - 2)}, it is {count[:40]!r}")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        words = line.split()
        if len(words) != columns or not all(is_integer(word) for word in words[-2:]):
            raise CorruptCheckpoint(f"{path}: line {number} is malformed: {line[:80]!r}")
        entries.append(words)
    return entries


def is_integer(word: str) -> bool:
    digits = word.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20


def checkpoint_text(entries: list[str]) -> bytes:
    return ("\n".join(["0", str(len(entries)), *entries]) + "\n").encode()


class EpochsWrite:
    """The file that the next flush puts in place.  Its content is written already; `run` may be called on any thread.

    The loop takes it back by unlinking the temporary file: the file system decides whether that or the renaming comes first.
    """

    __slots__ = ("_file", "_files", "_path", "_temporary", "entries", "is_in_place")

    def __init__(self, files: Files, path: str, temporary: str, entries: list[EpochEntry]) -> None:
        """Errors: OSError, and nothing is left of it."""
        self.entries = entries
        self.is_in_place = False
        self._files = files
        self._path = path
        self._temporary = temporary
        self._file: File = files.open(temporary, create=True)
        try:
            self._file.pwrite([_text(entries)], 0)
        except OSError:
            self.take_back()
            raise

    def run(self) -> None:
        """Put the file in place, durably once the directory is synced.  If it was taken back nothing happens.  Errors: OSError."""
        if not self.is_in_place:
            self.sync()
            self.put_in_place()

    def sync(self) -> None:
        """Errors: OSError."""
        self._file.sync()

    def put_in_place(self) -> None:
        """Errors: OSError."""
        with suppress(FileNotFoundError):  # the file was taken back, or the log was deleted
            self._files.rename(self._temporary, self._path)
            self.is_in_place = True
        self._file.close()

    def take_back(self) -> None:
        """Take the file back, because newer content is about to be written.  If it is in place already, the newer file replaces it."""
        with suppress(FileNotFoundError):
            self._files.unlink(self._temporary)


class LeaderEpochs:
    """One log's epochs, newest last."""

    def __init__(self, files: Files, directory: str) -> None:
        """Errors: CorruptCheckpoint."""
        self.latest_epoch = UNDEFINED_EPOCH
        self.appendable_epoch = UNDEFINED_EPOCH
        """The epoch whose batches can be appended without writing here before."""
        self.entries: list[EpochEntry] = []
        self.staged: EpochsWrite | None = None
        """The file that the next flush puts in place."""
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self._saved: list[EpochEntry] | None = None
        self._left = {
            name: int(number)
            for name in (files.listdir(directory) if files.is_dir(directory) else [])
            if name.startswith(FILE_NAME + ".") and (number := name[len(FILE_NAME) + 1 :].removesuffix(NEXT_SUFFIX)).isdecimal()
        }
        self._writes = max(self._left.values(), default=0)
        if files.exists(self._path):
            self.entries = self._saved = parsed_epochs(self._path, files.read(self._path))
        self._go_by_what_is_left()
        self._note_latest()
        self.appendable_epoch = self.latest_epoch

    def _go_by_what_is_left(self) -> None:
        """Use the unfinished file of a killed process: it has epochs of batches that came after the saved ones."""
        saved = self.entries
        for name in self._left:
            path = f"{self._path.rpartition('/')[0]}/{name}"
            raw = self._files.read(path)
            with suppress(CorruptCheckpoint):  # the file is torn
                entries = parsed_epochs(path, raw) if raw.endswith(b"\n") else []
                if len(entries) > len(self.entries) and entries[: len(saved)] == saved:
                    self.entries = entries

    def begin(self, epoch: int, start_offset: int) -> None:
        """Let later appends belong to `epoch`."""
        self.appendable_epoch = UNDEFINED_EPOCH
        self.entries = self._with(epoch, start_offset)
        self._note_latest()

    def assign(self, epoch: int, start_offset: int, *, at_once: bool = False) -> None:
        """Note that the batch at `start_offset`, which is about to be written, belongs to `epoch`.  Contradicting entries were never
        committed and are removed.

        The next flush puts it on the disk; with `at_once` it is there on return.  Errors: OSError, and nothing has changed.
        """
        entries = self._with(epoch, start_offset)
        saved, staged = self._saved or [], self._staged_entries
        if entries is not (self._saved if staged is None else staged):
            # A flush may be putting the staged file in place, so a line leaves that file as it leaves the saved one.
            if at_once or any(entries[: len(lines)] != lines for lines in (saved, staged or [])):
                self._install(entries)
            else:
                self._stage(entries)
        self.entries = entries
        self._note_latest()
        self.appendable_epoch = epoch

    def not_written(self, before: list[EpochEntry]) -> None:
        """Go back to `before`, the entries before an append: its batches are not in the log.

        On the disk lines of these batches may stay, beyond the log's end.  The next batch of any epoch is assigned anew, and that takes
        them away before it is written.
        """
        self.entries = before
        self._note_latest()
        self.appendable_epoch = UNDEFINED_EPOCH

    @property
    def _staged_entries(self) -> list[EpochEntry] | None:
        return None if self.staged is None else self.staged.entries

    def _with(self, epoch: int, start_offset: int) -> list[EpochEntry]:
        if self.entries and (epoch == self.latest_epoch and start_offset >= self.entries[-1].start_offset):
            return self.entries
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        kept = [entry for entry in self.entries if entry.epoch < epoch and entry.start_offset < start_offset]
        return [*kept, EpochEntry(epoch, start_offset)]

    def _stage(self, entries: list[EpochEntry]) -> None:
        write = self._new_write(entries)
        self._unstage()
        self.staged = write

    def _new_write(self, entries: list[EpochEntry]) -> EpochsWrite:
        self._writes += 1
        return EpochsWrite(self._files, self._path, f"{self._path}.{self._writes}{NEXT_SUFFIX}", entries)

    def _unstage(self) -> None:
        if self.staged is not None:
            self.staged.take_back()
            self.staged = None

    def written(self, write: EpochsWrite) -> None:
        """Note that a flush has put the file in place, durably; or found that it was taken back."""
        if write is self.staged and write.is_in_place:
            self._saved = write.entries
            self.staged = None

    def save(self) -> None:
        """Write the epochs to the disk, here and now, unless they are there.  Errors: OSError."""
        if self.entries and self.entries is not self._saved:
            self._write(self.entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch that is not newer than `epoch`, and its end."""
        if epoch == UNDEFINED_EPOCH or not self.entries:
            return UNKNOWN_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self.entries, epoch, key=_epoch_of)
        if number == len(self.entries):
            return UNKNOWN_END  # the epoch is newer than any here
        end = self.entries[number].start_offset
        return EpochEnd(self.entries[number - 1].epoch if number else epoch, end)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 when it lies before all known epochs."""
        number = bisect_right(self.entries, offset, key=_start_of)
        return self.entries[number - 1].epoch if number else UNDEFINED_EPOCH

    def end_of_epoch_at(self, offset: int) -> int:
        """The offset (exclusive) up to which records have the same epoch as the one at `offset`."""
        number = bisect_right(self.entries, offset, key=_start_of)
        return self.entries[number].start_offset if number < len(self.entries) else MAX_LONG

    @property
    def earliest(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def loaded(self, end_offset: int) -> None:
        """Note that the log ends at `end_offset`: epochs from there on have no batch left.  Errors: OSError."""
        self.truncate_from_end(end_offset)
        if self.entries and self.entries is not self._saved and self.staged is None:
            self._stage(self.entries)
        for name in self._left:
            with suppress(FileNotFoundError):
                self._files.unlink(f"{self._path.rpartition('/')[0]}/{name}")
        self._left.clear()

    def truncate_from_end(self, end_offset: int) -> None:
        """Note that the log ends at `end_offset` now."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self._install(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Note that the log starts at `start_offset` now: the epoch that covers it begins there."""
        number = bisect_right(self.entries, start_offset, key=_start_of)
        if number and self.entries[0].start_offset < start_offset:
            self._install([EpochEntry(self.entries[number - 1].epoch, start_offset), *self.entries[number:]])

    def clear(self) -> None:
        if self.entries or self._saved or self.staged is not None:
            self._install([])

    def replace(self, entries: list[EpochEntry]) -> None:
        """Take the entries of another replica instead."""
        self._install(list(entries))

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed, because the log is deleted.  A staged file is put in place no more."""
        self.staged = None
        self._path = f"{directory}/{FILE_NAME}"

    def _install(self, entries: list[EpochEntry]) -> None:
        """Install entries, on the disk first.  Errors: OSError, and then nothing has changed."""
        self._write(entries)
        self.entries = entries
        self._note_latest()
        self.appendable_epoch = self.latest_epoch

    def _write(self, entries: list[EpochEntry]) -> None:
        write = self._new_write(entries)
        try:
            write.sync()
        except OSError:
            write.take_back()
            raise
        self._unstage()  # only now: until here the older file may still take its place
        write.put_in_place()
        self._files.sync_dir(self._path.rpartition("/")[0])
        self._saved = entries

    def _note_latest(self) -> None:
        self.latest_epoch = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH


def _text(entries: list[EpochEntry]) -> bytes:
    return checkpoint_text([f"{epoch} {offset}" for epoch, offset in entries])


def parsed_epochs(path: str, raw: bytes) -> list[EpochEntry]:
    """The content of a `leader-epoch-checkpoint`, from any place.  Errors: CorruptCheckpoint."""
    entries = [EpochEntry(int(epoch), int(offset)) for epoch, offset in checkpoint_lines(path, raw, 2)]
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise CorruptCheckpoint(f"{path}: epoch {after.epoch} does not rise after {before.epoch}")
    return entries


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
