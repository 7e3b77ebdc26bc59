"""◇ ConsumerGroupHeartbeat: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, nested, string, struct, uuid


@struct
class TopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


@message(api_key=68, versions="0-1", flexible="0+", most_elements=50_000)
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """Join, stay in or leave a consumer group, and learn the assignment.  Sent by consumers to the group coordinator.

    Source: KIP-848, 1082.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32(about="0 joins, -1 leaves, -2 leaves but keeps the static membership.")
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1, about="-1 if unchanged.")
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="0+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(response_to=ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
