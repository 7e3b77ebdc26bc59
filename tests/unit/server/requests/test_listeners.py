"""Requests that come before a node serves."""

import asyncio
from unittest.mock import create_autospec

from moldau.net.connection import Connection, ConnectionLimits, Reply, ReplyOrLater
from moldau.net.framing import ReceiveBuffers
from moldau.net.later import Later
from moldau.net.transport import Transport
from moldau.server.requests.listeners import Gate
from moldau.types import Part


async def test_what_has_waited_is_dispatched_before_what_comes_next() -> None:
    gate = Gate()
    connection = Connection(
        create_autospec(Transport), gate.dispatch, limits=ConnectionLimits(), buffers=ReceiveBuffers(), listener_name="PLAINTEXT"
    )
    seen: list[bytes] = []

    later: Later[list[Part]] = Later(lambda: None)

    def note(_: Connection, frame: memoryview) -> ReplyOrLater:
        seen.append(bytes(frame))
        return later if frame == b"2" else [frame]

    async def dispatch(frame: bytes) -> Reply:
        reply = gate.dispatch(connection, memoryview(frame))
        assert not isinstance(reply, Later)
        return reply if reply is None or isinstance(reply, list) else await asyncio.create_task(reply)  # as a connection does

    early = [asyncio.create_task(dispatch(b"1")), asyncio.create_task(dispatch(b"2"))]
    await asyncio.sleep(0)
    assert seen == []
    gate.serve(note)
    await dispatch(b"3")  # in the same turn of the loop
    assert await early[0] == [b"1"]
    later.complete([b"late"])
    assert await early[1] == [b"late"]
    await dispatch(b"4")
    assert seen == [b"1", b"2", b"3", b"4"]


async def test_who_gives_up_what_he_asked_before_a_node_served_disturbs_nobody() -> None:
    gate = Gate()
    connection = Connection(
        create_autospec(Transport), gate.dispatch, limits=ConnectionLimits(), buffers=ReceiveBuffers(), listener_name="PLAINTEXT"
    )
    later: Later[list[Part]] = Later(lambda: None)
    reply = gate.dispatch(connection, memoryview(b"early"))
    assert asyncio.iscoroutine(reply)
    task = asyncio.create_task(reply)
    gate.serve(lambda *_: later)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    later.complete([b"to nobody"])  # a coordinator completes this, for which others wait
