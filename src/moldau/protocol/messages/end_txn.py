"""◇ EndTxn: the request and its response."""

from moldau.protocol.wire import Request, Response, boolean, int16, int32, int64, message, string


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request["EndTxnResponse"]):
    """Commit or abort a transaction.  Sent by producers to the transaction coordinator.  Source: KIP-890."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean(about="False aborts.")


@message(response_to=EndTxnRequest)
class EndTxnResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
