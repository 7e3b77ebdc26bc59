"""Streams groups (KIP-1071): heartbeat, describe, offsets, and the answers to requests of other protocols."""

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from moldau.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
    Topology,
)
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.protocol.wire import Request, Struct
from moldau.types import ZERO_UUID
from proof.groups.topologies import Tasks, internal, spelled, subtopology, tasks, topology
from proof.kafka.differential import Differential, Differs, differences

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

WITHIN_S: Final = 60.0
GROUP_RESOURCE: Final = 32
NOTHING: Tasks = {}
NOT_YET: Final = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


def program(name: str, *, epoch: int = 0, changelogs: bool = True) -> Topology:
    """A program that reads NAME-in and counts behind a repartition."""
    return topology(
        subtopology("0", [f"{name}-in"], sinks=[f"{name}-repartition"]),
        subtopology("1", repartition=[f"{name}-repartition"], changelogs=[f"{name}-changelog"] if changelogs else []),
        epoch=epoch,
    )


PROGRAM: Final = program("streams")


def new_topic(name: str, partitions: int = 4) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])


def neutral(value: Any) -> Any:
    """An answer without words for error codes, and with sorted lists: Kafka's order comes from hash maps."""
    if isinstance(value, Struct):
        for field in value.FIELDS:
            setattr(value, field.name, neutral(getattr(value, field.name)))
        if hasattr(value, "error_message"):
            value.error_message = None
        if isinstance(value, StreamsGroupHeartbeatResponse):
            value.endpoint_information_epoch = 0  # we count from the group's first heartbeat, Kafka from its second
            for status in value.status or ():
                status.status_detail = ", ".join(sorted(status.status_detail.replace("Internal topics are missing: ", "").split(", ")))
    elif isinstance(value, list):
        return sorted((neutral(one) for one in value), key=repr)
    return value


class Both:
    """Both brokers: each is asked the same."""

    def __init__(self, both: Differential) -> None:
        self.both = both

    def same(self, request: Request[Any], version: int) -> Any:
        """Our answer; Kafka's is the same but for the words of errors."""
        ours, theirs = map(neutral, self.both.both(request, version))
        found = list(differences(ours, theirs))
        if found:
            raise Differs(f"{request!r}:\n" + "\n".join(found))
        return ours

    def create(self, *names: str) -> None:
        self.both.both(CreateTopicsRequest(topics=[new_topic(name) for name in names], timeout_ms=10_000), 7)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, f"no {what} within {WITHIN_S:.0f} s"
            time.sleep(0.1)

    def joins(self, group_id: str, member_id: str, brought: Topology, **fields: Any) -> StreamsGroupHeartbeatResponse:
        return self.beats(group_id, member_id, 0, **joining(member_id, brought, **fields))

    def beats(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        ours = self.same(request(group_id, member_id, epoch, **fields), 0)
        assert isinstance(ours, StreamsGroupHeartbeatResponse)
        return ours

    def settles(self, group_id: str, member_id: str, brought: Topology) -> list[Any]:
        """Joins again and again, until nothing stands in the way of tasks at both brokers."""
        told: list[Any] = []

        def is_settled() -> bool:
            told[:] = self.both.both(request(group_id, member_id, 0, **joining(member_id, brought)), 0)
            assert not any(answer.error_code for answer in told), told
            return not any(answer.status for answer in told)

        self.wait_for(is_settled, "tasks")
        return told

    def describe(self, group_id: str) -> Any:
        return self.same(StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), 0).groups[0]


def request(group_id: str, member_id: str, epoch: int, *, active: Tasks | None = None, standby: Tasks = NOTHING, **fields: Any) -> Any:
    if active is not None:
        fields |= {"active_tasks": tasks(active), "standby_tasks": tasks(standby), "warmup_tasks": []}
    fields = {"endpoint_information_epoch": 0, **fields}
    return StreamsGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)


def joining(member_id: str, brought: Topology, **fields: Any) -> dict[str, Any]:
    return {
        "topology": brought,
        "active": {},
        "process_id": f"process-of-{member_id}",
        "rebalance_timeout_ms": 60_000,
        "client_tags": [],
        **fields,
    }


@pytest.fixture(scope="module")
def brokers(both: Differential) -> Both:
    brokers = Both(both)
    find, ask = FindCoordinatorRequest(key_type=0, coordinator_keys=["streams"]), request("nosuch", "m", 1)
    brokers.wait_for(lambda: not any(answer.coordinators[0].error_code for answer in both.both(find, 6)), "coordinator")
    brokers.wait_for(lambda: not any(answer.error_code in NOT_YET for answer in both.both(ask, 0)), "group")
    brokers.wait_for(lambda: not any(answer.error_code for answer in both.both(ListGroupsRequest(), 5)), "groups")
    brokers.create("streams-in", "streams-repartition", "streams-changelog")
    brokers.settles("streams-first", "m", PROGRAM)
    brokers.beats("streams-first", "m", -1)
    return brokers


def test_requests_that_cannot_be(brokers: Both) -> None:
    good = program("refused")
    for member_id, epoch, fields in (
        ("", 0, joining("m", good)),
        ("m", 0, joining("m", good, rack_id="")),
        ("m", 0, {}),
        ("m", 0, joining("m", good, rebalance_timeout_ms=-1)),
        ("m", 0, joining("m", good, active={"0": [0]})),
        ("m", 0, joining("m", good, standby={"0": [0]})),
        ("m", 0, joining("m", good, instance_id="static")),
        ("m", 0, joining("m", good, task_offsets=[])),
        ("m", 0, joining("m", good, task_end_offsets=[TaskOffset(subtopology_id="0", partition=0, offset=0)])),
        ("m", 1, {"active": {}, "warmup_tasks": tasks({"0": [1]})}),
        ("m", 1, {"active_tasks": []}),
        ("m", 1, {"topology": good}),
        ("m", -2, {}),
        ("m", -3, {}),
        ("m", -1, {}),
        ("m", 1, {}),
        ("m", 0, joining("m", topology(subtopology("0", ["__consumer_offsets"])))),
        ("m", 0, joining("m", topology(subtopology("0", ["in valid"])))),
        ("m", 0, joining("m", topology(subtopology("0", [])))),
    ):
        answer = brokers.beats("streams-refused", member_id, epoch, **fields)
        assert answer.error_code, (member_id, epoch, fields)
    sized = subtopology("0", ["refused-in"])
    sized.state_changelog_topics = [internal("refused-changelog", 3)]
    assert brokers.joins("streams-refused", "m", topology(sized)).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    regex = subtopology("0", ["refused-in"])
    regex.source_topic_regex = [".*"]
    assert brokers.joins("streams-refused", "m", topology(regex)).error_code == ErrorCode.INVALID_REQUEST
    assert brokers.beats("", "m", 0, **joining("m", good)).error_code
    assert brokers.describe("streams-refused").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    brokers.same(StreamsGroupDescribeRequest(group_ids=["", "nosuch"], include_authorized_operations=True), 0)


def test_topics_come_and_tasks_with_them(brokers: Both) -> None:
    group, brought = "streams-topics", program("streams-topics")
    waiting = brokers.joins(group, "m1", brought)
    assert (waiting.member_epoch, len(waiting.status or ())) == (2, 1), "no source topic"
    brokers.beats(group, "m1", 2)
    brokers.describe(group)
    brokers.create("streams-topics-in")
    for answer in brokers.settles(group, "m1", brought):
        assert spelled(answer.active_tasks) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    # The number of epochs depends on when each broker saw which topic.
    ours, theirs = map(neutral, brokers.both.both(StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), 0))
    assert ours.groups[0].topology == theirs.groups[0].topology
    gone = DeleteTopicState(name="streams-topics-repartition", topic_id=ZERO_UUID)
    brokers.both.both(DeleteTopicsRequest(topics=[gone], timeout_ms=10_000), 6)
    brokers.both.both(CreateTopicsRequest(topics=[new_topic("streams-topics-repartition", 3)], timeout_ms=10_000), 7)
    told: list[Any] = []

    def is_told() -> bool:
        told[:] = brokers.both.both(request(group, "m2", 0, **joining("m2", brought)), 0)
        return [[status.status_code for status in answer.status] for answer in told] == [[2], [2]]

    brokers.wait_for(is_told, "refusal of topics that do not fit")


def test_members_share_tasks(brokers: Both) -> None:
    group = "streams-members"
    joined = brokers.joins(group, "m1", PROGRAM)
    assert spelled(joined.active_tasks) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    everything = spelled(joined.active_tasks)
    brokers.beats(group, "m1", 2, active=everything)
    brokers.beats(group, "m1", 2, active={"9": [0]})
    brokers.beats(group, "m1", 2, active={"0": [4]})
    brokers.beats(group, "m1", 3)
    brokers.beats(group, "m1", 1)
    brokers.beats(group, "m3", 3)
    brokers.joins(group, "m2", PROGRAM, rack_id="r1", client_tags=[])
    brokers.describe(group)
    told = brokers.beats(group, "m1", 2)
    brokers.beats(group, "m2", 3, active={})
    brokers.describe(group)
    kept = spelled(told.active_tasks)
    brokers.beats(group, "m1", 2, active=kept)
    brokers.beats(group, "m2", 3, active={})
    brokers.describe(group)
    brokers.same(ListGroupsRequest(types_filter=["streams"], states_filter=["Stable"]), 5)
    brokers.joins(group, "m3", PROGRAM, process_id="process-of-m1")
    assert brokers.joins(group, "m4", PROGRAM).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    for _ in range(3):
        for name in ("m1", "m2", "m3"):
            member = next(each for each in brokers.describe(group).members if each.member_id == name)
            brokers.beats(group, name, member.member_epoch, active=spelled(member.assignment.active_tasks))
    assert brokers.describe(group).group_state == "Stable"
    brokers.beats(group, "m2", -1)
    brokers.describe(group)
    brokers.beats(group, "m1", 4, shutdown_application=True)
    brokers.beats(group, "m3", 4)
    brokers.beats(group, "m1", -1)
    brokers.beats(group, "m3", -1)
    brokers.describe(group)


def test_topologies_that_do_not_agree(brokers: Both) -> None:
    group = "streams-topologies"
    brokers.joins(group, "m1", program("streams", epoch=2))
    for other in (program("streams", epoch=3), program("streams", epoch=2, changelogs=False)):
        assert brokers.joins(group, "m2", other).error_code == ErrorCode.INVALID_REQUEST
    brokers.joins(group, "m2", program("streams", changelogs=False))
    brokers.beats(group, "m2", 3)
    brokers.describe(group)
    for name in ("m1", "m2"):
        brokers.beats(group, name, -1)


def test_standby_tasks(brokers: Both) -> None:
    group = "streams-standby"
    for value in ("x", "-1", "3", "1"):
        config = AlterableConfig(name="streams.num.standby.replicas", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
        brokers.same(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    asked = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=None)
    brokers.both.ask(
        DescribeConfigsRequest(resources=[asked], include_synonyms=False, include_documentation=False),
        4,
        ignoring={"results.configs"},
        settling=True,
    )
    for name in ("m1", "m2"):
        brokers.joins(group, name, PROGRAM, user_endpoint=Endpoint(host=name, port=80))
    for _ in range(4):
        for name in ("m1", "m2"):
            member = next(each for each in brokers.describe(group).members if each.member_id == name)
            active, standby = spelled(member.assignment.active_tasks), spelled(member.assignment.standby_tasks)
            brokers.beats(group, name, member.member_epoch, active=active, standby=standby or {})
    assert brokers.describe(group).group_state == "Stable"
    assert all(each.assignment.standby_tasks for each in brokers.describe(group).members)
    for name in ("m1", "m2"):
        brokers.beats(group, name, -1)


def commit(group: str, member_id: str, epoch: int, topic: str, partition: int) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=partition, committed_metadata="")]
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )


def test_offsets(brokers: Both) -> None:
    group = "streams-offsets"
    brokers.joins(group, "m1", PROGRAM)
    brokers.joins(group, "m2", PROGRAM)
    kept = spelled(brokers.beats(group, "m1", 2, active={"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}).active_tasks) or {}
    given_up = next(index for index in range(4) if index not in kept["0"])
    for member_id, epoch, topic, partition in (
        ("m1", 2, "streams-in", 0),
        ("m1", 2, "streams-repartition", 1),
        ("m1", 2, "other", 1),
        ("m1", 1, "streams-in", kept["0"][0]),
        ("m1", 3, "streams-in", 0),
        ("nobody", 2, "streams-in", 0),
        ("", -1, "streams-in", 0),
    ):
        brokers.same(commit(group, member_id, epoch, topic, partition), 9)
    brokers.same(commit(group, "m1", 2, "streams-in", 0), 8)
    brokers.beats(group, "m1", 2, active=kept)
    for partition in (kept["0"][0], given_up):
        brokers.same(commit(group, "m1", 2, "streams-in", partition), 9)
        brokers.same(commit(group, "m1", 3, "streams-in", partition), 9)
    for member_id, epoch in ((None, -1), ("m1", 3), ("m1", 2), ("nobody", 3)):
        asked = OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=epoch, topics=None)
        brokers.same(OffsetFetchRequest(groups=[asked]), 9)
    deletion = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in ("streams-in", "streams-repartition", "streams-changelog")
        ],
    )
    brokers.same(deletion, 0)
    for name in ("m1", "m2"):
        brokers.beats(group, name, -1)
    brokers.same(commit(group, "", -1, "streams-in", 2), 9)
    brokers.same(deletion, 0)
    brokers.same(DeleteGroupsRequest(groups_names=[group]), 2)
    brokers.describe(group)


def test_other_protocols(brokers: Both) -> None:
    group = "streams-others"
    brokers.joins(group, "m1", PROGRAM)
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="c", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["streams-in"], topic_partitions=[]
    )
    share = ShareGroupHeartbeatRequest(group_id=group, member_id="c", member_epoch=0, subscribed_topic_names=["streams-in"])
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    others: tuple[tuple[Request[Any], int], ...] = (
        (consumer, 1),
        (share, 1),
        (HeartbeatRequest(group_id=group, generation_id=1, member_id="c"), 4),
        (LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="c")]), 5),
        (DescribeGroupsRequest(groups=[group]), 6),
        (DescribeGroupsRequest(groups=[group]), 5),
        (ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1),
        (DeleteGroupsRequest(groups_names=[group]), 2),
        (join, 9),
    )
    for other, version in others:
        brokers.same(other, version)
    brokers.beats(group, "m1", -1)
    for other, version in ((consumer, 1), (share, 1), (others[4][0], 6)):
        brokers.same(other, version)
    for answer in brokers.both.both(join, 9):
        assert answer.error_code == ErrorCode.NONE, "an empty streams group becomes a classic one"
    joined = brokers.joins(group, "m1", PROGRAM)
    brokers.beats(group, "m1", joined.member_epoch)
    brokers.describe(group)
    leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="", group_instance_id="static")])
    brokers.both.both(leaving, 5)
    assert brokers.joins(group, "m1", PROGRAM).error_code == ErrorCode.NONE, "an empty classic group becomes a streams group"
    brokers.joins(group, "m2", PROGRAM)
    brokers.describe(group)
    for name in ("m1", "m2"):
        brokers.beats(group, name, -1)
    brokers.same(DeleteGroupsRequest(groups_names=[group]), 2)
    brokers.same(ListGroupsRequest(types_filter=["streams"], states_filter=["Stable"]), 5)


def test_without_the_feature(brokers: Both) -> None:
    """At streams.version 0 no member is served; the groups in the log stay."""
    group = "streams-feature"
    brokers.joins(group, "m1", PROGRAM)

    def finalize(level: int, kind: int) -> None:
        update = FeatureUpdateKey(feature="streams.version", max_version_level=level, upgrade_type=kind)
        brokers.same(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000), 2)

    def codes() -> set[int]:
        return {answer.error_code for answer in brokers.both.both(request(group, "m1", 2), 0)}

    finalize(2, 1)
    finalize(0, 1)
    finalize(0, 2)
    try:
        brokers.wait_for(lambda: codes() == {ErrorCode.UNSUPPORTED_VERSION}, "downgrade")
        brokers.joins(group, "m2", PROGRAM)
        brokers.same(StreamsGroupDescribeRequest(group_ids=[group, "nosuch"], include_authorized_operations=False), 0)
        brokers.same(ListGroupsRequest(types_filter=["streams"], states_filter=["Stable"]), 5)
    finally:
        finalize(1, 1)
    brokers.wait_for(lambda: codes() == {ErrorCode.NONE}, "upgrade")
    brokers.beats(group, "m1", -1)
    brokers.same(DeleteGroupsRequest(groups_names=[group]), 2)
