"""A coordinator loads any well-formed record and goes on working: one record must not shut out everybody whom its partition serves."""

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.records import GROUP_RECORDS
from moldau.coordinator.group.share import ShareGroup
from moldau.coordinator.group.streams.group import StreamsGroup
from moldau.coordinator.outcome import CoordinatorRecord
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.share.machine import Environment as ShareEnvironment
from moldau.coordinator.share.machine import ShareStateMachine
from moldau.coordinator.share.records import SHARE_STATE_RECORDS
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.stored import KeyedRecords
from moldau.protocol.wire import Field
from proof.arbitrary import arbitrary, plain
from proof.coordination import Asked, Desk, FixedTopics, MemoryLog

HOUR_MS = 3_600_000
CLIENT = Client("client", "/127.0.0.1", 9)
TOPIC = TopicView(UUID(int=1), "t", 3)


def few_names(kind: str, field: Field) -> st.SearchStrategy[Any]:
    """Few different values, so that records are often about the same groups, members and topics."""
    if kind == "string":
        return st.sampled_from(["a", "b", "t", "consumer", ""])
    if kind == "uuid":
        return st.sampled_from([TOPIC.topic_id, UUID(int=2)])
    return plain(kind, field)


def record_of(records: KeyedRecords) -> st.SearchStrategy[CoordinatorRecord]:
    return st.one_of(
        st.builds(
            CoordinatorRecord, arbitrary(key, 0, plain=few_names), st.none() | arbitrary(records.values[number], version, plain=few_names)
        )
        for number, key in records.keys.items()
        for version in records.values[number].VERSIONS
    )


@given(st.lists(record_of(GROUP_RECORDS), max_size=12))
def test_groups(records: list[CoordinatorRecord]) -> None:
    environment = Environment(GroupCoordinatorConfig(), FixedTopics(TOPIC), lambda: UUID(int=3))
    desk = Desk(lambda: GroupMachine(environment), log_of(records))
    for name in ("a", "b"):
        use(desk, name)
    desk.advance(HOUR_MS)
    desk.fail_over()


def use(desk: Desk[GroupMachine], name: str) -> None:
    """Describes the group, of whatever kind it is, and joins it."""
    machine = desk.machine
    machine.list_groups(Asked())
    machine.describe(Asked(), name, CLIENT)
    for kind in (ConsumerGroup, ShareGroup, StreamsGroup):
        machine.describe_of(Asked(), name, kind, lambda *reason: reason)
    joining = ConsumerGroupHeartbeatRequest(
        group_id=name, member_id="a", member_epoch=0, subscribed_topic_names=["t"], rebalance_timeout_ms=1000, topic_partitions=[]
    )
    desk.ask(lambda token, now_ms: machine.consumer_heartbeat(token, joining, CLIENT, now_ms))
    sharing = ShareGroupHeartbeatRequest(group_id=name, member_id="a", member_epoch=0, subscribed_topic_names=["t"])
    desk.ask(lambda token, now_ms: machine.share_heartbeat(token, sharing, CLIENT, now_ms))


@given(st.lists(record_of(SHARE_STATE_RECORDS), max_size=12))
def test_share_states(records: list[CoordinatorRecord]) -> None:
    environment = ShareEnvironment(ShareCoordinatorConfig(), FixedTopics(TOPIC))
    desk = Desk(lambda: ShareStateMachine(environment), log_of(records))
    desk.advance(HOUR_MS)
    desk.fail_over()


def log_of(records: list[CoordinatorRecord]) -> MemoryLog:
    log = MemoryLog()
    log.entries += [(record, None) for record in records]
    return log
