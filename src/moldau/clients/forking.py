"""● Clients in a process that was forked: those that its parent has started refuse to work.

Their connections are the parent's, too: a byte of the child would be read as part of the parent's requests.  Their event loop does not run
in the child, so that a call would wait for ever.  A client that was made, and not used, before the fork works in the child.

The operating system's own hook calls `Started.forked`, so a client that works is not slowed down.  Used by each client.
"""

import os
import weakref
from typing import Final, Protocol

from moldau.clients.errors import FatalError
from moldau.errors import ErrorCode

DETAIL: Final = "this client was used before the process forked: make clients after the fork"


class Started(Protocol):
    """A client with a loop or connections."""

    def forked(self) -> None:
        """Refuse everything from now on.  The loop and the sockets are the parent's: touch neither."""


def watch(client: Started) -> None:
    """Call `client.forked` in every process that is forked from now on."""
    _STARTED.add(client)


def refusal() -> FatalError:
    return FatalError(ErrorCode.INVALID_REQUEST, DETAIL)


_STARTED: Final["weakref.WeakSet[Started]"] = weakref.WeakSet()


def _forked() -> None:
    for client in list(_STARTED):
        client.forked()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forked)
