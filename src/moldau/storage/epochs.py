"""● Which leader epoch began at which offset, and its file `leader-epoch-checkpoint`.

    0                    version
    2                    entries
    0 0                  epoch, start offset: both rise
    3 117

An epoch is on the disk before its first batch is: recovery holds every batch against them, and a follower that asks where one ended must
not get a wrong answer after a crash.  An epoch without a batch need not be there: who begins one does not wait for the disk, and it is
saved beside the loop soon after; a batch that comes sooner waits until it is.  Nor need a log's very first epoch before the first flush:
until then its batches do.
Source: KIP-101, KIP-279; LeaderEpochFileCache, LeaderEpochCheckpointFile.
"""

from bisect import bisect_right
from itertools import pairwise
from threading import Lock
from typing import Final, NamedTuple

from moldau.config import MAX_LONG
from moldau.storage.files import Files

FILE_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where an epoch ended: `end_offset` exclusive; both -1 when nothing is known."""

    epoch: int
    end_offset: int


UNKNOWN_END: Final = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class CorruptCheckpoint(Exception):
    """A checkpoint file that cannot be read: names the file, the line and what is wrong."""


def checkpoint_lines(path: str, raw: bytes, columns: int) -> list[list[str]]:
    """The entries of a file in Kafka's checkpoint form; an empty file has none.  Errors: CorruptCheckpoint."""
    try:
        lines = raw.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path} is no text") from None
    if not lines:
        return []  # Kafka makes a checkpoint's file before it has anything to write, and reads it so
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


class LeaderEpochs:
    """One log's epochs, newest last."""

    def __init__(self, files: Files, directory: str) -> None:
        """Errors: CorruptCheckpoint."""
        self.latest_epoch = UNDEFINED_EPOCH
        self.appendable_epoch = UNDEFINED_EPOCH
        """Batches of this one can be appended with nothing written here before."""
        self.entries: list[EpochEntry] = []
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self._writing = Lock()
        self._saved: list[EpochEntry] | None = None
        if files.exists(self._path):
            self.entries = self._read()
            self._note_latest()
            self.appendable_epoch = self.latest_epoch
            self._saved = self.entries

    def begin(self, epoch: int, start_offset: int) -> None:
        """Whatever is appended next belongs to `epoch`."""
        self.appendable_epoch = UNDEFINED_EPOCH
        self.entries = self._with(epoch, start_offset)
        self._note_latest()

    def assign(self, epoch: int, start_offset: int) -> None:
        """The batch at `start_offset`, which is about to be written, belongs to `epoch`.  What contradicts it was never committed and goes.

        Errors: OSError, and nothing has changed.
        """
        entries = self._with(epoch, start_offset)
        is_first = len(entries) == 1 and self._saved is None
        if is_first or entries is self._saved:
            self.entries = entries
            self._note_latest()
        else:
            self._install(entries)
        self.appendable_epoch = epoch

    def _with(self, epoch: int, start_offset: int) -> list[EpochEntry]:
        if self.entries and (epoch == self.latest_epoch and start_offset >= self.entries[-1].start_offset):
            return self.entries
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        kept = [entry for entry in self.entries if entry.epoch < epoch and entry.start_offset < start_offset]
        return [*kept, EpochEntry(epoch, start_offset)]

    @property
    def is_behind(self) -> bool:
        """Whether the file tells less than is known here, and the next append would wait for it."""
        return self._saved is not None and self.entries is not self._saved

    def save(self) -> None:
        """On the disk, unless it is.  May run in another thread.  Errors: OSError."""
        with self._writing:
            entries = self.entries
            if entries and entries is not self._saved:
                self._write(entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch that is not newer than `epoch` and where it ended."""
        if epoch == UNDEFINED_EPOCH or not self.entries:
            return UNKNOWN_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self.entries, epoch, key=_epoch_of)
        if number == len(self.entries):
            return UNKNOWN_END  # newer than anything here
        end = self.entries[number].start_offset
        return EpochEnd(self.entries[number - 1].epoch if number else epoch, end)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 when it lies before all that is known."""
        number = bisect_right(self.entries, offset, key=_start_of)
        return self.entries[number - 1].epoch if number else UNDEFINED_EPOCH

    def end_of_epoch_at(self, offset: int) -> int:
        """Exclusive: up to where `epoch_for_offset` says the same as for `offset`."""
        number = bisect_right(self.entries, offset, key=_start_of)
        return self.entries[number].start_offset if number < len(self.entries) else MAX_LONG

    @property
    def earliest(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def loaded(self, end_offset: int) -> None:
        """The log was found to end at `end_offset`: epochs from there on have no batch left.  Their lines go with the next append."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self.appendable_epoch = UNDEFINED_EPOCH
            self.entries = kept
            self._note_latest()

    def truncate_from_end(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self._install(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts at `start_offset` now: the epoch that covers it begins there."""
        number = bisect_right(self.entries, start_offset, key=_start_of)
        if number and self.entries[0].start_offset < start_offset:
            self._install([EpochEntry(self.entries[number - 1].epoch, start_offset), *self.entries[number:]])

    def clear(self) -> None:
        if self.entries:
            self._install([])

    def replace(self, entries: list[EpochEntry]) -> None:
        """By those of another replica."""
        self._install(list(entries))

    def moved_to(self, directory: str) -> None:
        with self._writing:
            self._path = f"{directory}/{FILE_NAME}"

    def _install(self, entries: list[EpochEntry]) -> None:
        """On the disk first.  Errors: OSError, and nothing has changed."""
        with self._writing:
            self._write(entries)
            self.entries = entries
        self._note_latest()
        self.appendable_epoch = self.latest_epoch

    def _write(self, entries: list[EpochEntry]) -> None:
        self._files.write_atomically(self._path, checkpoint_text([f"{epoch} {offset}" for epoch, offset in entries]))
        self._saved = entries

    def _note_latest(self) -> None:
        self.latest_epoch = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def _read(self) -> list[EpochEntry]:
        return parsed_epochs(self._path, self._files.read(self._path))


def parsed_epochs(path: str, raw: bytes) -> list[EpochEntry]:
    """The content of a `leader-epoch-checkpoint`, wherever it stood.  Errors: CorruptCheckpoint."""
    entries = [EpochEntry(int(epoch), int(offset)) for epoch, offset in checkpoint_lines(path, raw, 2)]
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise CorruptCheckpoint(f"{path}: epoch {after.epoch} does not rise after {before.epoch}")
    return entries


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
