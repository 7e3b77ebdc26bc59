"""◇ The decision of an operation on a share partition.  It is written before it counts."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from moldau.errors import ErrorCode
from moldau.replication.share.in_flight import Change, RecordState


class StateBatch(NamedTuple):
    """A batch of state for the share coordinator; offsets are inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: RecordState
    delivery_count: int


class AcquiredRange(NamedTuple):
    """Records that a member got; offsets are inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcknowledgedRange(NamedTuple):
    """A member's acknowledgement of records: one type for all of them, or one for each.  Offsets are inclusive."""

    first_offset: int
    last_offset: int
    types: list[int]


class LogBatch(NamedTuple):
    """A record batch of the log, as far as share partitions need it; offsets are inclusive."""

    base_offset: int
    last_offset: int


class DeathCause(Enum):
    """The reason why a record is not delivered again.  Dead letters carry the text."""

    REJECTED = "Offset rejected by client."
    DELIVERIES_EXHAUSTED = "Offset delivery count exceeded the threshold."


class DeadRange(NamedTuple):
    """Records for the dead letter topic; offsets are inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: DeathCause


class Refusal(NamedTuple):
    code: ErrorCode
    message: str


@dataclass(slots=True)
class Decision:
    """A decision.  Its `changes` count only after `SharePartition.settle` was told whether `batches` were written."""

    batches: list[StateBatch] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    dead: list[DeadRange] = field(default_factory=list)
    """The records to copy to the dead letter topic before `batches` are written."""
    is_freeing: bool = False
    """Whether records can be acquired that could not be before."""
