"""● Keeps queries running: a query that fails is started again from its checkpoint, after a pause, and the reason is said.

A failure is often not the query's own: a broker is away, a Python worker did not start in time.  The pause doubles with each
failure in a row and never ends: whoever runs the job sees the reason each time and can stop it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LOOK_S = 1.0
FORGIVEN_AFTER_S = 120.0  # a query that ran so long starts again after the first pause
END_WITHIN_S = 60.0
NEARLY_S = 0.05
TRACEBACK = "Traceback (most recent call last):"
PICKLING = "_pickle.PicklingError: "  # Spark raises it over any error that the sink raises while a batch begins
_PYTHONS = re.compile(r"(?!SQLSTATE)[A-Za-z_][\w.]*: ")


class Watch(Protocol):
    """A function that learns the state of queries."""

    def look(self, name: str, query: StreamingQuery) -> None: ...
    def restarted(self, name: str) -> None: ...
    def say_now_and_then(self, now_s: float) -> None: ...


@dataclass(slots=True)
class Kept:
    """One query: how to start it, and what became of it."""

    name: str
    start: Callable[[], StreamingQuery]
    query: StreamingQuery | None = None
    failures: int = 0
    due_s: float = 0.0  # when it is to be started
    started_s: float = 0.0


def pause_s(failures: int) -> float:
    """1, 2, 4 … 60 seconds after the first, second, third … failure in a row."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16))


def keep_running(queries: Sequence[Kept], stopping: Event, say: Callable[[str], None], now_s: Callable[[], float], watch: Watch) -> None:
    """Returns when `stopping` is set, with all queries stopped, each after the micro-batch that was under way."""
    try:
        while not stopping.is_set():
            for kept in queries:
                look(kept, say, now_s(), watch)
            watch.say_now_and_then(now_s())
            stopping.wait(LOOK_S)
        end_micro_batches([kept.query for kept in queries if kept.query is not None], now_s)
    finally:
        for kept in queries:
            if kept.query is not None:
                kept.query.stop()


def look(kept: Kept, say: Callable[[str], None], now_s: float, watch: Watch) -> None:
    """Start the query when it is due; when it has failed, say why and when it starts again."""
    if kept.query is not None:
        watch.look(kept.name, kept.query)
        if kept.query.isActive:
            return
        _failed(kept, kept.query.exception(), say, now_s)
    if kept.due_s <= now_s:
        try:
            kept.query, kept.started_s = kept.start(), now_s
        except Exception as error:  # Spark answers a start that fails with many classes
            _failed(kept, error, say, now_s)
        else:
            if kept.failures:
                watch.restarted(kept.name)


def end_micro_batches(queries: Sequence[StreamingQuery], now_s: Callable[[], float]) -> None:
    """Waits until each query has ended the micro-batch that is under way, `END_WITHIN_S` at most.

    A micro-batch that is stopped in the middle costs nothing but time: its transaction is not committed.
    """
    before = {query: _newest(query) for query in queries}
    deadline_s = now_s() + END_WITHIN_S
    while now_s() < deadline_s:
        if all(not query.isActive or not query.status["isTriggerActive"] or _newest(query) != before[query] for query in queries):
            return
        Event().wait(NEARLY_S)


def _newest(query: StreamingQuery) -> str | None:
    progress = query.lastProgress
    return None if progress is None else progress.timestamp


def _failed(kept: Kept, error: Exception | None, say: Callable[[str], None], now_s: float) -> None:
    if kept.query is not None and now_s - kept.started_s > FORGIVEN_AFTER_S:
        kept.failures = 0
    kept.query = None
    kept.failures += 1
    kept.due_s = now_s + pause_s(kept.failures)
    say(f"query {kept.name} ended ({reason_of(error)}); it starts again in {pause_s(kept.failures):.0f} s")


def reason_of(error: Exception | None) -> str:
    """The reason in one line.  For a failure in Python, it is the exception itself, which stands below Spark's own words."""
    told = str(error or "stopped by somebody else").partition("=== Streaming Query ===")[0].strip()
    lines = [TRACEBACK if line.endswith(TRACEBACK) else line for line in told.splitlines()] or [type(error).__name__]
    raised = [line for line in lines[lines.index(TRACEBACK) + 1 :] if _PYTHONS.match(line)] if TRACEBACK in lines else []
    ours = [line for line in raised if not line.startswith(PICKLING)] or raised
    prefix = "" if error is None or ours or isinstance(error, StreamingQueryException) else f"{type(error).__name__}: "
    return prefix + (ours[-1] if ours else lines[0])[:400]
