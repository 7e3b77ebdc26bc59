"""◇ OffsetDelete: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, versions="0")
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """Delete a group's offsets of partitions.  Sent by admin tools to the group coordinator."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16(default=0)


@struct
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(response_to=OffsetDeleteRequest)
class OffsetDeleteResponse(Response):
    error_code: int = int16(default=0)
    throttle_time_ms: int = int32(default=0)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
