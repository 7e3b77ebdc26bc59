"""◇ A cache of what was read from the object store, within a limit of bytes: the least recently used entry goes first."""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

K = TypeVar("K")


class ByteCache(Generic[K]):
    """Whoever still holds what goes out of it can read on."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.byte_count = 0
        self._entries: Final[OrderedDict[K, tuple[memoryview, int]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K, now_ms: int = 0) -> memoryview | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries[key] = entry[0], now_ms
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, content: memoryview, now_ms: int = 0) -> None:
        """Keep an entry, unless it alone is larger than the limit."""
        self.discard(key)
        if len(content) > self.max_bytes:
            return
        self._entries[key] = content, now_ms
        self.byte_count += len(content)
        while self.byte_count > self.max_bytes:
            self.discard(next(iter(self._entries)))

    def discard(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.byte_count -= len(entry[0])

    def drop_unused_since(self, then_ms: int) -> None:
        while self._entries:
            key, (_, used_ms) = next(iter(self._entries.items()))
            if used_ms >= then_ms:
                return
            self.discard(key)
