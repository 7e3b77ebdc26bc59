"""● Writes dirty pages to a disk and does not flush the disk, as the kernel's own writeback does."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

SYNC_FILE_RANGE_WRITE: Final = 2


def write_back(folder: Path, share: float, chance: Random) -> None:
    """Write the pages of about `share` of the files in the folder's folders."""
    libc = ctypes.CDLL(None)
    with suppress(OSError):
        for path in [path for path in folder.glob("*/*") if chance.random() < share]:
            file = os.open(path, os.O_RDONLY)
            libc.sync_file_range(file, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)
            os.close(file)
