"""◇ An answer that comes later, without a task or a future of its own."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Later(Generic[T]):
    """Completed once by whoever owes the answer, taken once by whoever passes it on; either may come first.

    Settled, it lets go of both: they know it, and together they would keep a request's records until the garbage collector comes by.
    """

    __slots__ = ("_on_abandoned", "_take", "_transform", "_value")

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        """`on_abandoned` is called when nobody wants the answer any more: the client is gone."""
        self._on_abandoned: Callable[[], None] | None = on_abandoned
        self._take: Callable[[T], None] | None = None
        self._transform: Callable[[Any], T] | None = None
        self._value: T | None = None

    def complete(self, value: T) -> None:
        assert self._value is None, "an answer comes once"
        transform, self._transform = self._transform, None
        if transform is not None:
            value = transform(value)
        self._value = value
        self._on_abandoned = None
        take, self._take = self._take, None
        if take is not None:
            take(value)

    def abandon(self) -> None:
        """Nobody wants it any more, and nobody will be given it."""
        self._take = self._transform = None
        on_abandoned, self._on_abandoned = self._on_abandoned, None
        if on_abandoned is not None:
            on_abandoned()

    def map(self, transform: Callable[[T], U]) -> "Later[U]":
        """This one itself, from now on with what `transform` makes of the answer."""
        assert self._take is None and self._transform is None, "an answer is transformed once, before it is taken"
        mapped: Any = self
        if self._value is None:
            mapped._transform = transform
        else:
            mapped._value = transform(self._value)
        return mapped  # type: ignore[no-any-return]

    def then(self, take: Callable[[T], None]) -> None:
        assert self._take is None, "an answer is taken once"
        if self._value is None:
            self._take = take
        else:
            take(self._value)
