"""● AddPartitionsToTxn: adds partitions to an open transaction, or checks that they are part of it.

Versions       0-5.
Authorises     WRITE on the transactional id and on each topic; CLUSTER_ACTION from version 4 on.
Behaviour      All partitions of one transaction or none: with one that does not exist the others are not attempted.  Up to version 3 a
               request on a connection that its producer has replaced by a newer one closes that connection.
Version notes  Up to 3 for clients, one transaction; 4+ for brokers, several, and `verify_only` (KIP-890).
Errors         NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST (an empty transactional id), UNKNOWN_TOPIC_OR_PARTITION and
               beside it OPERATION_NOT_ATTEMPTED, and those of `TransactionMachine.add_partitions` and `verify_partitions`.
Differs from Kafka: version 4+ without transactions is answered with an empty list; Kafka gives no answer at all.
"""

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final

from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from moldau.server.coordinators.topic import answered, gather
from moldau.server.coordinators.transactions import close_if_of_earlier_transaction, fenced_as_known
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces
from moldau.server.requests.registry import handles
from moldau.types import TopicPartition

SEVERAL_SINCE: Final = 4
FENCED_SINCE: Final = 2


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Later[AddPartitionsToTxnResponse] | Awaitable[AddPartitionsToTxnResponse]:
    if context.version >= SEVERAL_SINCE:
        return _add_several(broker, context, request)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    close_if_of_earlier_transaction(broker, context, transaction.transactional_id, producer)
    result = _add(broker, context, transaction)
    return gather([result], lambda parts: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=parts[0].topic_results))


async def _add_several(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    results = await in_pieces(broker.clock, partial(_add, broker, context), request.transactions)
    return await answered(gather(results, lambda parts: AddPartitionsToTxnResponse(results_by_transaction=parts)))


def _add(
    broker: Broker, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult | Later[AddPartitionsToTxnResult]:
    asked = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    absent = [each for each in asked if not broker.cluster.has_partition(*each)]
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)

    def same_for_all(code: ErrorCode) -> AddPartitionsToTxnResult:
        return _result(transaction, dict.fromkeys(asked, fenced_as_known(code, context.version, since=FENCED_SINCE)))

    def add(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
        return machine.add_partitions(token, transaction.transactional_id, producer, frozenset(asked), now_ms)

    def verify(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
        return machine.verify_partitions(token, transaction.transactional_id, producer, frozenset(asked))

    if not transaction.transactional_id:
        return same_for_all(ErrorCode.INVALID_REQUEST)
    if absent:
        codes = dict.fromkeys(asked, ErrorCode.OPERATION_NOT_ATTEMPTED) | dict.fromkeys(absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _result(transaction, codes)
    transactions = broker.coordinators.transactions
    if transaction.verify_only:
        return transactions.ask(
            transaction.transactional_id, verify, refused=same_for_all, transform=lambda codes: _result(transaction, codes)
        )
    return transactions.ask(transaction.transactional_id, add, refused=same_for_all, transform=same_for_all)


def _result(transaction: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)])
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )
