"""● InitProducerId: a producer id and epoch for an idempotent producer.

Versions       0-5; 6 (KIP-939) is not stable in Kafka 4.3 and neither advertised nor served here.
Authorises     IDEMPOTENT_WRITE on the cluster, or WRITE on any topic; with a transactional id, WRITE on it.
Behaviour      Without a transactional id a new producer id with epoch 0, whatever the client had before.
Errors         INVALID_REQUEST (an empty transactional id, or only one of producer id and epoch), NOT_COORDINATOR (a transactional id),
               COORDINATOR_LOAD_IN_PROGRESS (between two blocks of ids).
Differs from Kafka: transactions are not served yet.
"""

from collections.abc import Awaitable
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles

NONE: Final = -1


@handles(InitProducerIdRequest)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.NOT_COORDINATOR)
    producer_id = broker.producer_ids.take()
    return _answer(producer_id) if producer_id is not None else _answer_later(broker)


async def _answer_later(broker: Broker) -> InitProducerIdResponse:
    return _answer(await broker.producer_ids.wait())


def _answer(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
