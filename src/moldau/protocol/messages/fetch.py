"""◇ Fetch: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, int64, message, nested, records, string, struct, uuid
from moldau.types import ZERO_UUID, Records


@struct
class ReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@struct
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True, about="-1 unknown: no fencing.")
    fetch_offset: int = int64(about="Inclusive.")
    last_fetched_epoch: int = int32("12+", default=-1, about="Epoch of the record before fetch_offset; -1 unknown.")
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: UUID = uuid("17+", tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark: int = int64("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)


@struct
class FetchTopic:
    topic: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    topic: str = string("7-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array(int32)


@message(api_key=1, versions="4-18", flexible="12+", listeners=("broker", "controller"))
class FetchRequest(Request["FetchResponse"]):
    """Read record batches.  Sent by consumers, by follower brokers, and for the metadata log by KRaft replicas.

    Source: KIP-110, 320, 405, 516, 853, 903, 951, 1166.
    """

    cluster_id: str | None = string("12+", nullable="0+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("0-14", default=-1, about="-1 for a consumer.")
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1, default=ReplicaState())
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF, about="A soft limit: the first batch is sent whatever its size.")
    isolation_level: int = int8(default=0, about="0 read_uncommitted, 1 read_committed.")
    session_id: int = int32("7+", default=0, ignorable=True, about="0 to ask for a new session.")
    session_epoch: int = int32("7+", default=-1, ignorable=True, about="-1 for a fetch without session, 0 for a new one.")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", default=[])
    rack_id: str = string("11+", default="", ignorable=True)

    def refused(self, code: int, message: str | None = None) -> "FetchResponse":
        """The response with `code`.

        Only versions that name topics repeat them: clients of the versions with topic ids read the error at the top.
        """
        response = Request.refused(self, code, message)
        response.session_id = self.session_id
        response.responses = [topic for topic in response.responses if topic.topic]
        return response


@struct
class EpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1, about="Exclusive.")


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    high_watermark: int = int64(about="Exclusive.")
    last_stable_offset: int = int64(default=-1, about="Exclusive.")
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "12+", tag=1, default=LeaderIdAndEpoch())
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2, default=SnapshotId())
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = records(nullable="0+")


@struct
class FetchableTopicResponse:
    topic: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(response_to=FetchRequest, echoes=("topics.partitions -> responses.partitions",))
class FetchResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("7+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, default=[])
