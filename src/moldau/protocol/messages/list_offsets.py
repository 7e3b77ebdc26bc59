"""◇ ListOffsets: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, int64, message, string, struct


@struct
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64(
        about="Milliseconds, or -1 latest, -2 earliest, -3 max timestamp, -4 earliest local, -5 latest tiered, -6 earliest pending upload."
    )


@struct
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """Find offsets by timestamp, or by special values such as earliest and latest.  Sent by clients and follower brokers.

    Source: KIP-405, 734, 1005, 1023, 1075.
    """

    replica_id: int = int32(about="-1 for a consumer.")
    isolation_level: int = int8("2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(response_to=ListOffsetsRequest, echoes=("topics.partitions -> topics.partitions",))
class ListOffsetsResponse(Response):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
