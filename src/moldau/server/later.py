"""◇ An answer that comes later, without a task or a future of its own."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    """Completed once by whoever owes the answer, taken once by whoever passes it on; either may come first."""

    __slots__ = ("_take", "_value", "on_abandoned")

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        """`on_abandoned` is called when nobody wants the answer any more: the client is gone."""
        self.on_abandoned: Final = on_abandoned
        self._take: Callable[[T], None] | None = None
        self._value: T | None = None

    def complete(self, value: T) -> None:
        assert self._value is None, "an answer comes once"
        self._value = value
        if self._take is not None:
            self._take(value)

    def then(self, take: Callable[[T], None]) -> None:
        assert self._take is None, "an answer is taken once"
        self._take = take
        if self._value is not None:
            take(self._value)
