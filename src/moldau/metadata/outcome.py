"""◇ What one decision of the controller is: records to write, and the response to give once they are committed.

The coordinators have an `Outcome` of their own (`coordinator/outcome.py`), which can answer many parked requests, set timers and send
messages.  A decision about metadata answers the one request it was asked, so this one is smaller, and it stands on the lower floor.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from moldau.protocol.wire import StoredRecord

R = TypeVar("R")


@dataclass(slots=True)
class Outcome(Generic[R]):
    """Nothing has happened yet.  `records` are one atomic batch: replaying them IS the change."""

    response: R
    records: list[StoredRecord] = field(default_factory=list)
