"""● The cache folder that provisioned things live in, its lock, and how a long step shows that it moves.

Callers: `java.py` and `jars.py`.  Nothing appears under its final name before it is complete, so a killed set-up
leaves nothing to clean.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 3.0
"""How often a moving step prints a line if stderr is no terminal."""


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


class Step:
    """A step of known length: a bar on a terminal, elsewhere a line now and then.

    with Step("Apache Kafka 4.3.1", total=95) as step:
        step.reached(12)
    """

    def __init__(self, title: str, total: int) -> None:
        self.title = title
        self.total = total
        self.done = 0
        self.console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.bar.add_task(title, total=total)
        self.printed_at = time.monotonic()

    def reached(self, done: int) -> None:
        """Say that `done` of `total` parts are there."""
        self.done = done
        self.bar.update(self.task, completed=done)
        now = time.monotonic()
        if not self.console.is_terminal and now - self.printed_at >= LINE_EVERY_S:
            self.printed_at = now
            self.console.print(f"{self.title}: {done} of {self.total}", highlight=False)

    def __enter__(self) -> Self:
        if not self.console.is_terminal:
            self.console.print(f"{self.title} …", highlight=False)
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()
