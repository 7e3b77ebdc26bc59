"""JoinGroup and SyncGroup on a broker without a cluster."""

import asyncio
from typing import Any

import pytest

from moldau.coordinator.group.classic import ClassicGroup
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.server.handlers.join_group import join_group
from moldau.types import GROUP_TOPIC

REPLACED = "�"
"""A byte that is not UTF-8, as it is read: three bytes when it is written again."""


def a_join(**fields: Any) -> JoinGroupRequest:
    given: dict[str, Any] = {"group_id": "g", "member_id": "", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    given |= {"protocol_type": "consumer", "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"")]} | fields
    return JoinGroupRequest(**given)


@pytest.mark.parametrize(
    ("fields", "client_id"),
    [
        ({}, "c" * 32_731),
        ({}, REPLACED * 20_000),
        ({"group_instance_id": "i" * 32_731}, "c"),
        ({"protocol_type": REPLACED * 20_000}, "c"),
        ({"protocols": [JoinGroupRequestProtocol(name=REPLACED * 20_000, metadata=b"")]}, "c"),
        ({"group_id": REPLACED * 20_000}, "c"),
    ],
    ids=["client", "client with other bytes", "instance", "type", "protocol", "group"],
)
async def test_a_name_that_the_groups_record_cannot_hold_is_refused_at_once(harness: Any, fields: Any, client_id: str) -> None:
    """Taken in, it would keep the record of the whole group from being written: no other member would get its assignment."""
    answer = harness.call(join_group, a_join(**fields), 3, client_id=client_id)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_the_longest_names_are_written(harness: Any) -> None:
    topic = harness.broker.coordinators.groups
    partition = harness.lead(GROUP_TOPIC, topic.partition_for("g"))
    harness.broker.coordinators.leadership_changed(partition)
    while topic.is_loading():  # noqa: ASYNC110  nothing says when
        await asyncio.sleep(0)
    answer = harness.call(join_group, a_join(), 3, client_id="c" * 32_730)
    assert isinstance(answer, Later)
    group = topic.active_shards()[0].machine.group("g")
    assert isinstance(group, ClassicGroup) and group.members
    group.protocol_name = "range"
    topic.run(topic.active_shards()[0], lambda now_ms: group._assign({}, now_ms))
    assert group.recorded is not None and len(group.recorded.members[0].member_id) == 32_767
    topic.close()
