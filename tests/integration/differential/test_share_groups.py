"""The coordinators' answers about share groups (KIP-932): heartbeat, describe, offsets, and the states at the share coordinator."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages import delete_share_group_offsets as forget
from moldau.protocol.messages import delete_share_group_state as delete
from moldau.protocol.messages import describe_share_group_offsets as offsets
from moldau.protocol.messages import initialize_share_group_state as begin
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import read_share_group_state_summary as summary
from moldau.protocol.messages import share_group_describe as describe
from moldau.protocol.messages import share_group_heartbeat as beat
from moldau.protocol.messages import write_share_group_state as write
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from moldau.protocol.wire import Request, Struct
from moldau.types import uuid_to_text
from proof.kafka.differential import Differential, Differs, differences

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

TOPIC = "share-queue"
OTHER = "share-other"
WITHIN_S = 60.0
NOT_YET = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


def neutral(value: Any, names: dict[UUID, int]) -> Any:
    """An answer without what may differ between two brokers.

    Numbers stand for topic ids, which each broker makes for itself.  Of a member's partitions only the number counts.  Error codes have no
    words.  Lists are sorted, because Kafka's order comes from hash maps.
    """
    if isinstance(value, Struct):
        for field in value.FIELDS:
            setattr(value, field.name, neutral(getattr(value, field.name), names))
        if hasattr(value, "error_message"):
            value.error_message = None
        if isinstance(value, beat.TopicPartitions | describe.TopicPartitions):
            value.partitions = list(range(len(value.partitions)))
    elif isinstance(value, list):
        return sorted((neutral(one, names) for one in value), key=repr)
    elif isinstance(value, UUID):
        return UUID(int=names.get(value, value.int))
    return value


class Both:
    """Both brokers: each is asked the same, with its own id of the topic."""

    def __init__(self, both: Differential) -> None:
        self.both = both
        made = [CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]) for name in (TOPIC, OTHER)]
        both.both(CreateTopicsRequest(topics=made, timeout_ms=10_000), 7)
        self.wait_for(lambda: all(len(topic_ids) == 2 for topic_ids in self.find_topics()), "topics")
        self.names = [{ids[TOPIC]: 1, ids[OTHER]: 2} for ids in self.find_topics()]
        self.topic_ids = [ids[TOPIC] for ids in self.find_topics()]

    def find_topics(self) -> list[dict[str, UUID]]:
        named = [MetadataRequestTopic(name=name) for name in (TOPIC, OTHER)]
        answers = self.both.both(MetadataRequest(topics=named, allow_auto_topic_creation=False), 12)
        return [{topic.name: topic.topic_id for topic in answer.topics if not topic.error_code} for answer in answers]

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, f"no {what} within {WITHIN_S:.0f} s"
            time.sleep(0.2)

    def each(self, request: Callable[[UUID], Request[Any]], version: int) -> tuple[Any, Any]:
        ours, theirs = (
            client.ask(request(topic_id), version)
            for client, topic_id in zip((self.both.ours, self.both.theirs), self.topic_ids, strict=True)
        )
        return ours, theirs

    def same(self, request: Callable[[UUID], Request[Any]], version: int) -> Any:
        """Our answer; Kafka's is the same but for the words of errors."""
        ours, theirs = (neutral(answer, names) for answer, names in zip(self.each(request, version), self.names, strict=True))
        found = list(differences(ours, theirs))
        if found:
            raise Differs(f"{request(self.topic_ids[0])!r}:\n" + "\n".join(found))
        return ours

    def finds(self, key_type: int, key: Callable[[UUID], str]) -> None:
        """Waits for a coordinator.  The first question makes its topic."""
        self.wait_for(
            lambda: all(
                not answer.coordinators[0].error_code
                for answer in self.each(lambda topic_id: FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key(topic_id)]), 6)
            ),
            "coordinator",
        )

    def beats(self, group_id: str, member_id: str, epoch: int, *names: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(names) or None, **fields
        )
        ours = self.same(lambda _: request, 1)
        assert isinstance(ours, ShareGroupHeartbeatResponse)
        return ours

    def settles(self, group_id: str, member_id: str, partitions: int, *names: str) -> int:
        """Sends heartbeats until the member has its `partitions` at both brokers; returns its epoch, which is the same at both."""
        epochs = [0, 0]
        first = names or (TOPIC,)
        while True:
            counts = []
            for index, client in enumerate((self.both.ours, self.both.theirs)):
                request = ShareGroupHeartbeatRequest(
                    group_id=group_id, member_id=member_id, member_epoch=epochs[index], subscribed_topic_names=list(first)
                )
                answer: Any = client.ask(request, 1)
                assert not answer.error_code, answer
                epochs[index] = answer.member_epoch
                counts.append(sum(len(topic.partitions) for topic in answer.assignment.topic_partitions))
            if counts == [partitions, partitions]:
                assert epochs[0] == epochs[1], epochs
                return epochs[0]
            time.sleep(1.1)  # longer than the least time between two assignments


@pytest.fixture(scope="module")
def brokers(both: Differential) -> Both:
    brokers = Both(both)
    brokers.finds(0, lambda topic_id: "share-group")
    brokers.finds(2, lambda topic_id: f"share-group:{uuid_to_text(topic_id)}:0")
    # Both have loaded all partitions of their coordinators' topics once they list groups without an error.
    brokers.wait_for(lambda: not any(a.error_code for a in both.both(ListGroupsRequest(), 5)), "groups")
    return brokers


def test_finding_the_share_coordinator(brokers: Both) -> None:
    for key in ("", "nothing", "group:nothing:0", ":AAAAAAAAAAAAAAAAAAAAAQ:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"):
        brokers.both.ask(
            FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6, ignoring={"coordinators.error_message", "coordinators.port"}
        )


def test_a_member_and_its_group(brokers: Both) -> None:
    group = "share-members"
    for epoch, names, fields in (
        (0, [], {}),
        (0, [TOPIC], {"rack_id": ""}),
        (-2, [], {}),
        (5, [], {}),
        (-1, [], {}),
    ):
        answer = brokers.beats(group, "m1", epoch, *names, **fields)
        assert answer.error_code
    brokers.beats(group, "", 0, TOPIC)
    brokers.beats(group, "m" * 37, 0, TOPIC)
    brokers.beats("", "m1", 0, TOPIC)
    joined = brokers.beats(group, "m1", 0, TOPIC)
    assert joined.member_epoch == 2
    epoch = brokers.settles(group, "m1", 2)
    brokers.beats(group, "m1", epoch)
    brokers.beats(group, "m1", epoch + 1)
    late = ShareGroupHeartbeatRequest(group_id=group, member_id="m1", member_epoch=epoch - 1)
    ours, theirs = brokers.each(lambda _: late, 1)
    assert (ours.error_code, ours.member_epoch) == (theirs.error_code, theirs.member_epoch) == (0, epoch)
    assert ours.assignment is not None, "a member that missed an answer is told its assignment; Kafka waits to be asked"
    brokers.beats(group, "m1", 0, TOPIC)
    brokers.beats(group, "other", 3)
    described_groups = ShareGroupDescribeRequest(group_ids=[group, "nosuch", ""], include_authorized_operations=True)
    brokers.same(lambda _: described_groups, 1)
    second = brokers.settles(group, "m2", 1)
    assert second > epoch
    third = brokers.settles(group, "m1", 1)
    assert third == second
    time.sleep(1.2)
    brokers.beats(group, "m1", third, TOPIC, "nosuch-topic")
    for request, version in (
        (ListGroupsRequest(types_filter=["share"]), 5),
        (ListGroupsRequest(types_filter=["Share"], states_filter=["Empty"]), 5),
        (DescribeGroupsRequest(groups=[group]), 6),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 9),
    ):
        brokers.same(lambda _, request=request: request, version)
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="c", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )
    brokers.same(lambda _: consumer, 1)
    brokers.both.ask(DeleteGroupsRequest(groups_names=[group, "nosuch"]), 2)
    for member_id in ("m1", "m2", "m1"):
        brokers.beats(group, member_id, -1)
    brokers.same(lambda _: described_groups, 1)
    brokers.both.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    brokers.same(lambda _: described_groups, 1)
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    brokers.same(lambda _: offsets.DescribeShareGroupOffsetsRequest(groups=[asked]), 1)


def described(group_id: str, *names: str) -> offsets.DescribeShareGroupOffsetsRequest:
    topics = [offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 1]) for name in names]
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics or None)
    return offsets.DescribeShareGroupOffsetsRequest(groups=[asked])


def test_offsets_of_a_group(brokers: Both) -> None:
    group = "share-offsets"
    for version in (0, 1):
        brokers.same(lambda _: described(group), version)
        brokers.same(lambda _: described(group, TOPIC, "nosuch"), version)
    change = [alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=index) for index in (0, 7)]

    def altered(*names: str) -> alter.AlterShareGroupOffsetsRequest:
        topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=change) for name in names]
        return alter.AlterShareGroupOffsetsRequest(group_id=group, topics=topics)

    def forgotten(*names: str) -> forget.DeleteShareGroupOffsetsRequest:
        topics = [forget.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        return forget.DeleteShareGroupOffsetsRequest(group_id=group, topics=topics)

    brokers.same(lambda _: forgotten(TOPIC), 0)
    brokers.same(lambda _: altered("nosuch"), 0)
    brokers.same(lambda _: ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1)
    brokers.same(lambda _: altered(TOPIC, "nosuch"), 0)
    brokers.same(lambda _: ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1)
    brokers.same(lambda _: described(group), 1)
    brokers.same(lambda _: described(group, TOPIC, OTHER), 1)
    brokers.settles(group, "m", 2)
    brokers.same(lambda _: altered(TOPIC), 0)
    brokers.same(lambda _: forgotten(TOPIC), 0)
    brokers.beats(group, "m", -1)
    brokers.same(lambda _: altered(OTHER), 0)
    brokers.same(lambda _: forgotten(TOPIC, OTHER, "nosuch"), 0)
    brokers.same(lambda _: forgotten(TOPIC), 0)
    brokers.same(lambda _: described(group), 1)
    brokers.both.ask(DeleteGroupsRequest(groups_names=[group]), 2)


def test_states_at_the_share_coordinator(brokers: Both) -> None:
    group = "share-states"

    def beginning(partition: int, epoch: int, start: int) -> Callable[[UUID], Request[Any]]:
        asked = [begin.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)]
        return lambda topic_id: begin.InitializeShareGroupStateRequest(
            group_id=group, topics=[begin.InitializeStateData(topic_id=topic_id, partitions=asked)]
        )

    def writing(partition: int, state_epoch: int, leader_epoch: int, start: int, *batches: tuple[int, int, int, int]) -> Callable[..., Any]:
        asked = write.PartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=4,
            state_batches=[
                write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        return lambda topic_id: write.WriteShareGroupStateRequest(
            group_id=group, topics=[write.WriteStateData(topic_id=topic_id, partitions=[asked])]
        )

    def reading(partition: int, leader_epoch: int) -> Callable[[UUID], Request[Any]]:
        asked = [read.PartitionData(partition=partition, leader_epoch=leader_epoch)]
        return lambda topic_id: read.ReadShareGroupStateRequest(
            group_id=group, topics=[read.ReadStateData(topic_id=topic_id, partitions=asked)]
        )

    def summing(*partitions: int) -> Callable[[UUID], Request[Any]]:
        asked = [summary.PartitionData(partition=partition, leader_epoch=0) for partition in partitions]
        return lambda topic_id: summary.ReadShareGroupStateSummaryRequest(
            group_id=group, topics=[summary.ReadStateSummaryData(topic_id=topic_id, partitions=asked)]
        )

    def deleting(*partitions: int) -> Callable[[UUID], Request[Any]]:
        asked = [delete.PartitionData(partition=partition) for partition in partitions]
        return lambda topic_id: delete.DeleteShareGroupStateRequest(
            group_id=group, topics=[delete.DeleteStateData(topic_id=topic_id, partitions=asked)]
        )

    brokers.wait_for(
        lambda: all(answer.results[0].partitions[0].error_code not in NOT_YET for answer in brokers.each(summing(0), 1)), "state"
    )
    for request, version in (
        (writing(0, 0, 0, 0), 1),
        (reading(0, 0), 0),
        (summing(0, 1, 2, -1), 1),
        (deleting(0, 2, -1), 0),
        (beginning(7, 0, 0), 0),
        (beginning(-1, 0, 0), 0),
        (beginning(0, 3, 10), 0),
        (beginning(0, 2, 10), 0),
        (beginning(1, 0, -1), 0),
        (summing(0, 1), 0),
        (summing(0, 1), 1),
        (reading(0, 5), 0),
        (reading(0, 4), 0),
        (reading(0, -1), 0),
        (writing(0, 3, 4, 10), 1),
        (writing(0, 2, 5, 10), 1),
        (writing(0, 3, 5, 10, (5, 19, 0, 1), (12, 14, 2, 1), (15, 15, 4, 3)), 1),
        (writing(0, -1, -1, -1, (20, 29, 0, 2), (16, 24, 0, 2)), 1),
        (writing(7, 0, 0, 0), 1),
        (reading(0, 5), 0),
        (writing(0, 3, 5, 13, (13, 13, 0, 1)), 0),
        (reading(0, 6), 0),
        (summing(0, 1), 1),
        (beginning(0, 4, 99), 0),
        (reading(0, 6), 0),
        (deleting(0, 1), 0),
        (summing(0, 1), 1),
        (writing(0, 9, 9, 0), 1),
        (lambda _: read.ReadShareGroupStateRequest(group_id=group, topics=[]), 0),
        (lambda _: read.ReadShareGroupStateRequest(group_id="", topics=[]), 0),
    ):
        brokers.same(request, version)
