"""◇ InitProducerId: the request and its response."""

from moldau.protocol.wire import Request, Response, boolean, int16, int32, int64, message, string


@message(api_key=22, versions="0-6", flexible="2+", latest_is_unstable=True)
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """Get a producer id and epoch, fencing earlier owners of the transactional id.  Sent by idempotent and transactional producers.

    Source: KIP-890, 939.
    """

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1, about="-1 at the first call.")
    producer_epoch: int = int16("3+", default=-1, about="-1 at the first call.")
    enable_2pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)

    def refused(self, code: int, message: str | None = None) -> "InitProducerIdResponse":
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


@message(response_to=InitProducerIdRequest)
class InitProducerIdResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
