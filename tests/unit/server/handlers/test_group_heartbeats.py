"""Heartbeats of groups on connections that their members have replaced."""

from copy import copy
from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from moldau.server.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from moldau.server.handlers.share_group_heartbeat import share_group_heartbeat
from moldau.server.handlers.streams_group_heartbeat import streams_group_heartbeat
from moldau.server.requests.dispatch import Client, ConnectionClosed, RequestContext

OLD, NEW = 7, 8
FINALIZED = {"group.version": 1, "share.version": 1, "streams.version": 1}
HEARTBEATS = {
    "consumer": (consumer_group_heartbeat, ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=3)),
    "share": (share_group_heartbeat, ShareGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=3)),
    "streams": (
        streams_group_heartbeat,
        StreamsGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=3, endpoint_information_epoch=0),
    ),
}


@pytest.mark.parametrize("kind", HEARTBEATS)
def test_what_the_code_says_is_not_said_again(harness: Any, kind: str) -> None:
    handler, request = HEARTBEATS[kind]
    for finalized, code in (({}, ErrorCode.UNSUPPORTED_VERSION), (FINALIZED, ErrorCode.NOT_COORDINATOR)):
        harness.cluster.finalized = finalized
        answer = harness.call(handler, request)
        assert (answer.error_code, answer.error_message) == (code, None)


def on_connection(harness: Any, connection: int, handler: Any, request: Any) -> ErrorCode:
    header = harness.context(request).header
    client = Client(listener="PLAINTEXT", host="10.0.0.9", port=5, connection_number=connection)
    return ErrorCode.of(handler(harness.broker, RequestContext(header, client, harness.clock.now_ms()), request).error_code)


@pytest.mark.parametrize("kind", HEARTBEATS)
def test_a_heartbeat_from_before_is_not_taken_for_news(harness: Any, kind: str) -> None:
    harness.cluster.finalized = FINALIZED
    handler, request = HEARTBEATS[kind]

    def beat(connection: int) -> ErrorCode:
        return on_connection(harness, connection, handler, request)

    assert beat(OLD) is ErrorCode.NOT_COORDINATOR
    assert beat(NEW) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ConnectionClosed):
        beat(OLD)
    assert beat(NEW) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("kind", HEARTBEATS)
def test_an_administrator_may_remove_a_member_on_an_older_connection(harness: Any, kind: str) -> None:
    harness.cluster.finalized = FINALIZED
    handler, request = HEARTBEATS[kind]
    leave = copy(request)
    leave.member_epoch = -1
    assert on_connection(harness, NEW, handler, request) is ErrorCode.NOT_COORDINATOR
    assert on_connection(harness, OLD, handler, leave) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ConnectionClosed):
        on_connection(harness, OLD, handler, request)
