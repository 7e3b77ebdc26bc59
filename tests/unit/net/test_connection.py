"""A connection over a transport that only notes what is done to it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from moldau.net.connection import REQUESTS_PER_TURN, Connection, ConnectionLimits, InvalidFrame, Reply, ReplyOrLater
from moldau.net.framing import ReceiveBuffers
from moldau.net.later import Later
from moldau.net.transport import Address
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.wire import Request
from moldau.types import FileSlice, Part

Answer = Callable[[memoryview], ReplyOrLater]


class NotedTransport:
    """A transport that takes everything at once, until `is_deaf`."""

    def __init__(self) -> None:
        self.peer = Address("192.0.2.1", 1234)
        self.buffered = 0
        self.writes: list[bytes] = []
        self.is_deaf = False
        self.is_reading = True
        self.end: str | None = None

    def write(self, parts: Sequence[Part]) -> None:
        data = b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)
        self.writes.append(data)
        if self.is_deaf:
            self.buffered += len(data)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = self.end or "aborted"


def frame_of(api_key: int, content: bytes) -> bytes:
    return api_key.to_bytes(2, "big") + content


class Peer:
    """A peer that sends produces; `answer` gets the bytes behind the API's key."""

    def __init__(self, answer: Answer, **limits: int) -> None:
        self.transport = NotedTransport()
        self.connection = Connection(
            self.transport, lambda _, frame: answer(frame[2:]), limits=ConnectionLimits(**limits), buffers=ReceiveBuffers()
        )

    def send(self, *frames: bytes) -> None:
        self.send_frames(*[frame_of(ProduceRequest.API_KEY, frame) for frame in frames])

    def send_frames(self, *frames: bytes) -> None:
        self.send_raw(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))

    def send_raw(self, data: bytes) -> None:
        while data:
            buffer = self.connection.get_buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.connection.received(count)


def echo(frame: memoryview) -> Reply:
    return [b"<", bytes(frame), b">"]


async def turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def a_parked_peer() -> tuple[Peer, dict[bytes, Later[list[Part]]]]:
    """A peer with requests that all wait, and the `Later` of each."""
    parked: dict[bytes, Later[list[Part]]] = {}

    def answer(frame: memoryview) -> Later[list[Part]]:
        later = parked[bytes(frame)] = Later(lambda: None)
        return later

    return Peer(answer), parked


async def test_frames_of_one_receive_are_answered_in_one_write() -> None:
    peer = Peer(echo)
    peer.send(b"a", b"b", b"c")
    assert peer.transport.writes == [b"<a><b><c>"]


async def test_no_reply_sends_nothing_and_blocks_nothing() -> None:
    peer = Peer(lambda frame: None if frame == b"silent" else echo(frame))
    peer.send(b"silent", b"a", b"silent")
    assert peer.transport.writes == [b"<a>"]


async def test_a_late_answer_that_fails_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be sent for the request, and so nothing for the requests behind it: the connection would wait for ever."""
    peer, parked = a_parked_peer()
    peer.send(b"a")
    parked[b"a"].fail(RuntimeError("a bug"))
    assert peer.transport.end == "aborted"
    assert "a bug" in caplog.text


@pytest.mark.parametrize("request_type", [ProduceRequest, OffsetCommitRequest])
async def test_produces_and_commits_are_dispatched_while_earlier_ones_are_parked(request_type: type[Request[Any]]) -> None:
    parked: Later[list[Part]] = Later(lambda: None)
    seen = []

    def answer(frame: memoryview) -> ReplyOrLater:
        seen.append(bytes(frame))
        return parked if frame == b"slow" else echo(frame)

    peer = Peer(answer)
    peer.send_frames(*[frame_of(request_type.API_KEY, content) for content in (b"slow", b"fast")])
    assert (seen, peer.transport.writes) == ([b"slow", b"fast"], [])
    parked.complete([b"late"])
    await turns()
    assert peer.transport.writes == [b"late<fast>"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FetchRequest, ProduceRequest),
        (FetchRequest, ListOffsetsRequest),
        (ProduceRequest, OffsetCommitRequest),
        (OffsetCommitRequest, FetchRequest),
        (FetchRequest, FetchRequest),
    ],
)
async def test_any_other_request_begins_when_all_before_it_are_answered(first: type[Request[Any]], second: type[Request[Any]]) -> None:
    parked: list[Later[list[Part]]] = []
    seen = []

    def answer(frame: memoryview) -> ReplyOrLater:
        seen.append(bytes(frame))
        if frame != b"slow":
            return echo(frame)
        parked.append(Later(lambda: None))
        return parked[-1]

    peer = Peer(answer)
    later = frame_of(second.API_KEY, b"later")
    peer.send_frames(frame_of(first.API_KEY, b"slow"), later, frame_of(first.API_KEY, b"last"))
    peer.send_frames(later)
    assert (seen, peer.transport.writes, peer.transport.is_reading) == ([b"slow"], [], False)
    parked[0].complete([b"!"])
    await turns()
    assert seen == [b"slow", b"later", b"last", b"later"]
    assert b"".join(peer.transport.writes) == b"!<later><last><later>"
    assert peer.transport.is_reading


async def test_a_request_waits_for_all_that_were_begun_side_by_side() -> None:
    peer, parked = a_parked_peer()
    peer.send(b"a", b"b")
    peer.send_frames(frame_of(FetchRequest.API_KEY, b"fetch"))
    parked[b"b"].complete([b"b"])
    await turns()
    assert [*parked] == [b"a", b"b"]
    parked[b"a"].complete([b"a"])
    await turns()
    assert [*parked] == [b"a", b"b", b"fetch"]


async def test_replies_of_one_turn_leave_in_one_write() -> None:
    peer, parked = a_parked_peer()
    peer.send(b"a", b"b", b"c")
    for name in (b"c", b"a", b"b"):
        parked[name].complete([name])
    await turns()
    assert peer.transport.writes == [b"abc"]


async def test_a_reply_that_is_there_already_leaves_with_the_others() -> None:
    parked: Later[list[Part]] = Later(lambda: None)
    parked.complete([b"done"])
    peer = Peer(lambda frame: parked if frame == b"a" else echo(frame))
    peer.send(b"a", b"b")
    await turns()
    assert peer.transport.writes == [b"done<b>"]


async def test_coroutines_are_run() -> None:
    async def answer(frame: memoryview) -> Reply:
        await asyncio.sleep(0)
        return echo(frame)

    peer = Peer(answer)
    peer.send(b"a", b"b")
    await turns()
    assert b"".join(peer.transport.writes) == b"<a><b>"


async def test_requests_above_the_limit_in_flight_wait_and_none_is_lost() -> None:
    parked: list[Later[list[Part]]] = []

    def answer(frame: memoryview) -> Later[list[Part]]:
        parked.append(Later(lambda: None))
        return parked[-1]

    peer = Peer(answer, max_in_flight=2)
    peer.send(*[b"%d" % number for number in range(7)])
    assert len(parked) == 2 and not peer.transport.is_reading
    for number in range(7):
        parked[number].complete([b"%d" % number])
        await turns()
    assert b"".join(peer.transport.writes) == b"0123456"
    assert peer.transport.is_reading


async def test_parked_bytes_are_limited() -> None:
    parked: Later[list[Part]] = Later(lambda: None)
    peer = Peer(lambda frame: parked if len(frame) > 1000 else echo(frame), max_parked_bytes=1000)
    peer.send(b"x" * 2000, b"next")
    assert not peer.transport.is_reading
    parked.complete([])
    await turns()
    assert peer.transport.writes == [b"<next>"] and peer.transport.is_reading


async def test_who_does_not_read_is_not_served_on() -> None:
    served = []

    def answer(frame: memoryview) -> Reply:
        served.append(frame)
        return [bytes(1000)]

    peer = Peer(answer, max_unsent_bytes=10_000)
    peer.transport.is_deaf = True
    peer.send(*[b"more"] * 500)
    assert len(served) < 80 and not peer.transport.is_reading
    peer.transport.is_deaf, peer.transport.buffered = False, 0
    peer.connection.writable()
    await turns(500 // REQUESTS_PER_TURN + 1)
    assert len(served) == 500 and peer.transport.is_reading
    assert sum(map(len, peer.transport.writes)) == 500_000


async def test_many_requests_of_one_peer_do_not_keep_another_waiting() -> None:
    served: list[bytes] = []

    def answer(frame: memoryview) -> Reply:
        served.append(bytes(frame))
        return echo(frame)

    many, other = Peer(answer), Peer(answer)
    sent = [b"%d" % number for number in range(5 * REQUESTS_PER_TURN)]
    many.send(*sent)
    assert len(served) == REQUESTS_PER_TURN and not many.transport.is_reading
    other.send(b"other")
    await turns(6)
    assert served.index(b"other") == REQUESTS_PER_TURN
    assert b"".join(many.transport.writes) == b"".join(b"<%s>" % each for each in sent)
    assert many.transport.is_reading


async def test_a_late_reply_does_not_shorten_the_turn_of_the_others() -> None:
    """One reply that is ready later must not let its connection go on before the others had their turn."""
    parked: Later[list[Part]] = Later(lambda: None)
    served: list[bytes] = []

    def answer(frame: memoryview) -> ReplyOrLater:
        served.append(bytes(frame))
        return parked if frame == b"0" else echo(frame)

    peer = Peer(answer)
    peer.send(*[b"%d" % number for number in range(4 * REQUESTS_PER_TURN)])
    asyncio.get_running_loop().call_soon(lambda: served.append(b"other"))
    parked.complete([b"late"])
    peer.connection.writable()
    assert len(served) == REQUESTS_PER_TURN
    await turns(8)
    assert served.index(b"other") <= 2 * REQUESTS_PER_TURN
    assert len(served) == 4 * REQUESTS_PER_TURN + 1


@pytest.mark.parametrize("failure", [InvalidFrame("no header"), RuntimeError("a bug")])
async def test_a_frame_that_cannot_be_dispatched_closes_after_the_replies_before_it(failure: Exception) -> None:
    def answer(frame: memoryview) -> Reply:
        if frame == b"bad":
            raise failure
        return echo(frame)

    peer = Peer(answer)
    peer.send(b"a", b"bad", b"never")
    assert (peer.transport.writes, peer.transport.end) == ([b"<a>"], "closed")


async def test_a_parked_request_that_fails_closes_the_connection() -> None:
    async def answer(frame: memoryview) -> Reply:
        raise RuntimeError("a bug")

    peer = Peer(answer)
    peer.send(b"a")
    await turns()
    assert peer.transport.end == "aborted"


@pytest.mark.parametrize("size", [-1, 101, (1 << 31) - 1])
async def test_a_size_out_of_bounds_closes_after_the_replies_before_it(size: int) -> None:
    peer = Peer(echo, max_request_bytes=100)
    peer.send_raw(b"\0\0\0\3\0\0a" + size.to_bytes(4, "big", signed=True) + b"rest")
    assert (peer.transport.writes, peer.transport.end) == ([b"<a>"], "closed")


async def test_a_graceful_stop_answers_what_was_dispatched() -> None:
    parked: Later[list[Part]] = Later(lambda: None)
    peer = Peer(lambda frame: parked if frame == b"slow" else echo(frame))
    peer.send(b"slow", b"fast")
    peer.connection.stop()
    peer.connection.stop()
    assert peer.transport.end is None and not peer.transport.is_reading
    parked.complete([b"late"])
    await turns()
    assert (peer.transport.writes, peer.transport.end) == ([b"late<fast>"], "closed")


async def test_when_the_peer_goes_waiting_is_given_up_and_work_is_finished() -> None:
    given_up, finished = [], []
    parked: Later[list[Part]] = Later(lambda: given_up.append(True))

    async def work() -> Reply:
        for _ in range(3):
            await asyncio.sleep(0)
        finished.append(True)
        return [b"late"]

    peer = Peer(lambda frame: parked if frame == b"wait" else work())
    peer.send(b"wait", b"work")
    peer.connection.closed(None)
    await turns(8)
    parked.complete([b"to nobody"])
    await turns()
    assert given_up == finished == [True]
    assert peer.transport.writes == []


async def test_silence_is_overdue_unless_a_request_is_in_work() -> None:
    parked: Later[list[Part]] = Later(lambda: None)
    peer = Peer(lambda frame: parked, idle_ms=1000)
    assert peer.connection.overdue(5_000) is None
    assert peer.connection.overdue(5_999) is None
    assert peer.connection.overdue(6_000) == "the connection is idle"
    peer.send(b"a")
    assert peer.connection.overdue(6_001) is None
    assert peer.connection.overdue(99_000) is None, "the peer waits for our reply"


async def test_a_request_that_waits_for_ever_does_not_keep_a_connection_that_is_not_read() -> None:
    """The peer may be gone: with a request behind the one in work, nothing is read, and so its end is not seen."""
    parked: Later[list[Part]] = Later(lambda: None)
    peer = Peer(lambda frame: parked, idle_ms=1000)
    peer.send_frames(*[frame_of(FetchRequest.API_KEY, b"fetch")] * 2)
    assert not peer.transport.is_reading
    assert peer.connection.overdue(5_000) is None
    assert peer.connection.overdue(5_999) is None
    assert peer.connection.overdue(6_000) == "a request waits for too long with others behind it"
    parked.complete([b"found"])
    await turns()
    assert peer.connection.overdue(6_000) is None, "a reply is a sign of life"


async def test_who_takes_nothing_of_a_reply_is_overdue_and_who_takes_little_is_not() -> None:
    peer = Peer(echo, idle_ms=1000)
    peer.transport.is_deaf = True
    peer.send(b"a")
    assert peer.connection.overdue(0) is None
    peer.transport.buffered -= 1
    assert peer.connection.overdue(1000) is None
    assert peer.connection.overdue(2000) == "the client does not read its replies"


async def test_a_request_that_trickles_in_is_overdue_and_a_slow_link_is_not() -> None:
    peer = Peer(echo, frame_grace_ms=1000)
    peer.send_raw((50_000).to_bytes(4, "big") + b"x")
    assert peer.connection.overdue(0) is None
    peer.send_raw(b"x" * 20_000)
    assert peer.connection.overdue(20_000) is None, "1 KiB a second is enough"
    assert peer.connection.overdue(21_000) == "the client sends its request too slowly"
