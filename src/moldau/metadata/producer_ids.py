"""◇ AllocateProducerIds: gives brokers blocks of producer ids, and no id twice.  Source: ProducerIdControlManager; KIP-730."""

from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.image import MetadataImage
from moldau.metadata.outcome import Outcome
from moldau.metadata.records import ProducerIdsRecord
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = (1 << 63) - 1


def allocate_producer_ids(image: MetadataImage, request: AllocateProducerIdsRequest) -> Outcome[AllocateProducerIdsResponse]:
    """The next block for a broker.  Errors: STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR when none are left."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    start = image.next_producer_id
    if start > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producerIds as the next block's end producerId has exceeded long type limit"
        )
    record = ProducerIdsRecord(broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + BLOCK_SIZE)
    return Outcome(AllocateProducerIdsResponse(error_code=0, producer_id_start=start, producer_id_len=BLOCK_SIZE), [record])


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> None:
    """Check that a request comes from the present life of a broker.  Errors: KafkaError STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        text = f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, text)
