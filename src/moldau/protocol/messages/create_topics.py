"""◇ CreateTopics: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, message, string, struct, uuid
from moldau.types import ZERO_UUID


@struct
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@struct
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32(about="-1 for the broker's default, or when assignments are given.")
    replication_factor: int = int16(about="-1 for the broker's default, or when assignments are given.")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(api_key=19, versions="2-7", flexible="5+", listeners=("broker", "controller"))
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """Create topics.  Sent by admin tools, and by brokers for topics that are created on first use.  Source: KIP-464, 525, 599."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


@struct
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@struct
class CreatableTopicResult:
    name: str = string()
    topic_id: UUID = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    topic_config_error_code: int = int16("5+", tag=0, default=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="0+", default=[], ignorable=True)


@message(response_to=CreateTopicsRequest, echoes=("topics -> topics",))
class CreateTopicsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
