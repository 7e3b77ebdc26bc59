"""OffsetCommit before a group is asked: partitions that do not exist."""

from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.server.handlers.offset_commit import offset_commit


def test_partitions_are_told_apart_by_their_index(harness_with_orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing each partition with all others took half a minute for as many as a request can name."""
    monkeypatch.setattr(OffsetCommitRequestPartition, "__eq__", compared)
    indexes = [-1, 3, 4, 5]
    asked = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="") for index in indexes]
    request = OffsetCommitRequest(group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name="orders", partitions=asked)])
    (topic,) = harness_with_orders.call(offset_commit, request, 9).topics
    assert [each.partition_index for each in topic.partitions] == indexes
    assert {each.error_code for each in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def compared(*_: object) -> bool:
    raise AssertionError("partitions are compared with each other")
