"""◇ Metadata: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, message, string, struct, uuid
from moldau.types import ZERO_UUID


@struct
class MetadataRequestTopic:
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    name: str | None = string(nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+", most_elements=50_000)
class MetadataRequest(Request["MetadataResponse"]):
    """Ask for brokers, topics, partitions and their leaders.  Sent by every client, often.  Source: KIP-700."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+", about="null for all topics.")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)

    def refused(self, code: int, message: str | None = None) -> "MetadataResponse":
        response = Request.refused(self, code, message)
        for topic in response.topics:
            topic.name = topic.name or ""  # no version before 12 can say null
        return response


@struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="0+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int = int16(default=0)
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+", default=[], ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int = int16(default=0)
    name: str | None = string(nullable="12+")
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


@message(response_to=MetadataRequest, echoes=("topics -> topics",))
class MetadataResponse(Response):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="0+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", default=0, ignorable=True)
