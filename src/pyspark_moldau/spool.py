"""● Files by which tasks hand their batches to the driver where both run on one machine.

    driver   plan      `make` gives the micro-batch a folder, and removes those of earlier micro-batches
    tasks    write     a `Spool` each, if they see the folder; another machine does not see it
    driver   commit    `batches_in` reads the files, then `remove` removes the folder

The files are no state.  A micro-batch whose driver died begins anew with a new folder.  Through Spark the same bytes would be copied into
the JVM, through its block manager and out again, and all of them would lie in the driver's memory at once.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from moldau.protocol.records.batch import read_header, verify_crc
from moldau.types import TopicPartition
from pyspark_moldau.private import name_of, private_folder

NOWHERE: Final = ""
"""There is no folder: tasks hand their batches through Spark."""


class SpoolDamaged(Exception):
    """A file does not hold the batches that its task wrote."""


def make(transactional_id: str, token: str) -> str:
    """A new folder for a micro-batch, or `NOWHERE`.  `token`: a text that only this micro-batch has."""
    try:
        remove_all(transactional_id)
        folder = _of_sink(transactional_id) / token
        folder.mkdir(parents=True)
    except OSError:
        return NOWHERE
    return str(folder)


def remove_all(transactional_id: str) -> None:
    """Remove the files of all micro-batches of a sink.  Errors: PermissionError, OSError."""
    shutil.rmtree(_of_sink(transactional_id), ignore_errors=True)


def _of_sink(transactional_id: str) -> Path:
    return private_folder() / f"{name_of(transactional_id)}.spool"


def is_here(folder: str) -> bool:
    """Whether this process sees the folder.  Another machine does not, nor does a task that runs as another user."""
    try:
        return folder != NOWHERE and Path(folder).is_dir()
    except PermissionError:
        return False


def remove(folder: str) -> None:
    if folder != NOWHERE:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another micro-batch has its files there
            Path(folder).parent.rmdir()


class Spool:
    """The file of one task.  Errors: FileExistsError if the task was begun before, OSError."""

    def __init__(self, folder: str, task: int) -> None:
        self.path = str(Path(folder, str(task)))
        self.spans: list[tuple[TopicPartition, int]] = []
        """The partition and the size of each batch, in the order of the file."""
        self._file = Path(self.path).open("xb")  # noqa: SIM115  # a task closes it when its rows end

    def add(self, one: TopicPartition, batch: bytes | bytearray) -> None:
        self._file.write(batch)
        self.spans.append((one, len(batch)))

    def close(self) -> None:
        self._file.close()


def batches_in(path: str, spans: Sequence[tuple[TopicPartition, int]]) -> Iterator[tuple[TopicPartition, bytearray]]:
    """The batches in the order in which they were written.  Errors: SpoolDamaged, OSError."""
    with Path(path).open("rb") as file:
        for one, size in spans:
            batch = bytearray(size)
            if file.readinto(batch) != size or not verify_crc(memoryview(batch), 0, read_header(batch)):
                raise SpoolDamaged(f"{path} does not hold the {len(spans)} batches that its task wrote: the micro-batch begins anew")
            yield one, batch
