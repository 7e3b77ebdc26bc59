"""A group that a request names again and again: the answer must not grow with it."""

import asyncio
from typing import Any

import pytest

from moldau.coordinator.group.offsets import commit_record
from moldau.coordinator.outcome import Outcome
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from moldau.server.coordinators.topic import CoordinatorTopic, answered
from moldau.server.handlers.consumer_group_describe import consumer_group_describe
from moldau.server.handlers.describe_groups import describe_groups
from moldau.server.handlers.describe_share_group_offsets import describe_share_group_offsets
from moldau.server.handlers.offset_fetch import offset_fetch
from moldau.types import GROUP_TOPIC, TopicPartition


async def coordinator(harness: Any) -> CoordinatorTopic[Any]:
    """The coordinator of group g, which has committed an offset."""
    topic: CoordinatorTopic[Any] = harness.broker.coordinators.groups
    partition = harness.lead(GROUP_TOPIC, topic.partition_for("g"))
    harness.broker.coordinators.leadership_changed(partition)
    while topic.is_loading():  # noqa: ASYNC110  nothing says when
        await asyncio.sleep(0)
    record = commit_record("g", TopicPartition("orders", 0), offset=5, leader_epoch=-1, metadata="", now_ms=0)
    topic.run_all(lambda machine, now_ms: Outcome([record]))
    await asyncio.sleep(0)
    harness.flush()
    return topic


async def answer_to(harness: Any, handler: Any, request: Any, version: int | None = None) -> Any:
    said = harness.call(handler, request, version)
    if asyncio.iscoroutine(said):
        return await said
    return await answered(said)


@pytest.mark.parametrize("count", [2, 101])
async def test_a_group_that_is_named_again_is_described_once(harness: Any, count: int) -> None:
    harness.cluster.finalized = {"group.version": 1}
    topic = await coordinator(harness)
    groups = (await answer_to(harness, describe_groups, DescribeGroupsRequest(groups=["g"] * count))).groups
    assert [group.group_id for group in groups] == ["g"]
    described = await answer_to(
        harness, consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=["g"] * count, include_authorized_operations=False)
    )
    assert [group.group_id for group in described.groups] == ["g"]
    topic.close()


async def test_a_share_groups_offsets_are_told_once(harness: Any) -> None:
    whole = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    answer = await answer_to(harness, describe_share_group_offsets, DescribeShareGroupOffsetsRequest(groups=[whole, whole]))
    assert [group.group_id for group in answer.groups] == ["g"]


async def test_a_groups_offsets_are_told_once_and_named_ones_as_often_as_asked(harness: Any) -> None:
    topic = await coordinator(harness)
    whole = OffsetFetchRequestGroup(group_id="g", topics=None)
    some = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])])
    answer = await answer_to(harness, offset_fetch, OffsetFetchRequest(groups=[whole, some, whole, some]), 9)
    assert [[one.committed_offset for each in group.topics for one in each.partitions] for group in answer.groups] == [[5], [5], [5]]
    topic.close()
