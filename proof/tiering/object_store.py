"""● An object store in memory that fails or stops where a test says so."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from moldau.storage.tiered.store import StoredObject

Hook = Callable[[str, str], None]
"""Called with (call, object name) before each step of a call.  It may raise."""


class MemoryObjectStore:
    """An object store.  `put` shows an object only when all of it is there, as object stores do; a hook sees each put begin and end."""

    def __init__(self, *, hook: Hook = lambda call, name: None, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.objects: Final[dict[str, tuple[bytes, int]]] = {}
        self.reads: Final[list[tuple[str, int, int | None]]] = []
        self.hook = hook
        self._now_ms: Final = now_ms

    def put(self, name: str, content: Iterable[bytes]) -> None:
        self.hook("put", name)
        self.objects[name] = b"".join(content), self._now_ms()
        self.hook("stored", name)

    def get(self, name: str, start: int = 0, size: int | None = None) -> memoryview:
        self.hook("get", name)
        if name not in self.objects:
            raise FileNotFoundError(name)
        self.reads.append((name, start, size))
        content = self.objects[name][0]
        return memoryview(content)[start : len(content) if size is None else start + size]

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.hook("delete", name)
            self.objects.pop(name, None)

    def list(self, folder: str) -> Iterator[StoredObject]:
        self.hook("list", folder)
        for name, (content, modified_ms) in sorted(self.objects.items()):
            if name.startswith(folder):
                yield StoredObject(name, len(content), modified_ms)
