"""● Measures the turns of a broker's loop in CPU time of its thread.  The broker runs in this process and is measured from outside.

with measured() as turns, broker_as_in_a_process() as broker:
    turns.begin()
    ...
    assert turns.longest_s <= LONGEST_TURN_S, turns.what
"""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from moldau.server.node.process import YOUNG_OBJECTS
from moldau.testing.embedded import EmbeddedBroker

LONGEST_TURN_S: Final = 0.25
"""The longest turn allowed.  Work that grows with the square of a request's size would take seconds."""


class Turns:
    """The longest turn of the broker's loop since `begin`, in seconds of CPU time of its thread."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.what = ""

    def begin(self) -> None:
        self.longest_s, self.what = 0.0, ""

    def note(self, elapsed_s: float, handle: asyncio.Handle) -> None:
        if elapsed_s > self.longest_s:
            self.longest_s, self.what = elapsed_s, repr(handle)


@contextmanager
def measured() -> Iterator[Turns]:
    turns, run = Turns(), asyncio.Handle._run

    def timed(handle: Any) -> None:
        if threading.current_thread().name != "moldau-embedded":
            run(handle)
            return
        began_s = time.thread_time()
        run(handle)
        turns.note(time.thread_time() - began_s, handle)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
    try:
        yield turns
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


@contextmanager
def broker_as_in_a_process(properties: Mapping[str, str] | None = None) -> Iterator[EmbeddedBroker]:
    """A broker in this process that collects garbage as seldom as `moldau serve` does."""
    with EmbeddedBroker(properties=properties) as broker:
        thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG_OBJECTS)
        try:
            yield broker
        finally:
            gc.set_threshold(*thresholds)
