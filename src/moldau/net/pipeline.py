"""◇ Replies leave in the order of their requests, in whatever order the replies are made.

slot = pipeline.request()
to_write = pipeline.reply(slot, parts)      # of this request and of later ones that waited for it; None = nothing is sent for it
"""

from collections.abc import Sequence

from moldau.types import Part


class Pipeline:
    """The requests of one connection that are in work."""

    __slots__ = ("_done", "_first", "_next")

    def __init__(self) -> None:
        self._first = 0
        self._next = 0
        self._done: dict[int, Sequence[Part] | None] = {}

    @property
    def in_flight(self) -> int:
        """The number of requests whose replies have not left."""
        return self._next - self._first

    def request(self) -> int:
        """The next request's place in the order of replies."""
        slot = self._next
        self._next = slot + 1
        return slot

    def reply(self, slot: int, parts: Sequence[Part] | None) -> Sequence[Part]:
        """The parts that may leave now; none while an earlier request is in work."""
        assert self._first <= slot < self._next and slot not in self._done, f"slot {slot} was answered twice or never given"
        if slot != self._first:
            self._done[slot] = parts
            return ()
        self._first = slot + 1
        if not self._done:
            return parts or ()
        ready = list(parts or ())
        while self._first in self._done:
            ready += self._done.pop(self._first) or ()
            self._first += 1
        return ready
