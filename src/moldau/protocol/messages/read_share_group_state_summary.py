"""◇ ReadShareGroupStateSummary: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, string, struct, uuid


@struct
class PartitionData:
    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateSummaryData:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    """Read start offsets of share partitions without their batches.  Sent by group coordinators to share coordinators.

    Source: KIP-932, 1226.
    """

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


@struct
class ReadStateSummaryResult:
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(response_to=ReadShareGroupStateSummaryRequest, echoes=("topics.partitions -> results.partitions",))
class ReadShareGroupStateSummaryResponse(Response):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
