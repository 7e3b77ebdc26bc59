"""◇ AddOffsetsToTxn: the request and its response."""

from moldau.protocol.wire import Request, Response, int16, int32, int64, message, string


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """Add a group's offsets partition to a transaction.  Sent by producers to the transaction coordinator before TxnOffsetCommit.

    Source: KIP-890.
    """

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(response_to=AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
