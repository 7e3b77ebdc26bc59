"""● Notes by which the commit of a micro-batch passes its epoch on to the next plan: at most one process gets what a note says.

Plans and commits run in any of this user's processes.  A note is a file of a name of its own.  `leave` puts it there whole, and `take`
renames it to a name that only the taker knows, which succeeds once.  A note that was taken is gone also after a loss of power.

What a file says is input.  A file that is no note, such as a damaged one or another program's, is removed and says nothing.
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pyspark_moldau.private import private_folder

FORM: Final = re.compile(rb"epoch ([0-9]{1,19}) ([0-9]{1,5})\n")
"""The end of the line says that the numbers are whole."""
MOST_BYTES: Final = 64


class Note(NamedTuple):
    """An epoch that its holder passed on."""

    producer_id: int
    epoch: int


def leave(name: str, note: Note, token: str) -> None:
    """Leave a note, in place of an older one.  `token`: a text that only this call has.  Errors: PermissionError, OSError."""
    file = private_folder() / name
    part = _own(file, token)
    try:
        part.write_bytes(b"epoch %d %d\n" % note)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)  # the disk is full


def take(name: str, token: str) -> Note | None:
    """Take the note away.  None if there is none.  `token`: a text that only this call has.  Errors: PermissionError, OSError."""
    file = private_folder() / name
    own = _own(file, token)
    try:
        file.rename(own)
    except FileNotFoundError:
        return None
    try:
        found = FORM.fullmatch(_read(own))
    finally:
        with suppress(OSError):
            own.unlink()
        _sync(file.parent)
    return None if found is None else Note(int(found[1]), int(found[2]))


def _own(file: Path, token: str) -> Path:
    return file.with_name(f"{file.name}.{token}")


def _read(file: Path) -> bytes:
    """Errors: PermissionError if it is no plain file of this user; OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe without a writer would wait for one
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{file} is not a file of this user")
        return os.read(descriptor, MOST_BYTES)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    """Otherwise a note that was taken could be there again after a loss of power, while tasks on other machines write with its epoch."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
