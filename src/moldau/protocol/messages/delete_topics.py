"""◇ DeleteTopics: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct, uuid
from moldau.types import ZERO_UUID


@struct
class DeleteTopicState:
    name: str | None = string(nullable="0+", default=None)
    topic_id: UUID = uuid()


@message(api_key=20, versions="1-6", flexible="4+", listeners=("broker", "controller"))
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """Delete topics, by name or by id.  Sent by admin tools.  Source: KIP-599."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", default=[])
    topic_names: list[str] = array(string, "0-5", default=[], ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: UUID = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16(default=0)
    error_message: str | None = string("5+", nullable="0+", default=None, ignorable=True)


@message(
    response_to=DeleteTopicsRequest,
    echoes=(
        "topics -> responses",
        "topic_names -> responses",
    ),
)
class DeleteTopicsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
