"""◇ An answer that comes later, without a task or a future of its own.

later = Later(on_abandoned)
later.complete(value)                       by the one who owes the answer; or later.fail(error)
later.attempt(step)                         a step towards the answer: what it raises is the failure
later.map(transform, rescue).then(take, failed)     by the one who passes the answer on

Here, and nowhere else, is a failure of a late answer contained.  `complete`, `fail` and `attempt` raise nothing that comes from a
transform, a rescue, a taker or a step: they are called from timers, from the flusher and from replicated logs, on which others wait, too.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Later(Generic[T]):
    """Settled once, with a value or with an error, and taken once; either may come first.

    A settled answer lets go of everybody who waits for it: they know it, and together they would keep a request's records until the garbage
    collector comes by.
    """

    __slots__ = ("_error", "_failed", "_on_abandoned", "_rescue", "_take", "_transform", "_value")

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        """`on_abandoned` is called when nobody wants the answer any more: the client is gone."""
        self._on_abandoned: Callable[[], None] | None = on_abandoned
        self._transform: Callable[[Any], T] | None = None
        self._rescue: Callable[[Exception], T] | None = None
        self._take: Callable[[T], None] | None = None
        self._failed: Callable[[Exception], None] | None = None
        self._value: T | None = None
        self._error: Exception | None = None

    @property
    def is_settled(self) -> bool:
        return self._value is not None or self._error is not None

    def complete(self, value: T) -> None:
        assert not self.is_settled, "an answer comes once"
        transform = self._transform
        if transform is None:
            self._settle(value, None)
            return
        self._transform = None
        try:
            value = transform(value)
        except Exception as error:
            self.fail(error)
        else:
            self._settle(value, None)

    def fail(self, error: Exception) -> None:
        """There is no answer: `rescue` makes one of the error, or `failed` is told."""
        assert not self.is_settled, "an answer comes once"
        self._transform = None
        rescue = self._rescue
        if rescue is None:
            self._settle(None, error)
            return
        self._rescue = None
        try:
            value = rescue(error)
        except Exception as worse:
            self._settle(None, worse)
        else:
            self._settle(value, None)

    def attempt(self, step: Callable[[], None]) -> None:
        """Runs a step towards the answer; the answer fails with what the step raises."""
        try:
            step()
        except Exception as error:
            if self.is_settled:
                raise
            self.fail(error)

    def _settle(self, value: T | None, error: Exception | None) -> None:
        self._value, self._error = value, error
        self._on_abandoned = self._rescue = None
        take, failed = self._take, self._failed
        self._take = self._failed = None
        if take is not None and failed is not None:
            self._hand_over(take, failed)

    def _hand_over(self, take: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        if self._error is not None:
            failed(self._error)
            return
        try:
            take(self._value)  # type: ignore[arg-type]  # settled without an error, it has a value
        except Exception as error:
            failed(error)

    def abandon(self) -> None:
        """Nobody wants it any more, and nobody will be given it."""
        self._transform = self._rescue = self._take = self._failed = None
        on_abandoned, self._on_abandoned = self._on_abandoned, None
        if on_abandoned is not None:
            on_abandoned()

    def map(self, transform: Callable[[T], U], rescue: Callable[[Exception], U]) -> "Later[U]":
        """This one itself, from now on with what `transform` makes of the answer, or `rescue` of an error, that of `transform` included."""
        assert self._take is None and self._transform is None, "an answer is transformed once, before it is taken"
        mapped: Any = self
        value, error = self._value, self._error
        mapped._transform, mapped._rescue = transform, rescue
        if value is not None or error is not None:
            self._value = self._error = None
            if error is None:
                mapped.complete(value)
            else:
                mapped.fail(error)
        return mapped  # type: ignore[no-any-return]

    def then(self, take: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """`take` is given the answer, `failed` the error that came instead or that `take` raised."""
        assert self._take is None, "an answer is taken once"
        if self.is_settled:
            self._hand_over(take, failed)
        else:
            self._take, self._failed = take, failed
