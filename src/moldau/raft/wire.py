"""◇ The wire format of messages between replicas: one topic with one partition, `__cluster_metadata-0`.

    request_of(message)   ─▶ a protocol request          parse_request(request)    ─▶ a message, or the answer to an unreadable request
    response_to(answer)   ─▶ a protocol response         parse_response(response)  ─▶ an answer, or None for one that makes no sense

Source: RaftUtil.java; KIP-595, 630, 853.
"""

from typing import Any, Final, TypeAlias

from moldau.errors import ErrorCode
from moldau.protocol.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from moldau.protocol.wire import Response
from moldau.raft.messages import (
    UNKNOWN_HIGH_WATERMARK,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RaftAnswer,
    RaftRequest,
    Vote,
    VoteAnswer,
)
from moldau.raft.voters import HostPort, ReplicaKey
from moldau.types import METADATA_TOPIC, METADATA_TOPIC_ID, NO_LEADER, FileSlice, OffsetAndEpoch

ReplicaRequest: TypeAlias = (
    vote.VoteRequest
    | begin_quorum_epoch.BeginQuorumEpochRequest
    | end_quorum_epoch.EndQuorumEpochRequest
    | fetch.FetchRequest
    | fetch_snapshot.FetchSnapshotRequest
)
"""The requests that one replica sends to another about the one partition."""

ENDPOINTS_SINCE: Final = 1
FETCH_ENDPOINTS_SINCE: Final = 17
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15


class Unreadable(Exception):
    """The request is not about this log.  `response` is the refusal."""

    def __init__(self, response: Response) -> None:
        super().__init__(type(response).__name__)
        self.response: Final = response


# Requests that leave


def request_of(message: RaftRequest, *, cluster_id: str, listener_name: str, max_bytes: int = 1 << 20) -> ReplicaRequest:
    """A message as a request.  `max_bytes`: the limit for records or for a part of a snapshot."""
    match message:
        case Vote():
            return _vote_request(message, cluster_id)
        case BeginEpoch():
            return _begin_request(message, cluster_id, listener_name)
        case EndEpoch():
            return _end_request(message, cluster_id, listener_name)
        case Fetch():
            return _fetch_request(message, cluster_id, max_bytes)
        case FetchSnapshot():
            return _snapshot_request(message, cluster_id, max_bytes)
        case _:
            raise AssertionError(f"{type(message).__name__} is sent in another way")


def _vote_request(message: Vote, cluster_id: str) -> vote.VoteRequest:
    voter = message.voter or ReplicaKey(-1)
    partition = vote.VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=message.epoch,
        replica_id=message.candidate.id,
        replica_directory_id=message.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=message.last_epoch,
        last_offset=message.end_offset,
        pre_vote=message.is_pre_vote,
    )
    topic = vote.VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def _begin_request(message: BeginEpoch, cluster_id: str, listener_name: str) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    voter = message.voter or ReplicaKey(-1)
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        partition_index=0, voter_directory_id=voter.directory_id, leader_id=message.leader_id, leader_epoch=message.epoch
    )
    topic = begin_quorum_epoch.BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    at = message.leader_at
    endpoints = [] if at is None else [begin_quorum_epoch.LeaderEndpoint(name=listener_name, host=at.host, port=at.port)]
    return begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic], leader_endpoints=endpoints)


def _end_request(message: EndEpoch, cluster_id: str, listener_name: str) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=message.leader_id,
        leader_epoch=message.epoch,
        preferred_successors=[key.id for key in message.preferred],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in message.preferred
        ],
    )
    topic = end_quorum_epoch.EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    at = message.leader_at
    endpoints = [] if at is None else [end_quorum_epoch.LeaderEndpoint(name=listener_name, host=at.host, port=at.port)]
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic], leader_endpoints=endpoints)


def _fetch_request(message: Fetch, cluster_id: str, max_bytes: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=message.epoch,
        fetch_offset=message.offset,
        last_fetched_epoch=message.last_epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=message.replica.directory_id,
        high_watermark=message.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=message.replica.id),
        max_wait_ms=message.max_wait_ms,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _snapshot_request(message: FetchSnapshot, cluster_id: str, max_bytes: int) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=message.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=message.snapshot_id.offset, epoch=message.snapshot_id.epoch),
        position=message.position,
        replica_directory_id=message.replica.directory_id,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(cluster_id=cluster_id, replica_id=message.replica.id, max_bytes=max_bytes, topics=[topic])


# Requests that come


def parse_request(request: ReplicaRequest, version: int, *, cluster_id: str) -> RaftRequest:
    """The message of a request.  Errors: Unreadable, with INCONSISTENT_CLUSTER_ID, INVALID_REQUEST or UNKNOWN_TOPIC_OR_PARTITION."""
    if request.cluster_id is not None and cluster_id and request.cluster_id != cluster_id:
        raise Unreadable(_refused(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
    if not _is_ours(request, version):
        raise Unreadable(_refused(request, ErrorCode.INVALID_REQUEST))
    match request:
        case vote.VoteRequest():
            return _parse_vote(request)
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return _parse_begin(request)
        case end_quorum_epoch.EndQuorumEpochRequest():
            return _parse_end(request)
        case fetch.FetchRequest():
            return _parse_fetch(request, version)
        case fetch_snapshot.FetchSnapshotRequest():
            return _parse_snapshot(request)


def _is_ours(request: ReplicaRequest, version: int) -> bool:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    match request:
        case fetch.FetchRequest():
            asked = request.topics[0]
            is_topic = asked.topic_id == METADATA_TOPIC_ID if version >= TOPIC_IDS_SINCE else asked.topic == METADATA_TOPIC
            return is_topic and asked.partitions[0].partition == 0
        case fetch_snapshot.FetchSnapshotRequest():
            return request.topics[0].name == METADATA_TOPIC and request.topics[0].partitions[0].partition == 0
        case _:
            return request.topics[0].topic_name == METADATA_TOPIC and request.topics[0].partitions[0].partition_index == 0


def _refused(request: ReplicaRequest, code: ErrorCode) -> Response:
    """A response with only the error at the top."""
    match request:
        case vote.VoteRequest():
            return vote.VoteResponse(error_code=code, topics=[])
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=code, topics=[])
        case end_quorum_epoch.EndQuorumEpochRequest():
            return end_quorum_epoch.EndQuorumEpochResponse(error_code=code, topics=[])
        case fetch.FetchRequest():
            return fetch.FetchResponse(error_code=code, responses=[])
        case fetch_snapshot.FetchSnapshotRequest():
            return fetch_snapshot.FetchSnapshotResponse(error_code=code, topics=[])


def _parse_vote(request: vote.VoteRequest) -> Vote:
    asked = request.topics[0].partitions[0]
    return Vote(
        asked.replica_epoch,
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        _voter_of(request.voter_id, asked.voter_directory_id),
        asked.last_offset_epoch,
        asked.last_offset,
        asked.pre_vote,
    )


def _voter_of(voter_id: int, directory_id: Any) -> ReplicaKey | None:
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def _parse_begin(request: begin_quorum_epoch.BeginQuorumEpochRequest) -> BeginEpoch:
    asked = request.topics[0].partitions[0]
    voter = _voter_of(request.voter_id, asked.voter_directory_id)
    return BeginEpoch(asked.leader_epoch, asked.leader_id, _first_of(request.leader_endpoints), voter)


def _parse_end(request: end_quorum_epoch.EndQuorumEpochRequest) -> EndEpoch:
    asked = request.topics[0].partitions[0]
    preferred = tuple(ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in asked.preferred_candidates)
    preferred = preferred or tuple(ReplicaKey(number) for number in asked.preferred_successors)
    return EndEpoch(asked.leader_epoch, asked.leader_id, _first_of(request.leader_endpoints), preferred)


def _first_of(endpoints: Any) -> HostPort | None:
    """The leader's address on the first listener of its voters."""
    return HostPort(endpoints[0].host, endpoints[0].port) if endpoints else None


def _parse_fetch(request: fetch.FetchRequest, version: int) -> Fetch:
    asked = request.topics[0].partitions[0]
    replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_SINCE else request.replica_id
    return Fetch(
        asked.current_leader_epoch,
        ReplicaKey(replica_id, asked.replica_directory_id),
        asked.fetch_offset,
        asked.last_fetched_epoch,
        min(asked.high_watermark, UNKNOWN_HIGH_WATERMARK),
        request.max_wait_ms,
    )


def _parse_snapshot(request: fetch_snapshot.FetchSnapshotRequest) -> FetchSnapshot:
    asked = request.topics[0].partitions[0]
    return FetchSnapshot(
        asked.current_leader_epoch,
        ReplicaKey(request.replica_id, asked.replica_directory_id),
        OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        asked.position,
    )


# Responses that leave


def response_to(request: ReplicaRequest, answer: RaftAnswer, version: int, records: Any = None) -> Response:
    """An answer as a response.  `records`: the bytes that the driver read for an answer to a fetch."""
    match request, answer:
        case vote.VoteRequest(), VoteAnswer():
            partition = vote.VoteResponsePartitionData(
                partition_index=0,
                error_code=answer.error,
                leader_id=answer.leader_id,
                leader_epoch=answer.epoch,
                vote_granted=answer.is_granted,
            )
            topic = vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
            return vote.VoteResponse(topics=[topic], node_endpoints=_endpoints(vote.NodeEndpoint, answer, version >= ENDPOINTS_SINCE))
        case begin_quorum_epoch.BeginQuorumEpochRequest(), EpochAnswer():
            return _begin_response(answer, version)
        case end_quorum_epoch.EndQuorumEpochRequest(), EpochAnswer():
            return _end_response(answer, version)
        case fetch.FetchRequest(), FetchAnswer():
            return _fetch_response(answer, version, records)
        case fetch_snapshot.FetchSnapshotRequest(), FetchSnapshotAnswer():
            return _snapshot_response(answer, version, records)
        case _:
            raise AssertionError(f"{type(answer).__name__} is no answer to {type(request).__name__}")


def _endpoints(endpoint: Any, answer: Any, is_told: bool) -> list[Any]:
    at = answer.leader_at
    return [endpoint(node_id=answer.leader_id, host=at.host, port=at.port)] if is_told and at is not None else []


def _begin_response(answer: EpochAnswer, version: int) -> Response:
    partition = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
        partition_index=0, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    endpoints = _endpoints(begin_quorum_epoch.NodeEndpoint, answer, version >= ENDPOINTS_SINCE)
    return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[topic], node_endpoints=endpoints)


def _end_response(answer: EpochAnswer, version: int) -> Response:
    partition = end_quorum_epoch.EndQuorumEpochResponsePartitionData(
        partition_index=0, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    endpoints = _endpoints(end_quorum_epoch.NodeEndpoint, answer, version >= ENDPOINTS_SINCE)
    return end_quorum_epoch.EndQuorumEpochResponse(topics=[topic], node_endpoints=endpoints)


def _fetch_response(answer: FetchAnswer, version: int, records: Any) -> Response:
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
        aborted_transactions=None,
        records=b"" if records is None else records,
    )
    if answer.diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=answer.diverging.epoch, end_offset=answer.diverging.offset)
    if answer.snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(epoch=answer.snapshot_id.epoch, end_offset=answer.snapshot_id.offset)
    topic = fetch.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(responses=[topic], node_endpoints=_endpoints(fetch.NodeEndpoint, answer, version >= FETCH_ENDPOINTS_SINCE))


def _snapshot_response(answer: FetchSnapshotAnswer, version: int, records: Any) -> Response:
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=0,
        error_code=answer.error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=answer.snapshot_id.offset, epoch=answer.snapshot_id.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
        size=max(answer.size, 0),
        position=max(answer.position, 0),
        unaligned_records=b"" if records is None else records,
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    endpoints = _endpoints(fetch_snapshot.NodeEndpoint, answer, version >= ENDPOINTS_SINCE)
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic], node_endpoints=endpoints)


# Responses that come


def parse_response(response: Response) -> RaftAnswer | None:
    """The answer in a response; None for a refusal as a whole, or one about another log.  The records of a fetch stay unread."""
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return None
    topics: Any = response.responses if isinstance(response, fetch.FetchResponse) else getattr(response, "topics", [])
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    told: Any = topics[0].partitions[0]
    error = ErrorCode.of(told.error_code)
    match response:
        case vote.VoteResponse():
            return VoteAnswer(error, told.leader_epoch, told.leader_id, _leader_at(response, told.leader_id), told.vote_granted)
        case begin_quorum_epoch.BeginQuorumEpochResponse() | end_quorum_epoch.EndQuorumEpochResponse():
            return EpochAnswer(error, told.leader_epoch, told.leader_id, _leader_at(response, told.leader_id))
        case fetch.FetchResponse():
            return _parse_fetch_response(response, told, error)
        case fetch_snapshot.FetchSnapshotResponse():
            leader = told.current_leader
            snapshot_id = OffsetAndEpoch(told.snapshot_id.end_offset, told.snapshot_id.epoch)
            at = _leader_at(response, leader.leader_id)
            return FetchSnapshotAnswer(
                error, leader.leader_epoch, leader.leader_id, at, snapshot_id, told.size, told.position, told.unaligned_records
            )
        case _:
            return None


def _leader_at(response: Any, leader_id: int) -> HostPort | None:
    found = (HostPort(one.host, one.port) for one in response.node_endpoints if one.node_id == leader_id != NO_LEADER)
    return next(found, None)


def _parse_fetch_response(response: fetch.FetchResponse, told: fetch.PartitionData, error: ErrorCode) -> FetchAnswer:
    leader, parting, snapshot = told.current_leader, told.diverging_epoch, told.snapshot_id
    return FetchAnswer(
        error,
        leader.leader_epoch,
        leader.leader_id,
        _leader_at(response, leader.leader_id),
        told.high_watermark,
        told.log_start_offset,
        OffsetAndEpoch(parting.end_offset, parting.epoch) if parting.epoch >= 0 <= parting.end_offset else None,
        OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 <= snapshot.end_offset else None,
        records=None if isinstance(told.records, FileSlice) else told.records,
    )
