"""What comes before a node serves."""

import asyncio
from unittest.mock import create_autospec

from moldau.net.connection import Connection, ConnectionLimits, Reply
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Network, Transport
from moldau.server.config import ServerConfig
from moldau.server.listeners import Listeners


async def test_what_has_waited_is_dispatched_before_what_comes_next() -> None:
    listeners = Listeners(create_autospec(Network), ServerConfig())
    connection = Connection(
        create_autospec(Transport), listeners.dispatch, limits=ConnectionLimits(), buffers=ReceiveBuffers(), listener_name="PLAINTEXT"
    )
    seen: list[bytes] = []

    def note(_: Connection, frame: memoryview) -> Reply:
        seen.append(bytes(frame))
        return None

    async def dispatch(frame: bytes) -> None:
        reply = listeners.dispatch(connection, memoryview(frame))
        if reply is not None and not isinstance(reply, list):
            await asyncio.ensure_future(reply)  # as a connection does

    early = [asyncio.create_task(dispatch(b"1")), asyncio.create_task(dispatch(b"2"))]
    await asyncio.sleep(0)
    assert seen == []
    listeners.serve({"PLAINTEXT": note})
    await dispatch(b"3")  # in the same turn of the loop
    await asyncio.gather(*early)
    await dispatch(b"4")
    assert seen == [b"1", b"2", b"3", b"4"]
