"""OffsetCommit before a group is asked: partitions that do not exist."""

from typing import Any

from moldau.errors import ErrorCode
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.server.handlers.offset_commit import offset_commit


def test_as_many_as_a_request_can_name_are_told_at_once(harness_with_orders: Any) -> None:
    """They were compared with each other: half a minute for these."""
    indexes = [-1, *range(3, 20_000)]
    asked = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="") for index in indexes]
    request = OffsetCommitRequest(group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name="orders", partitions=asked)])
    (topic,) = harness_with_orders.call(offset_commit, request, 9).topics
    assert [each.partition_index for each in topic.partitions] == indexes
    assert {each.error_code for each in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
