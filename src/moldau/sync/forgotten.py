"""● Blocking clients that their program does not close.  They are closed when nobody holds them any more, else at the end of the program.

A producer's records arrive so, and a consumer leaves its group.  A process that was forked leaves its parent's clients alone.
"""

import atexit
import concurrent.futures.thread  # noqa: F401  has to register its exit before this module does
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Final

from moldau.sync.portal import Portal

LOG: Final = logging.getLogger(__name__)

AT_EXIT_S: Final = 10.0
"""How long the end of a program waits for clients, in seconds."""

_OPEN: Final[set["Closing"]] = set()
_CLOSING: Final[set[Future[None]]] = set()


class Closing:
    """The end of one client.  `close` must not hold the client itself."""

    def __init__(self, client: object, portal: Portal, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._portal = portal
        self._close = close
        self._finalizer = weakref.finalize(client, self.begin)
        self._finalizer.atexit = False
        _OPEN.add(self)

    def done(self) -> None:
        """The program has closed the client."""
        self._finalizer.detach()
        _OPEN.discard(self)

    def begin(self) -> None:
        """Close the client without waiting: a finalizer runs on any thread, the loop's own and one that makes the loop among them."""
        self.done()
        if self._portal.has_loop and not self._portal.is_of_parent:
            future = self._portal.spawn(self._close())
            _CLOSING.add(future)
            future.add_done_callback(_CLOSING.discard)


def close_all() -> None:
    """Close the clients that are open, and wait up to AT_EXIT_S."""
    for client in list(_OPEN):
        client.begin()
    late = wait(list(_CLOSING), AT_EXIT_S).not_done
    if late:
        LOG.warning("the program did not close all its clients, and %.0f s were not enough for the rest: records may be lost", AT_EXIT_S)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_CLOSING.clear)  # the loop that would end them is the parent's

# Functions of `atexit` come too late: the executors have ended by then, and the loop looks names of hosts up in one.  These functions run
# in the reverse order of their registration, ours before that of the executors.
getattr(threading, "_register_atexit", atexit.register)(close_all)
