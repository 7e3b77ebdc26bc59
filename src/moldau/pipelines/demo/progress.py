"""● How far the run is: bars on a terminal; lines, now and then, where none can be drawn (a file, a pipe, CI)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

SAID_EVERY_S: Final = 5.0


class LineProgress(Progress):
    """A line when a task begins, every few seconds while it goes on, and when it is done."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._said_at: dict[TaskID, float] = {}

    def add_task(self, description: str, *args: Any, **kwargs: Any) -> TaskID:
        task_id = super().add_task(description, *args, **kwargs)
        self._say(task_id, "…")
        return task_id

    def update(self, task_id: TaskID, **kwargs: Any) -> None:
        was_finished = self.tasks[task_id].finished
        super().update(task_id, **kwargs)
        task = self.tasks[task_id]
        is_done = task.finished and not was_finished
        if is_done or (not task.finished and self.get_time() - self._said_at[task_id] >= SAID_EVERY_S):
            self._say(task_id, f": {task.completed:,.0f} of {task.total or 0:,.0f}, {task.elapsed or 0:.1f} s")

    def _say(self, task_id: TaskID, how_far: str) -> None:
        self._said_at[task_id] = self.get_time()
        self.console.print(f"{self.tasks[task_id].description}{how_far}", soft_wrap=True, highlight=False)


def progress_on(console: Console) -> Progress:
    if not console.is_terminal:
        return LineProgress(console)
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


@contextmanager
def step(progress: Progress, what: str) -> Iterator[None]:
    """A task of one piece."""
    task = progress.add_task(what, total=1)
    yield
    progress.update(task, completed=1)
