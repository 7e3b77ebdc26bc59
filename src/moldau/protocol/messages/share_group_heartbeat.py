"""◇ ShareGroupHeartbeat: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, nested, string, struct, uuid


@message(api_key=76, versions="1", flexible="0+", most_elements=50_000)
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """Join, stay in or leave a share group, and learn the assignment.  Sent by share consumers to the group coordinator.

    Source: KIP-932.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32(about="0 joins, -1 leaves.")
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)


@struct
class TopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(response_to=ShareGroupHeartbeatRequest)
class ShareGroupHeartbeatResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
