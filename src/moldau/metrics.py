"""◇ What is counted: plain numbers that the loop owns, read by whoever exposes them.

One process, one loop: an increment is an attribute addition and needs no lock.
"""

from collections.abc import Iterator
from typing import Final


class Counter:
    """A number that only grows."""

    __slots__ = ("doc", "name", "value")

    def __init__(self, name: str, doc: str) -> None:
        self.name: Final = name
        self.doc: Final = doc
        self.value = 0


class Registry:
    """The counters of one node."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}

    def counter(self, name: str, doc: str) -> Counter:
        """The one counter of that name: asked for twice, it is the same."""
        return self._counters.setdefault(name, Counter(name, doc))

    def __iter__(self) -> Iterator[Counter]:
        return iter(self._counters.values())
