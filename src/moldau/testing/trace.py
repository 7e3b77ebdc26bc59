"""◇ The events of a simulation as one SHA-256: two runs that differ anywhere end with different digests."""

import hashlib
from struct import Struct

_TIME = Struct(">d")


class Trace:
    """A running digest of events; with `keep` the events themselves, too, to find where two runs part."""

    def __init__(self, *, keep: bool = False) -> None:
        self.events = 0
        self.kept: list[str] | None = [] if keep else None
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def note_timer(self, when: float) -> None:
        self.events += 1
        self._digest.update(_TIME.pack(when))
        if self.kept is not None:
            self.kept.append(f"timer {when:.9f}")

    def note(self, event: str, data: bytes | memoryview = b"") -> None:
        self.events += 1
        self._digest.update(event.encode())
        self._digest.update(data)
        if self.kept is not None:
            self.kept.append(f"{event} {hashlib.sha256(data).hexdigest()[:12] if data else ''}")
