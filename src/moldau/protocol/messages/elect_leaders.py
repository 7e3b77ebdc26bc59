"""◇ ElectLeaders: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, message, string, struct


@struct
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(api_key=43, versions="0-2", flexible="2+", listeners=("broker", "controller"), most_elements=50_000)
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """Elect the preferred replica, or any replica, as partition leader.  Sent by admin tools.  Source: KIP-460."""

    election_type: int = int8("1+", default=0, about="0 preferred, 1 unclean.")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", about="null for all partitions.")
    timeout_ms: int = int32(default=60000)


@struct
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(response_to=ElectLeadersRequest, echoes=("topic_partitions.partitions -> replica_election_results.partition_result",))
class ElectLeadersResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("1+", default=0, ignorable=True)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
