"""◇ The registry's answers, remembered.  What is not there yet is raised as `Absent`, for the task to fetch in a thread.

A converter asks `id_of` and `schema`; the answers come at once, or `Absent` tells how to bring them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from moldau.connect.errors import Absent, ConnectError
from moldau.connect.registry.client import Registered

T = TypeVar("T")
MOST: Final = 1000


class Asks(Protocol):
    """The client."""

    def register(self, subject: str, schema: Registered) -> int: ...
    def lookup(self, subject: str, schema: Registered) -> int: ...
    def latest(self, subject: str) -> tuple[int, Registered]: ...
    def schema(self, schema_id: int) -> Registered: ...


class Schemas:
    """See the module."""

    def __init__(self, client: Asks, *, registers: bool = True, uses_latest: bool = False) -> None:
        self._client = client
        self._registers = registers
        self._uses_latest = uses_latest
        self._known: dict[Any, Any] = {}
        self._failed: dict[Any, ConnectError] = {}

    def id_of(self, subject: str, schema: Registered) -> tuple[int, Registered]:
        """The id to write with, and its schema: the given one, or the subject's latest.  Errors: Absent, DataError, RetriableError."""
        if self._uses_latest:
            return self._found(("latest", subject), partial(self._client.latest, subject))
        ask = self._client.register if self._registers else self._client.lookup
        return self._found((subject, schema), partial(ask, subject, schema)), schema

    def schema(self, schema_id: int) -> Registered:
        """Errors: Absent, DataError, RetriableError."""
        return self._found(schema_id, partial(self._client.schema, schema_id))

    def _found(self, key: Any, ask: Callable[[], T]) -> T:
        if key in self._failed:
            raise self._failed.pop(key)
        if key not in self._known:
            raise Absent(partial(self._fetch, key, ask))
        found: T = self._known[key]
        return found

    def _fetch(self, key: Any, ask: Callable[[], Any]) -> None:
        try:
            found = ask()
        except ConnectError as error:
            self._failed[key] = error
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = found
