"""◇ An answer that comes later, without a task or a future of its own.

later = Later(on_abandoned)
later.complete(value)                       by the one who owes the answer; or later.fail(error)
later.attempt(step)                         a step towards the answer: what it raises is the failure
later.map(transform, rescue).then(take, failed)     by the one who passes the answer on

This module is the one place that contains the failure of a late answer.  `complete`, `fail` and `attempt` never raise an error of a
transform, a rescue, a taker or a step.  They are called from timers, the flusher and replicated logs, which serve other requests, too.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Later(Generic[T]):
    """An answer that is settled once, with a value or with an error, and taken once.  Either may come first.

    A settled answer drops its references to all waiters.  Otherwise the circle of references would keep a request's records until the
    garbage collector runs.
    """

    __slots__ = ("_error", "_failed", "_on_abandoned", "_rescue", "_take", "_transform", "_value")

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        """`on_abandoned` is called when the answer is no longer wanted: the client is gone."""
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
        """Settle with an error: `rescue` makes an answer of the error, or `failed` is called."""
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
        """Run a step towards the answer; the answer fails with the error that the step raises."""
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
        """Note that the answer is no longer wanted and will not be delivered."""
        self._transform = self._rescue = self._take = self._failed = None
        on_abandoned, self._on_abandoned = self._on_abandoned, None
        if on_abandoned is not None:
            on_abandoned()

    def map(self, transform: Callable[[T], U], rescue: Callable[[Exception], U]) -> "Later[U]":
        """This object, from now on with the answer changed by `transform`, or with `rescue` of an error, that of `transform` included."""
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
        """Call `take` with the answer, or `failed` with the error that came instead or that `take` raised."""
        assert self._take is None, "an answer is taken once"
        if self.is_settled:
            self._hand_over(take, failed)
        else:
            self._take, self._failed = take, failed
