"""◇ The outcome of one decision of the controller: the records to write, and the response once they are committed.

The coordinators have an `Outcome` of their own (`coordinator/outcome.py`), which can answer many parked requests, set timers and send
messages.  A decision about metadata answers one request, so this outcome is smaller, and it stands on the lower floor.
"""

from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from moldau.errors import ErrorCode
from moldau.protocol.wire import StoredRecord

R = TypeVar("R")

MAX_BATCH_RECORDS: Final = 10_000
"""The most records of one batch of the metadata log, and so of an atomic decision.  Source: QuorumController.MAX_RECORDS_PER_USER_OP."""
PIECE: Final = 500
"""The number of partitions that one turn of the event loop moves away from a broker: about 15 ms."""


class Refusal(NamedTuple):
    """The reason of a refusal, as a code and in words."""

    code: ErrorCode
    message: str


class Piece(NamedTuple):
    """The records of one piece of a decision, and whether they are all that there are to write."""

    records: list[StoredRecord]
    is_complete: bool


@dataclass(slots=True)
class Outcome(Generic[R]):
    """A decision that has no effect yet.  Replaying `records` IS the change."""

    response: R
    records: list[StoredRecord] = field(default_factory=list)
    is_atomic: bool = True
    """All records are one batch, all or nothing.  Otherwise each record stands for itself, and any number of them is allowed."""
    is_piece: bool = False
    """Whether more is to be done than one turn should take.  The same decision is asked again once `records` are replayed; until then
    `response` has no meaning.
    """
