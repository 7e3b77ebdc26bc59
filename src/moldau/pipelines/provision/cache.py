"""● The cache folder that provisioned things live in, and its lock.

Callers: `java.py`, and the laboratory's `proof/kafka/jars.py`.  Nothing appears under its final name before it is complete, so a killed
set-up leaves nothing to clean.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console


class ProvisionError(Exception):
    """A thing that a run needs could not be brought; the text names the thing and the way out."""


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/moldau`, by default `~/.cache/moldau`; made when missing."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "moldau"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the machine-wide lock on one provisioned thing; a second process waits and then finds it done."""
    with (cache_dir() / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            Console(stderr=True).print(f"Waiting for another process that is already bringing {name} …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
