"""● EndTxn: commit or abort a transaction.

Versions       0-5.
Authorises     WRITE on the transactional id.
Behaviour      Answered once the decision is stored; the markers follow.  Up to version 4 a request on a connection that its producer has
               replaced by a newer one closes that connection.
Version notes  2+ says PRODUCER_FENCED where earlier ones say INVALID_PRODUCER_EPOCH; 5+ answers with the id and epoch of the client's next
               transaction (KIP-890).
Errors         INVALID_REQUEST (an empty transactional id), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of
               `TransactionMachine.end`.
Differs from Kafka: a late EndTxn up to version 4 cannot end the next transaction.
"""

from typing import Final

from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.txn.coordinator import EPOCH_BUMP_REQUEST_SINCE, TransactionMachine
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.server.coordinators.transactions import close_if_of_earlier_transaction, fenced_as_known
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

FENCED_SINCE: Final = 2


@handles(EndTxnRequest)
def end_txn(broker: Broker, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Later[EndTxnResponse]:
    def decide(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
        return machine.end(token, request, context.version, now_ms)

    def fitted(response: EndTxnResponse) -> EndTxnResponse:
        response.error_code = fenced_as_known(response.error_code, context.version, since=FENCED_SINCE)
        return response

    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    if context.version < EPOCH_BUMP_REQUEST_SINCE:
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        close_if_of_earlier_transaction(broker, context, request.transactional_id, producer, ends=True)
    return broker.coordinators.transactions.ask(request.transactional_id, decide, refused=request.refused, transform=fitted)
