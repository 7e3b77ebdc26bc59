"""◇ DeleteShareGroupOffsets: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct, uuid


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = string()


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    """Delete a share group's start offsets of topics.  Sent by admin tools to the group coordinator."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: UUID = uuid()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(response_to=DeleteShareGroupOffsetsRequest)
class DeleteShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic)
