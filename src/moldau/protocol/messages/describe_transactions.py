"""◇ DescribeTransactions: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, string, struct


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """Describe transactions by transactional id.  Sent by admin tools to their coordinator."""

    transactional_ids: list[str] = array(string)


@struct
class TopicData:
    topic: str = string()
    partitions: list[int] = array(int32)


@struct
class TransactionState:
    error_code: int = int16(default=0)
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@message(response_to=DescribeTransactionsRequest, echoes=("transactional_ids -> transaction_states",))
class DescribeTransactionsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    transaction_states: list[TransactionState] = array(TransactionState)
