"""● ListTransactions: every transactional id that this broker coordinates.

Versions       0-2.
Authorises     DESCRIBE on each transactional id.
Version notes  1+ filters by how long a transaction runs (KIP-994); 2+ by a regular expression of ids (KIP-1152).
Errors         COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION.  Names of states that do not exist are answered, not refused.
Differs from Kafka: a filter by duration passes over transactions that are Empty; Kafka counts them as running since 1970.
"""

from moldau.coordinator.group.regex import RegexError, compile_regex
from moldau.coordinator.txn.state import TransactionState as State
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from moldau.server.coordinators.topic import gather
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

STATE_NAMES = frozenset(state.title for state in State)


@handles(ListTransactionsRequest)
def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Later[ListTransactionsResponse]:
    transactions = broker.coordinators.transactions
    unknown = [name for name in request.state_filters if name not in STATE_NAMES]
    if transactions.is_loading():
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if request.state_filters and len(unknown) == len(request.state_filters):
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=[])
    try:
        pattern = compile_regex(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except RegexError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None

    def matches(transactional_id: str) -> bool:
        return pattern is None or pattern.fullmatch(transactional_id) is not None

    def combined(parts: list[list[TransactionState]]) -> ListTransactionsResponse:
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=[state for part in parts for state in part])

    return gather(
        transactions.ask_all(lambda machine, token, now_ms: machine.list_transactions(token, request, matches, now_ms), refused=_nothing),
        combined,
    )


def _nothing(code: ErrorCode) -> list[TransactionState]:
    """An empty answer: a shard that closes meanwhile has nothing to list, and its next leader lists it."""
    return []
