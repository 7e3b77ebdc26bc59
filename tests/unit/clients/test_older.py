"""Requests in the newest form reach older brokers in theirs, and the answers come back in the newest form."""

import pytest

from moldau.clients.older import OLDER, fitted, in_newest_form
from moldau.errors import ErrorCode, KafkaError
from moldau.net.correlation import Correlation
from moldau.protocol.header import encode_request
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from moldau.protocol.wire import Request
from moldau.types import ZERO_UUID

NEWEST = [
    FindCoordinatorRequest(coordinator_keys=["g"]),
    OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])],
        require_stable=True,
    ),
    OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
    LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m", reason="because")]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], topic_names=["t"], timeout_ms=1),
    CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])]),
]


@pytest.mark.parametrize("request_", NEWEST, ids=lambda one: type(one).__name__)
def test_each_older_version_can_carry_the_request(request_: Request[object]) -> None:
    kind = type(request_)
    for version in range(max(kind.VERSIONS[0], 2 if request_ is NEWEST[2] else 1), OLDER[kind].before):
        assert encode_request(fitted(request_, version), version=version, correlation_id=0, client_id=None)
    assert fitted(request_, OLDER[kind].before) is request_


def test_answers_come_in_the_newest_form() -> None:
    found = in_newest_form(NEWEST[0], 1, FindCoordinatorResponse(node_id=3, host="h", port=9, error_code=0))
    assert [(one.key, one.node_id, one.host, one.port) for one in found.coordinators] == [("g", 3, "h", 9)]
    partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=7, metadata="m", committed_leader_epoch=2)
    fetched = in_newest_form(
        NEWEST[1], 5, OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[partition])], error_code=15)
    )
    (group,) = fetched.groups
    assert (group.group_id, group.error_code, group.topics[0].name) == ("g", 15, "t")
    (one,) = group.topics[0].partitions
    assert (one.committed_offset, one.committed_leader_epoch, one.metadata) == (7, 2, "m")
    left = in_newest_form(NEWEST[3], 2, LeaveGroupResponse(error_code=0))
    assert [(member.member_id, member.error_code) for member in left.members] == [("m", 0)]


def test_a_topic_without_counts_is_refused_by_name() -> None:
    with pytest.raises(KafkaError, match="number of partitions and a replication factor") as caught:
        fitted(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=-1, replication_factor=1, assignments=[], configs=[])]), 3
        )
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_field_that_the_broker_does_not_know_is_named() -> None:
    correlation = Correlation("me")
    correlation.agree(ApiVersionsResponse(api_keys=[ApiVersion(api_key=JoinGroupRequest.API_KEY, min_version=0, max_version=3)]))
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[], group_instance_id="i"
    )
    with pytest.raises(KafkaError, match=r"group_instance_id: version 3 .*versions 0 to 3 of JoinGroupRequest") as caught:
        correlation.request(request)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert correlation.in_flight == 0
