"""◇ Requests that wait: a produce for its acknowledgement, a fetch for something to read, each for a limited time.

No request polls.  A partition that grows wakes the requests parked on it.  A parked request ends exactly once: it is satisfied, or its time
runs out.  `Timeouts` keeps the deadlines in buckets, so that parking and leaving early (the usual case) are two dictionary operations, and
a node without waiting requests has nothing to look at.

Source: DelayedOperation, DelayedProduce, DelayedFetch, SystemTimer.  Called by `partition.py` and the handlers of produce and fetch.
"""

import heapq
from collections.abc import Callable
from typing import Final, Protocol

from moldau.errors import ErrorCode

TICK_MS: Final = 8
"""A wait may end this much late."""


class Parked:
    """A request that waits."""

    __slots__ = ("_on_done", "bucket", "is_done")

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done: Callable[[], None] | None = on_done
        self.is_done = False
        self.bucket = -1

    def finish(self) -> None:
        """End the wait, unless it has ended."""
        if not self.is_done:
            self.is_done = True
            on_done = self._on_done
            # The parked request and its waiters refer to each other: together they would keep a request's records until the garbage
            # collector runs.
            self._on_done = None
            assert on_done is not None
            on_done()


class Timeouts:
    """The deadlines of parked requests."""

    def __init__(self, on_earlier: Callable[[int], None]) -> None:
        """`on_earlier(due_ms)` is called when a new deadline is the earliest: the shell arms its timer."""
        self._on_earlier: Final = on_earlier
        self._buckets: dict[int, dict[Parked, None]] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, parked: Parked, due_ms: int) -> None:
        number = -(-due_ms // TICK_MS)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            heapq.heappush(self._order, number)
            if self._order[0] == number:
                self._on_earlier(number * TICK_MS)
        bucket[parked] = None
        parked.bucket = number

    def discard(self, parked: Parked) -> None:
        """Forget a request that ended before its time, or was never added."""
        bucket = self._buckets.get(parked.bucket)
        if bucket is not None:
            bucket.pop(parked, None)

    def next_due_ms(self) -> int | None:
        """The time to look again.  An empty bucket counts until its time has come, which costs one look."""
        return self._order[0] * TICK_MS if self._order else None

    def expire(self, now_ms: int) -> None:
        """End the requests whose time is over."""
        while self._order and self._order[0] * TICK_MS <= now_ms:
            for parked in self._buckets.pop(heapq.heappop(self._order)):
                parked.finish()


class Acknowledged(Protocol):
    """The place for the outcome of one partition's produce: its part of the response."""

    error_code: int


class Deleted(Acknowledged, Protocol):
    """The place for the outcome of one partition's deletion."""

    low_watermark: int


class ProduceWait(Parked):
    """One request that changes partitions, a produce with acks=all or a deletion: answered when each of its partitions is."""

    __slots__ = ("pending",)

    def __init__(self, on_done: Callable[[], None], *, expects_more: bool = False) -> None:
        """`expects_more`: it is not answered before `no_more`, though all that it waits for so far may be settled."""
        super().__init__(on_done)
        self.pending = 1 if expects_more else 0

    def no_more(self) -> None:
        """Everything that the request changes has been changed."""
        if not self.is_done:
            self.pending -= 1
            if not self.pending:
                self.finish()

    def expect(self, slot: Acknowledged) -> None:
        """Wait for one more partition.  Until it is settled its answer is a timeout."""
        slot.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.pending += 1

    def settle(self, slot: Acknowledged, code: ErrorCode) -> None:
        if self.is_done:
            return  # the client has already got a timeout
        slot.error_code = code
        self.pending -= 1
        if not self.pending:
            self.finish()


class Watch(Protocol):
    """One follower's session with one partition.  It is told of changes instead of looking for them."""

    @property
    def replica_id(self) -> int: ...

    @property
    def asked_ms(self) -> int:
        """The steady clock's time of the last fetch."""
        ...

    def changed(self, *, has_grown: bool) -> None:
        """Note that there is something to tell or, if it `has_grown`, to fetch at once."""
        ...


class FetchWait(Parked):
    """One fetch that asked for more bytes than there were."""

    __slots__ = ("missing_bytes",)

    def __init__(self, missing_bytes: int, on_done: Callable[[], None]) -> None:
        super().__init__(on_done)
        self.missing_bytes = missing_bytes

    def found(self, byte_count: int) -> None:
        """Note that so many more bytes can be read than when it was parked, or than it was told last."""
        self.missing_bytes -= byte_count
        if self.missing_bytes <= 0:
            self.finish()
