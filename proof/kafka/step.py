"""● How a long step of the set-up shows that it moves."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 3.0
"""How often a moving step prints a line if stderr is no terminal."""


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
