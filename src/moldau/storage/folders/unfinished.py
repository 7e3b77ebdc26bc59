"""◇ Marks a log that is being replaced from elsewhere: until the end of that the log counts as empty.

While the file `unfinished` stands in a log's directory, no other file there means anything: some are of the log that was, some of the one
that is to be, and a crash brings back what it likes.  A start that finds it throws them away and begins an empty log, which a leader fills:

    begin     `unfinished` is durable, before anything is touched
    …         whatever has to be done, durably
    end       `unfinished` is gone: the log is whole
    discard   at a start: everything else is gone, durably, then `unfinished`

The recovery point on the disk is 0 and the log's start is noted as it was all the while: see `manager`.  Kafka does not look at the file.
"""

from contextlib import suppress
from typing import Final

from moldau.storage.files import Files
from moldau.storage.folders.checkpoints import PARTITION_METADATA

UNFINISHED: Final = "unfinished"


def is_unfinished(files: Files, directory: str) -> bool:
    return files.exists(_path(directory))


def begin(files: Files, directory: str) -> None:
    """Errors: OSError."""
    files.open(_path(directory), create=True).close()
    files.sync_dir(directory)


def end(files: Files, directory: str) -> None:
    """End the mark; the work is durable already.  Errors: OSError."""
    with suppress(FileNotFoundError):
        files.unlink(_path(directory))
    files.sync_dir(directory)


def discard(files: Files, directory: str) -> None:
    """Errors: OSError."""
    for name in files.listdir(directory):
        if name not in (UNFINISHED, PARTITION_METADATA):
            files.unlink(f"{directory}/{name}")
    files.sync_dir(directory)
    end(files, directory)


def _path(directory: str) -> str:
    return f"{directory}/{UNFINISHED}"
