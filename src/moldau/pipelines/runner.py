"""● Queries kept running: one that fails is started again from its checkpoint, after a pause, with its reason said.

A failure is often not the query's own: a broker is away, a Python worker did not start in time.  The pause doubles with each
failure in a row and never ends: whoever runs the job sees the reason each time and can stop it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LOOK_S = 1.0
FORGIVEN_AFTER_S = 120.0  # a query that ran so long starts again after the first pause


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


def keep_running(queries: Sequence[Kept], stopping: Event, say: Callable[[str], None], now_s: Callable[[], float]) -> None:
    """Returns when `stopping` is set, with all queries stopped."""
    try:
        while not stopping.is_set():
            for kept in queries:
                look(kept, say, now_s())
            stopping.wait(LOOK_S)
    finally:
        for kept in queries:
            if kept.query is not None:
                kept.query.stop()


def look(kept: Kept, say: Callable[[str], None], now_s: float) -> None:
    """Start it when it is due; when it has failed, say why and when it starts again."""
    if kept.query is not None:
        if kept.query.isActive:
            return
        _failed(kept, kept.query.exception(), say, now_s)
    if kept.due_s <= now_s:
        try:
            kept.query, kept.started_s = kept.start(), now_s
        except Exception as error:  # Spark answers a start that fails with many classes
            _failed(kept, error, say, now_s)


def _failed(kept: Kept, error: Exception | None, say: Callable[[str], None], now_s: float) -> None:
    if kept.query is not None and now_s - kept.started_s > FORGIVEN_AFTER_S:
        kept.failures = 0
    kept.query = None
    kept.failures += 1
    kept.due_s = now_s + pause_s(kept.failures)
    say(f"query {kept.name} ended ({_reason(error)}); it starts again in {pause_s(kept.failures):.0f} s")


def _reason(error: Exception | None) -> str:
    """The first line of the innermost cause that Spark names."""
    lines = str(error or "stopped by somebody else").strip().splitlines() or [type(error).__name__]
    prefix = "" if error is None or isinstance(error, StreamingQueryException) else f"{type(error).__name__}: "
    return prefix + lines[0][:300]
