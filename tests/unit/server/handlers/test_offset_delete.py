"""OffsetDelete before a group is asked: partitions that do not exist."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.coordinator.group.environment import Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.offsets import commit_record
from moldau.errors import ErrorCode
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from moldau.server.handlers.offset_delete import _parted, offset_delete
from moldau.types import TopicPartition


def asked(topic: str, *partitions: int) -> OffsetDeleteRequestTopic:
    return OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in partitions])


def test_a_missing_topic_that_is_named_twice_is_told_whole(harness_with_orders: Any) -> None:
    _, unknown = _parted([asked("gone", 7), asked("gone", 8)], harness_with_orders.broker.coordinators.group_environment.topics)
    assert [each.partition_index for each in unknown["gone"].partitions] == [7, 8]


def test_each_partition_that_does_not_exist_is_told(harness_with_orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment: Environment = harness_with_orders.broker.coordinators.group_environment
    machine = GroupMachine(environment)
    for partition in range(2):
        machine.replay(
            partition, commit_record("g", TopicPartition("orders", partition), offset=7, leader_epoch=1, metadata="", now_ms=0), None
        )

    def ask(group_id: str, decide: Callable[..., Any], *, refused: object, transform: Callable[[Any], Any]) -> Any:
        outcome = decide(machine, object(), 0)
        for record in outcome.records:
            machine.replay(9, record, None)
        return transform(outcome.replies[0].message)

    monkeypatch.setattr(harness_with_orders.broker.coordinators.groups, "ask", ask)
    request = OffsetDeleteRequest(group_id="g", topics=[asked("orders", 0, 5), asked("gone", 0)])
    response = harness_with_orders.call(offset_delete, request)
    told = {(topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == {("orders", 0): ErrorCode.NONE, ("orders", 5): unknown, ("gone", 0): unknown}
    assert [topic.name for topic in response.topics] == ["orders", "gone"], "each topic comes once"
    assert list(machine.offsets.committed("g")) == [TopicPartition("orders", 1)]
