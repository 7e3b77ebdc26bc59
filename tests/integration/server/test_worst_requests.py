"""The worst requests of each API, in every version, to a broker in this process: how long one turn of its loop may be, in CPU time."""

import asyncio
import gc
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from moldau.net.connection import ConnectionLimits
from moldau.protocol.header import encode_request
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.create_acls import CreateAclsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from moldau.protocol.wire import Request
from moldau.server.requests.dispatch import served_versions
from moldau.testing.embedded import EmbeddedBroker
from proof.hostile.turns import LONGEST_TURN_S, Turns, broker_as_in_a_process, measured
from proof.hostile.worst import Worst, worst_requests

pytestmark = pytest.mark.slow

FRAME_BYTES: Final = 1 << 20
"""The frame of the newest version: more elements of four bytes fit in than a request may have."""
EARLIER_FRAME_BYTES: Final = 1 << 18
"""The frame of every other version, smaller to save time."""
LARGEST_FRAME_BYTES: Final = ConnectionLimits().max_request_bytes
LONGEST_NAME: Final = 249
ATTEMPTS: Final = 3
"""The shortest of these attempts counts: other programs on the processor make CPU time longer, and nothing makes it shorter."""
PATIENCE_S: Final = 60.0
_LENGTH: Final = struct.Struct(">i")

APIS: Final = [declared for _, declared in sorted(REQUESTS.items()) if "broker" in declared.LISTENERS]
LONGEST_ANSWERS: Final = [FindCoordinatorRequest, ShareGroupDescribeRequest, LeaveGroupRequest, MetadataRequest, CreateAclsRequest]
"""The slowest ones when all APIs were asked with frames of `LARGEST_FRAME_BYTES`."""


@pytest.fixture(scope="module")
def turns() -> Iterator[Turns]:
    with measured() as turns:
        yield turns


@pytest.fixture(scope="module")
def broker(turns: Turns) -> Iterator[EmbeddedBroker]:
    with broker_as_in_a_process() as broker:
        yield broker


def ask(broker: EmbeddedBroker, frame: bytes) -> None:
    """Sends a request and waits until the whole answer has come or the connection is closed."""
    with socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S) as client, suppress(ConnectionError):
        client.sendall(frame)
        head = client.recv(4, socket.MSG_WAITALL)
        left = _LENGTH.unpack(head)[0] if len(head) == 4 else 0
        while left and (data := client.recv(min(left, 1 << 20))):
            left -= len(data)


def hold_to_bound(broker: EmbeddedBroker, turns: Turns, worst: Worst, version: int, *, one_byte_too_few: bool = False) -> None:
    name = type(worst.request).__name__
    data = b"".join(map(bytes, encode_request(worst.request, version=version, correlation_id=1, client_id="worst")))  # type: ignore[arg-type]
    if one_byte_too_few:
        data = _LENGTH.pack(len(data) - 5) + data[4:-1]
    said = []
    for _ in range(ATTEMPTS):
        gc.freeze()  # the request of this test is no object of the broker
        turns.begin()
        ask(broker, data)
        if turns.longest_s <= LONGEST_TURN_S:
            return
        said.append(f"{turns.longest_s:.3f} s in {turns.what}")
    pytest.fail(f"{name} v{version} with {worst.elements} {worst.what}: {said}")


@pytest.mark.parametrize("declared", APIS, ids=lambda declared: declared.__name__)
def test_no_request_holds_the_loop(
    broker: EmbeddedBroker, turns: Turns, declared: type[Request[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    newest = max(served_versions(declared))
    for version in served_versions(declared):
        for worst in worst_requests(declared, version, FRAME_BYTES if version == newest else EARLIER_FRAME_BYTES):
            hold_to_bound(broker, turns, worst, version)
            hold_to_bound(broker, turns, worst, version, one_byte_too_few=True)
            failed = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
            assert not failed, f"{declared.__name__} v{version} with {worst.elements} {worst.what}: {failed}"


@pytest.mark.parametrize("declared", LONGEST_ANSWERS, ids=lambda declared: declared.__name__)
def test_the_largest_request_does_not_hold_the_loop(broker: EmbeddedBroker, turns: Turns, declared: type[Request[Any]]) -> None:
    version = max(served_versions(declared))
    for worst in worst_requests(declared, version, LARGEST_FRAME_BYTES, name_length=LONGEST_NAME):
        hold_to_bound(broker, turns, worst, version)


def test_a_loop_that_is_held_is_seen(broker: EmbeddedBroker, turns: Turns) -> None:
    assert broker._loop is not None
    turns.begin()
    held = threading.Event()

    def hold() -> None:
        end_s = time.thread_time() + LONGEST_TURN_S
        while time.thread_time() < end_s:
            pass
        held.set()

    broker._loop.call_soon_threadsafe(hold)
    broker._loop.call_soon_threadsafe(held.set)
    assert held.wait(PATIENCE_S)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), broker._loop).result(PATIENCE_S)
    assert turns.longest_s >= LONGEST_TURN_S
