"""◇ One transactional id: its state, what may follow it, and its record.

The table `ALLOWED` is the whole life cycle; the picture in the documentation is drawn from it.

Source: TransactionMetadata, TransactionState; KIP-98, 360, 890.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from moldau.coordinator.outcome import CoordinatorRecord, ProducerIdAndEpoch
from moldau.coordinator.txn.records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from moldau.types import NO_PRODUCER_ID, TopicPartition

LAST_EPOCH: Final = (1 << 15) - 2
"""The last epoch of a producer: it then gets a new id.  The epoch above is kept for fencing."""

EPOCH_BUMP_SINCE: Final = 2
"""The transaction.version from which every end of a transaction bumps the epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The states, numbered as in the log and named as Kafka's tools print them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def title(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


ALLOWED: Final = {
    TransactionState.EMPTY: {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD},
    TransactionState.ONGOING: {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT},
    TransactionState.PREPARE_COMMIT: {TransactionState.COMPLETE_COMMIT},
    TransactionState.PREPARE_ABORT: {TransactionState.COMPLETE_ABORT},
    TransactionState.COMPLETE_COMMIT: {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
        TransactionState.DEAD,
    },
    TransactionState.COMPLETE_ABORT: {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
        TransactionState.DEAD,
    },
    TransactionState.DEAD: set(),
}
"""The states that may follow each state.

PrepareAbort may follow a state without a transaction: a client of version 2 may abort before its first write.
"""

COMPLETION: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
IDLE: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


@dataclass(slots=True, frozen=True)
class Transaction:
    """The log's content about one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The id that takes over when this transaction is complete, because the epochs of this one are used up."""
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    updated_ms: int = -1
    client_version: int = 0
    """The transaction.version of the client, by its last request; after an end that the coordinator decided, of the cluster."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMP_SINCE

    def moved(self, state: TransactionState, **changes: object) -> "Transaction":
        assert state in ALLOWED[self.state], f"{self.transactional_id}: {self.state.title} is never followed by {state.title}"
        return replace(self, state=state, **changes)  # type: ignore[arg-type]

    def added(self, partitions: frozenset[TopicPartition], now_ms: int, client_version: int) -> "Transaction":
        """The transaction with more partitions; the first ones begin it."""
        start_ms = self.start_ms if self.state is TransactionState.ONGOING else now_ms
        return self.moved(
            TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def ended(self, *, is_commit: bool, client_version: int, next_producer_id: int, now_ms: int) -> "Transaction":
        """The transaction once its end is decided: it only waits for the markers."""
        epoch = self.producer_epoch + 1 if client_version >= EPOCH_BUMP_SINCE else self.producer_epoch
        return self.moved(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            producer_epoch=epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """The transaction once every marker is written."""
        done = self.moved(COMPLETION[self.state], partitions=frozenset(), updated_ms=now_ms)
        if self.next_producer_id == NO_PRODUCER_ID:
            return replace(done, previous_producer_id=self.producer_id if self.bumps_epoch else self.previous_producer_id)
        return replace(
            done,
            producer_id=self.next_producer_id,
            producer_epoch=0,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def record(self) -> CoordinatorRecord:
        by_topic: dict[str, list[int]] = {}
        for partition in sorted(self.partitions):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            # An idle id has no list at all, as Kafka writes it.
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id), value)


def read_record(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """The transaction that a record describes."""
    return Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        partitions=frozenset(
            TopicPartition(each.topic, partition) for each in value.transaction_partitions or () for partition in each.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
