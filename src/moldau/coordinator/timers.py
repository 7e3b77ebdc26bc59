"""◇ Timers of one shard: a heap of due times, keyed so that setting one again replaces it."""

import heapq
from collections.abc import Callable, Hashable

from moldau.coordinator.outcome import Outcome, Timer


class TimerQueue:
    """Setting and cancelling are O(log n) and O(1): entries replaced meanwhile stay in the heap until they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._armed: dict[Hashable, tuple[int, Callable[[int], Outcome]]] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._armed)

    def apply(self, timer: Timer, ahead_ms: int = 0) -> None:
        """Set or cancel a timer.  `ahead_ms`: how far this queue's clock is ahead of the one that `timer` was made with."""
        if timer.due_ms is None or timer.operation is None:
            self._armed.pop(timer.key, None)
            return
        self._sequence += 1
        self._armed[timer.key] = (self._sequence, timer.operation)
        heapq.heappush(self._heap, (timer.due_ms + ahead_ms, self._sequence, timer.key))
        if len(self._heap) > 64 + 2 * len(self._armed):
            self._drop_replaced()

    def next_due_ms(self) -> int | None:
        while self._heap and not self._is_armed(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Callable[[int], Outcome] | None:
        """The operation of the timer that is due longest, or None."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._armed.pop(key)[1]

    def _is_armed(self, entry: tuple[int, int, Hashable]) -> bool:
        _, sequence, key = entry
        armed = self._armed.get(key)
        return armed is not None and armed[0] == sequence

    def _drop_replaced(self) -> None:
        # A heartbeat replaces its member's timer each time: without this the heap would hold every heartbeat of a session.
        self._heap = [entry for entry in self._heap if self._is_armed(entry)]
        heapq.heapify(self._heap)
