"""The progress of a run as a file or CI sees it."""

import io

from rich.console import Console

from moldau.pipelines.demo.progress import SAID_EVERY_S, LineProgress, progress_on, step


def test_without_a_terminal_every_task_says_when_it_begins_now_and_then_and_when_it_is_done() -> None:
    written = io.StringIO()
    now = 100.0
    progress = progress_on(Console(file=written, width=40))
    progress.get_time = lambda: now
    with progress:
        sending = progress.add_task("orders sent, as fast as this machine can send them", total=2000)
        progress.update(sending, completed=10)
        now += SAID_EVERY_S
        progress.update(sending, completed=1500)
        progress.update(sending, completed=1600)
        now += 1
        progress.update(sending, completed=2000)
        progress.update(sending, completed=2000)
        with step(progress, "stopping"):
            now += 0.5
    assert written.getvalue().splitlines() == [
        "orders sent, as fast as this machine can send them…",
        "orders sent, as fast as this machine can send them: 1,500 of 2,000, 5.0 s",
        "orders sent, as fast as this machine can send them: 2,000 of 2,000, 6.0 s",
        "stopping…",
        "stopping: 1 of 1, 0.5 s",
    ]


def test_a_terminal_gets_bars() -> None:
    assert not isinstance(progress_on(Console(file=io.StringIO(), force_terminal=True)), LineProgress)
