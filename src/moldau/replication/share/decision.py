"""◇ What an operation on a share partition decided, to be written before it counts."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from moldau.errors import ErrorCode
from moldau.replication.share.in_flight import Change, RecordState


class StateBatch(NamedTuple):
    """As the share coordinator is told it; offsets are inclusive."""

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
    """What a member says of its records: one type for all of them, or one for each.  Offsets are inclusive."""

    first_offset: int
    last_offset: int
    types: list[int]


class LogBatch(NamedTuple):
    """A record batch of the log, as far as it matters here; offsets are inclusive."""

    base_offset: int
    last_offset: int


class DeathCause(Enum):
    """Why a record is not delivered again.  The text is what dead letters say."""

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
    """Nothing of `changes` counts before `SharePartition.settle` says how the writing of `batches` went."""

    batches: list[StateBatch] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    dead: list[DeadRange] = field(default_factory=list)
    """To be copied to the dead letter topic before `batches` are written."""
    is_freeing: bool = False
    """Records can be acquired that could not be before."""
