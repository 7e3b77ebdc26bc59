"""◇ AllocateProducerIds: the request and its response."""

from moldau.protocol.wire import Request, Response, int16, int32, int64, message


@message(api_key=67, versions="0", flexible="0+", listeners=("controller",))
class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    """Reserve a block of producer ids for one broker.  Sent by brokers to the active controller."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(response_to=AllocateProducerIdsRequest)
class AllocateProducerIdsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id_start: int = int64()
    producer_id_len: int = int32()
