"""◇ The states of a transactional producer, as a table.

    UNINITIALIZED ─▶ READY ─▶ IN_TRANSACTION ─▶ COMMITTING ─▶ READY
                                    │                └──▶ ABORTABLE
                                    ├─▶ ABORTABLE ─▶ ABORTING ─▶ READY
                                    └──────────────▶ ABORTING
    every state ─▶ FATAL

Source: TransactionManager.State; KIP-98, 360, 890.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from moldau.clients.errors import AbortableError, FatalError, Fenced
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition


class State(Enum):
    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTABLE = "in a transaction that can only be aborted"
    ABORTING = "aborting"
    FATAL = "at its end"


ALLOWED: Final[Mapping[State, frozenset[State]]] = {
    State.UNINITIALIZED: frozenset({State.READY, State.FATAL}),
    State.READY: frozenset({State.IN_TRANSACTION, State.FATAL}),
    State.IN_TRANSACTION: frozenset({State.COMMITTING, State.ABORTABLE, State.ABORTING, State.FATAL}),
    State.COMMITTING: frozenset({State.READY, State.ABORTABLE, State.FATAL}),
    State.ABORTABLE: frozenset({State.ABORTING, State.FATAL}),
    State.ABORTING: frozenset({State.READY, State.FATAL}),
    State.FATAL: frozenset(),
}

WAYS_OUT: Final[Mapping[State, str]] = {
    State.READY: "begin a transaction first",
    State.COMMITTING: "commit it again until it is known how it ended",
}
"""What a caller should do instead."""
FENCED_BY: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
ENDS_PRODUCER: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)


class Transaction:
    """The state, the partitions that the coordinator knows of, and the error that stops the transaction."""

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.added: set[TopicPartition] = set()
        """Partitions that the client has added to this transaction at the coordinator."""
        self.wanted: dict[TopicPartition, None] = {}
        """Partitions with records that wait to be added."""
        self.has_begun_at_coordinator = False
        """Whether there may be something to commit or abort."""
        self.is_known_at_coordinator = False
        """Version 1: whether the coordinator has confirmed a partition or a group of this transaction."""

    @property
    def is_open(self) -> bool:
        """Whether an abort would end something."""
        return self.state in (State.IN_TRANSACTION, State.ABORTABLE, State.ABORTING)

    def enter(self, state: State) -> None:
        """Enter a state.  Errors: ClientError if the table does not have the step."""
        if state not in ALLOWED[self.state]:
            raise self._misuse(state)
        self.state = state
        if state is State.READY:
            self.error = None
            self.added, self.wanted, self.has_begun_at_coordinator, self.is_known_at_coordinator = set(), {}, False, False

    def _misuse(self, state: State) -> KafkaError:
        if self.error is not None:
            return self.error
        way_out = WAYS_OUT.get(self.state, "one transaction at a time")
        return FatalError(ErrorCode.INVALID_TXN_STATE, f"the producer is {self.state.value} and cannot be {state.value}: {way_out}")

    def check_sendable(self) -> None:
        """Raise if no record may be sent now.  Errors: AbortableError, FatalError."""
        if self.state is not State.IN_TRANSACTION:
            raise self._misuse(State.IN_TRANSACTION) if self.state is not State.READY else _not_begun()

    def fail(self, error: KafkaError) -> KafkaError:
        """Note that a batch or a request of the transaction failed for good.  Returns the error to raise for it."""
        if isinstance(error, FatalError) or error.code in FENCED_BY or error.code in ENDS_PRODUCER:
            kind = Fenced if error.code in FENCED_BY else FatalError
            self.error = error if isinstance(error, FatalError) else kind(error.code, error.detail)
            self.state = State.FATAL
        elif self.state in (State.IN_TRANSACTION, State.COMMITTING):
            self.error = AbortableError(error.code, f"{error.detail}; abort the transaction")
            self.state = State.ABORTABLE
        return self.error or error


def _not_begun() -> KafkaError:
    return FatalError(ErrorCode.INVALID_TXN_STATE, "no transaction has begun: `async with producer.transaction():`")
