"""● DescribeTransactions: the state of transactional ids.

Versions       0.
Authorises     DESCRIBE on each transactional id, and on the topics shown.
Errors         On an id INVALID_REQUEST (empty), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_NOT_FOUND.
Differs from Kafka: nothing known.
"""

from functools import partial

from moldau.coordinator.outcome import Outcome, Token
from moldau.coordinator.txn.coordinator import TransactionMachine, not_described
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from moldau.server.coordinators.topic import answered, gather
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces
from moldau.server.requests.registry import handles


@handles(DescribeTransactionsRequest)
async def describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    parts = await in_pieces(broker.clock, partial(_describe, broker), request.transactional_ids)
    return await answered(gather(parts, lambda states: DescribeTransactionsResponse(transaction_states=states)))


def _describe(broker: Broker, transactional_id: str) -> TransactionState | Later[TransactionState]:
    def refused(code: ErrorCode) -> TransactionState:
        return not_described(transactional_id, code)

    def decide(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
        return machine.describe(token, transactional_id)

    if not transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    return broker.coordinators.transactions.ask(transactional_id, decide, refused=refused)
