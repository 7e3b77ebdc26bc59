"""● The steps of a transaction, one call each, for a producer whose parts run in several processes.

A transaction belongs to (transactional id, producer id, epoch).  Any process that has the three may write into it or end it.

    producer = begin(cluster, "copier", timeout_ms=60_000)          # fences the predecessor and ends its transaction
    ...                                                             # tasks write with `producer`
    add_offset(cluster, "copier", producer, "copier", mark)
    end(cluster, "copier", producer, commit=True)

With transaction.version 2 the brokers that get records and offsets add their partitions themselves.  With lower levels `add_partitions` has
to come first.

Source: KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from moldau.clients.blocking.cluster import GROUP, TRANSACTION, BlockingCluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.types import TopicPartition

ADDS_PARTITIONS_ITSELF: Final = 2
"""The level of transaction.version from which on brokers add partitions themselves."""
NEVER_USED: Final = "Empty"
"""What a transactional id's state is called between a new epoch and its first transaction."""


class TransactionalProducer(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_version: int


class OffsetMark(NamedTuple):
    """A group's offset that becomes visible with the transaction."""

    group_id: str
    topics: tuple[str, ...]
    """The topics of the offset.  It is kept for partition 0 of each topic, so it lives as long as one of them."""
    offset: int
    metadata: str


def begin(cluster: BlockingCluster, transactional_id: str, *, timeout_ms: int) -> TransactionalProducer:
    """Begin a new epoch of a transactional id.

    The producer of the epoch before is fenced.  Its open transaction is aborted; a transaction that it had decided to end is ended first.

    Errors: KafkaError, OSError.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def attempt() -> TransactionalProducer:
        connection = cluster.to_node(cluster.coordinator_of(transactional_id, TRANSACTION))
        response = connection.send(request, version=min(connection.version_of(InitProducerIdRequest), 5))
        _raise_for(cluster, response.error_code, transactional_id, "begin a transaction")
        return TransactionalProducer(transactional_id, response.producer_id, response.producer_epoch, connection.transaction_version)

    return cluster.retrying(attempt)


def resume(
    cluster: BlockingCluster, transactional_id: str, producer_id: int, epoch: int, *, timeout_ms: int
) -> TransactionalProducer | None:
    """The producer of an epoch that nobody has written with, if none came after it and its transactions have this time-out.

    Writes no record.  Whoever calls must know that nobody else holds the epoch.  Errors: KafkaError, OSError.
    """
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def attempt() -> TransactionalProducer | None:
        connection = cluster.to_node(cluster.coordinator_of(transactional_id, TRANSACTION))
        found = connection.send(request).transaction_states[0]
        if found.error_code and ErrorCode.of(found.error_code).retriable:
            _raise_for(cluster, found.error_code, transactional_id, "ask for the state")
        held = (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch, found.transaction_timeout_ms)
        if held != (ErrorCode.NONE, NEVER_USED, producer_id, epoch, timeout_ms):
            return None
        return TransactionalProducer(transactional_id, producer_id, epoch, connection.transaction_version)

    return cluster.retrying(attempt)


def add_partitions(cluster: BlockingCluster, producer: TransactionalProducer, partitions: Collection[TopicPartition]) -> None:
    """Add partitions to the transaction.  Needed before transaction.version 2, before anything is written there.  Errors: KafkaError,
    OSError.
    """
    topics: dict[str, list[int]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic, []).append(one.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=of) for name, of in topics.items()],
    )

    def attempt() -> None:
        connection = cluster.to_node(cluster.coordinator_of(producer.transactional_id, TRANSACTION))
        response = connection.send(request, version=min(connection.version_of(AddPartitionsToTxnRequest), 3))
        _raise_for(cluster, _first_error(response), producer.transactional_id, "add partitions to the transaction")

    if topics:
        cluster.retrying(attempt)


def _first_error(response: AddPartitionsToTxnResponse) -> int:
    codes = [one.partition_error_code for topic in response.results_by_topic_v3_and_below for one in topic.results_by_partition]
    telling = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    return telling[0] if telling else max(codes, default=0)


def add_offset(cluster: BlockingCluster, producer: TransactionalProducer, mark: OffsetMark) -> None:
    """Add an offset to the transaction.  Errors: KafkaError, OSError."""
    adds_itself = producer.transaction_version >= ADDS_PARTITIONS_ITSELF
    if not adds_itself:
        _add_group(cluster, producer, mark.group_id)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=mark.offset, committed_metadata=mark.metadata)
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=mark.group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition]) for topic in mark.topics],
    )

    def attempt() -> None:
        connection = cluster.to_node(cluster.coordinator_of(mark.group_id, GROUP))
        version = connection.version_of(TxnOffsetCommitRequest)
        response = connection.send(request, version=min(version, 5 if adds_itself else 4))
        code = next((one.error_code for topic in response.topics for one in topic.partitions if one.error_code), 0)
        if code:
            cluster.forget_coordinator(mark.group_id, GROUP)
        _raise_for(cluster, code, producer.transactional_id, "mark the transaction")

    cluster.retrying(attempt)


def _add_group(cluster: BlockingCluster, producer: TransactionalProducer, group_id: str) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=group_id
    )

    def attempt() -> None:
        connection = cluster.to_node(cluster.coordinator_of(producer.transactional_id, TRANSACTION))
        _raise_for(cluster, connection.send(request).error_code, producer.transactional_id, "add a group to the transaction")

    cluster.retrying(attempt)


def end(cluster: BlockingCluster, producer: TransactionalProducer, *, commit: bool) -> None:
    """End the transaction.

    A repeated call is answered like the first one, as long as no new transaction has begun.  Errors: KafkaError, OSError.
    """
    request = EndTxnRequest(
        transactional_id=producer.transactional_id, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commit
    )
    newest = 5 if producer.transaction_version >= ADDS_PARTITIONS_ITSELF else 4

    def attempt() -> None:
        connection = cluster.to_node(cluster.coordinator_of(producer.transactional_id, TRANSACTION))
        response = connection.send(request, version=min(connection.version_of(EndTxnRequest), newest))
        _raise_for(cluster, response.error_code, producer.transactional_id, "commit" if commit else "abort")

    cluster.retrying(attempt)


def _raise_for(cluster: BlockingCluster, error_code: int, transactional_id: str, what: str) -> None:
    if error_code:
        cluster.forget_coordinator(transactional_id, TRANSACTION)
        code = ErrorCode.of(error_code)
        raise KafkaError(code, f"{what} of {transactional_id}: {code.text}")
