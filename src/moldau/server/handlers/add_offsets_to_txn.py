"""● AddOffsetsToTxn: the group's partition of `__consumer_offsets` becomes part of the transaction.

Versions       0-4.
Authorises     WRITE on the transactional id, READ on the group.
Behaviour      What AddPartitionsToTxn does, for the one partition that the group hashes onto.  A request on a connection that its
               producer has replaced by a newer one closes that connection.
Errors         INVALID_REQUEST (an empty transactional id), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of
               `TransactionMachine.add_partitions`.
Differs from Kafka: a late request cannot begin or widen the next transaction.
"""

from typing import Final

from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.server.coordinators.transactions import close_if_of_earlier_transaction, fenced_as_known
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.types import TopicPartition

FENCED_SINCE: Final = 2


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Later[AddOffsetsToTxnResponse]:
    groups = broker.coordinators.groups
    partition = TopicPartition(groups.topic, groups.partition_for(request.group_id))
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)

    def decide(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
        return machine.add_partitions(token, request.transactional_id, producer, frozenset({partition}), now_ms)

    def answered(code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fenced_as_known(code, context.version, since=FENCED_SINCE))

    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    close_if_of_earlier_transaction(broker, context, request.transactional_id, producer)
    return broker.coordinators.transactions.ask(request.transactional_id, decide, refused=answered, transform=answered)
