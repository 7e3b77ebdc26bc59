"""● InitProducerId: a producer id and epoch for an idempotent or transactional producer.

Versions       0-5; 6 (KIP-939) is not stable in Kafka 4.3 and neither advertised nor served here.
Authorises     IDEMPOTENT_WRITE on the cluster, or WRITE on any topic; with a transactional id, WRITE on it.
Behaviour      Without a transactional id a new producer id with epoch 0, whatever the client had before.  With one, the id's epoch is
               bumped, which fences its earlier producers, and a transaction that they left open is aborted.
Version notes  3+ a producer can name what it holds and recover with it (KIP-360).
Errors         INVALID_REQUEST (an empty transactional id, or only one of producer id and epoch), NOT_COORDINATOR,
               COORDINATOR_LOAD_IN_PROGRESS (between two blocks of ids, too), and those of `TransactionMachine.init_producer_id`.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable
from typing import Final

from moldau.coordinator.outcome import Outcome, Token
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.server.coordinators.topic import answered
from moldau.server.coordinators.transactions import fenced_as_known
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NONE: Final = -1
FENCED_SINCE: Final = 4


@handles(InitProducerIdRequest)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Later[InitProducerIdResponse] | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    if request.transactional_id is not None:
        if not broker.producer_ids.has_any():
            return _init_later(broker, context, request)
        return _init_transactional(broker, context, request)
    producer_id = broker.producer_ids.take()
    return _answer(producer_id) if producer_id is not None else _answer_later(broker)


def _init_transactional(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")

    def decide(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
        return machine.init_producer_id(token, request, now_ms)

    def fitted(response: InitProducerIdResponse) -> InitProducerIdResponse:
        response.error_code = fenced_as_known(response.error_code, context.version, since=FENCED_SINCE)
        return response

    return broker.coordinators.transactions.ask(request.transactional_id, decide, refused=request.refused, transform=fitted)


async def _init_later(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    await broker.producer_ids.fill()
    return await answered(_init_transactional(broker, context, request))


async def _answer_later(broker: Broker) -> InitProducerIdResponse:
    return _answer(await broker.producer_ids.wait())


def _answer(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
