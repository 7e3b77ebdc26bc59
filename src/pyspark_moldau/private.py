"""● The folder of this user alone in which the processes of one machine leave each other notes and records."""

import os
import stat
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o700


def private_folder() -> Path:
    """In the folder for temporary files, which TMPDIR names.  Errors: PermissionError if the folder is another user's, or open to others;
    OSError.
    """
    folder = Path(tempfile.gettempdir(), f"moldau-sink-{os.getuid()}")
    folder.mkdir(PRIVATE, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != PRIVATE:
        raise PermissionError(f"{folder} is not a folder of this user alone")
    return folder


def name_of(transactional_id: str) -> str:
    """A file's name for a transactional id, which may hold any character."""
    return sha256(transactional_id.encode()).hexdigest()[:32]
