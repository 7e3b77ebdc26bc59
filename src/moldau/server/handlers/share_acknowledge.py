"""● ShareAcknowledge: accept, release, reject or renew records that a member of a share group has acquired (KIP-932).

Versions       1-2.
Authorises     READ on the group, READ on each topic.
Behaviour      A partition's acknowledgements count all together or not at all; answered when they are written to the share coordinator.
               With the final epoch (-1) the session ends and everything that the member still holds is released.
Version notes  2+ renews locks, and tells how long they last (KIP-1222).
Errors         UNSUPPORTED_VERSION (share.version is 0), INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH;
               by partition UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION (also one that the member never fetched from), INVALID_REQUEST,
               INVALID_RECORD_STATE, NOT_LEADER_OR_FOLLOWER, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND.
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from moldau.server.handlers.groups import serves_share_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.server.share.acknowledgements import Acknowledging, acknowledge, is_valid_member, release_session
from moldau.server.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, MemberKey


@handles(ShareAcknowledgeRequest)
def share_acknowledge(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Later[ShareAcknowledgeResponse]:
    if not serves_share_groups(broker):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or request.member_id is None or not is_valid_member(request.member_id):
        return _refused(ErrorCode.INVALID_REQUEST)
    member = MemberKey(request.group_id, request.member_id)
    if request.share_session_epoch == INITIAL_EPOCH:
        return _refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = broker.share_sessions.at_epoch(member, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return _refused(session)
    acknowledging = acknowledge(broker, member, request.topics, version=context.version, is_renewing=request.is_renew_ack)
    later: Later[ShareAcknowledgeResponse] = Later(lambda: None)

    def answer() -> None:
        if request.share_session_epoch == FINAL_EPOCH:
            release_session(broker, member)
        later.complete(_response(broker, context, member, acknowledging))

    acknowledging.then(lambda: later.attempt(answer))
    return later


def _response(broker: Broker, context: RequestContext, member: MemberKey, acknowledging: Acknowledging) -> ShareAcknowledgeResponse:
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.shares.rules(member.group_id).record_lock_duration_ms, responses=[], node_endpoints=[]
    )
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    for key, (code, message) in acknowledging.results.items():
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = ShareAcknowledgeTopicResponse(topic_id=key.topic_id, partitions=[])
            response.responses.append(topic)
        found = PartitionData(
            partition_index=key.partition,
            error_code=code,
            error_message=message or None,
            current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        )
        topic.partitions.append(found)
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            leader = broker.cluster.leader_of(broker.cluster.topic_name(key.topic_id) or "", key.partition, context.client.listener)
            found.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
            if leader.endpoint is not None and all(node.node_id != leader.leader_id for node in response.node_endpoints):
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader.leader_id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack)
                )
    return response


def _refused(code: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=code, responses=[], node_endpoints=[])
