"""Listener and transport over real sockets of this machine."""

import asyncio
import errno
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from moldau.net.connection import Connection, ConnectionLimits, Dispatch, Reply
from moldau.net.later import Later
from moldau.net.listener import ConnectionQuotas, Listener
from moldau.net.socket_transport import MAX_BYTES_PER_TURN, MAX_TAIL_BYTES, SocketTransport
from moldau.net.sockets import SystemNetwork
from moldau.storage.files import SystemFiles
from moldau.testing.files import MemoryFiles
from moldau.types import FileSlice, Part

HOST = "127.0.0.1"
DATA_SEGS_OUT = 156
"""Position in struct tcp_info of the number of segments with data that were sent (linux/tcp.h)."""


def echo(connection: Connection, frame: memoryview) -> Reply:
    return [bytes(frame)]


@asynccontextmanager
async def listening(
    dispatch: Dispatch = echo,
    *,
    limits: ConnectionLimits | None = None,
    quotas: ConnectionQuotas | None = None,
    network: SystemNetwork | None = None,
) -> AsyncIterator[Listener]:
    listener = Listener(network or SystemNetwork(), dispatch, limits=limits, quotas=quotas)
    await listener.start(HOST, 0)
    try:
        yield listener
    finally:
        await listener.stop(grace_s=0.2)


@asynccontextmanager
async def connected(listener: Listener) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110  nothing else tells when the kernel has done its part
            await asyncio.sleep(0)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


async def test_small_and_big_frames_come_back() -> None:
    async with listening() as listener, connected(listener) as (reader, writer):
        for size in (1, 100_000, 0, 3_000_000, 5):
            writer.write(framed(b"x" * size) * 2)
            assert await reader.readexactly(2 * size) == b"x" * 2 * size


@pytest.mark.parametrize("in_memory", [False, True], ids=["sendfile", "pread"])
async def test_slices_of_files_leave_between_memory(tmp_path: Path, in_memory: bool) -> None:
    files = MemoryFiles() if in_memory else SystemFiles()
    file = files.open("/log" if in_memory else str(tmp_path / "log"), create=True)
    content = os.urandom(3 << 20)
    file.pwrite([content], 0)

    def fetch(connection: Connection, frame: memoryview) -> Reply:
        return [b"head", b"", FileSlice(file, 10, 2 << 20), FileSlice(file, 7, 0), b"middle", FileSlice(file, 5, 1), b"tail"]

    expected = b"head" + content[10 : 10 + (2 << 20)] + b"middle" + content[5:6] + b"tail"
    async with listening(fetch) as listener, connected(listener) as (reader, writer):
        writer.write(framed(b"a") * 3)
        assert await reader.readexactly(3 * len(expected)) == 3 * expected


async def test_slices_share_segments_and_the_last_one_leaves_at_once(tmp_path: Path) -> None:
    file = SystemFiles().open(str(tmp_path / "log"), create=True)
    file.pwrite([os.urandom(300)], 0)
    accepted: list[socket.socket] = []

    class Watched(SystemNetwork):
        def set_up(self, connected: socket.socket) -> None:
            super().set_up(connected)
            accepted.append(connected)

    def fetch(connection: Connection, frame: memoryview) -> Reply:
        return [part for position in range(8) for part in (b"head", FileSlice(file, position, 100))]

    listener = Listener(Watched(), fetch)
    await listener.start(HOST, 0)
    async with connected(listener) as (reader, writer):
        writer.write(framed(b"x"))
        await reader.readexactly(8 * 104)
        [transport] = accepted
        segments = struct.unpack_from("=I", transport.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), DATA_SEGS_OUT)[0]
        assert segments == 1
        assert transport.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK) == 0
    await listener.stop(grace_s=0.2)


@pytest.mark.parametrize(("beyond", "left"), [(0, 0), (MAX_TAIL_BYTES, 0), (MAX_TAIL_BYTES + 1, MAX_TAIL_BYTES + 1)])
async def test_a_turn_ends_at_its_limit_or_with_a_slice_that_ends_there(tmp_path: Path, beyond: int, left: int) -> None:
    file = SystemFiles().open(str(tmp_path / "log"), create=True)
    file.pwrite([bytes(2 * MAX_BYTES_PER_TURN)], 0)
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()):
        sending, address = server.accept()
        sending.setblocking(False)
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_BYTES_PER_TURN)
        transport = SocketTransport(asyncio.get_running_loop(), sending, address)
        transport.write([FileSlice(file, 0, MAX_BYTES_PER_TURN + beyond)])
        assert transport.buffered == left
        transport.abort()


async def test_a_slice_beyond_the_end_of_its_file_breaks_the_connection(tmp_path: Path) -> None:
    file = SystemFiles().open(str(tmp_path / "log"), create=True)
    async with listening(lambda c, f: [FileSlice(file, 0, 10)]) as listener, connected(listener) as (reader, writer):
        writer.write(framed(b"a"))
        assert await reader.read() == b""


async def test_a_busy_port_says_so() -> None:
    async with listening() as listener:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{listener.port}: another process does") as caught:
            await Listener(SystemNetwork(), echo).start(HOST, listener.port)
        assert caught.value.errno == errno.EADDRINUSE


async def test_an_address_of_another_machine_says_so() -> None:
    with pytest.raises(OSError, match="this machine does not have that address"):
        await Listener(SystemNetwork(), echo).start("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
async def test_a_name_that_no_host_can_have_says_so(host: str) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {host}:0: the name is not known"):
        await Listener(SystemNetwork(), echo).start(host, 0)
    with pytest.raises(OSError, match="the host's name is not valid"):
        await SystemNetwork().connect(host, 1, echo)  # type: ignore[arg-type]


async def test_nobody_listening_says_so() -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        with pytest.raises(ConnectionError, match=r"cannot connect to 127\.0\.0\.1:"):
            await SystemNetwork().connect(HOST, free.getsockname()[1], None)  # type: ignore[arg-type]


async def test_connections_above_a_limit_are_closed_and_leave_room_when_others_go() -> None:
    async with listening(quotas=ConnectionQuotas(max_per_ip=1)) as listener, connected(listener) as (reader, writer):
        async with connected(listener) as (refused, _):
            assert await refused.read() == b""
        writer.write(framed(b"still here"))
        assert await reader.readexactly(10) == b"still here"
        writer.close()
        await until(lambda: not listener.connections)
        async with connected(listener) as (again, again_writer):
            again_writer.write(framed(b"room"))
            assert await again.readexactly(4) == b"room"


async def test_a_crowd_that_comes_in_one_turn_of_the_loop_is_not_turned_away() -> None:
    async with listening() as listener:
        crowd = [socket.create_connection((HOST, listener.port), timeout=0.8) for _ in range(300)]
        for one in crowd:
            one.close()


async def test_idle_connections_are_closed() -> None:
    async with listening(limits=ConnectionLimits(idle_ms=5)) as listener, connected(listener) as (reader, _):
        assert await asyncio.wait_for(reader.read(), 1) == b""


async def test_stop_answers_what_is_in_work_and_takes_nothing_new() -> None:
    parked: Later[list[Part]] = Later(lambda: None)
    dispatched = asyncio.Event()

    def park(connection: Connection, frame: memoryview) -> Later[list[Part]]:
        dispatched.set()
        return parked

    listener = Listener(SystemNetwork(), park)
    await listener.start(HOST, 0)
    async with connected(listener) as (reader, writer):
        writer.write(framed(b"a"))
        await dispatched.wait()
        stopping = asyncio.ensure_future(listener.stop(grace_s=5))
        await asyncio.sleep(0)
        parked.complete([b"answered"])
        assert await reader.read() == b"answered"
        await stopping
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, listener.port)


async def test_a_reply_arrives_though_its_peer_had_sent_more_than_was_read() -> None:
    """A socket that is closed with unread bytes resets the connection, and the peer loses what it has not read yet."""
    answers: list[Later[list[Part]]] = []

    def dispatch(connection: Connection, frame: memoryview) -> Later[list[Part]]:
        answers.append(Later(lambda: None))
        return answers[-1]

    async with listening(dispatch) as listener:
        with socket.create_connection((HOST, listener.port)) as peer:
            peer.sendall(framed(b"one"))
            await until(lambda: len(answers) == 1)
            stopping = asyncio.create_task(listener.stop())
            await asyncio.sleep(0)
            peer.sendall(framed(b"never read"))
            answers[0].complete([b"the reply"])
            while True:
                await asyncio.sleep(0)
                with suppress(BlockingIOError):
                    reply = peer.recv(100, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                    break
            peer.sendall(framed(b"not even now"))
            assert reply == peer.recv(100) == b"the reply" and peer.recv(100) == b""
        await stopping


async def test_stop_cuts_off_who_does_not_take_its_replies() -> None:
    async with listening(lambda c, f: [bytes(16 << 20)]) as listener, connected(listener) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(framed(b"a"))
        await until(lambda: any(connection.unsent for connection in listener.connections.values()))
        await listener.stop(grace_s=0.01)
        assert not listener.connections


async def test_out_of_descriptors_the_others_go_on_and_accepting_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.net.sockets.ACCEPT_PAUSE_S", 0.005)
    real_accept = socket.socket.accept
    failures = iter([OSError(errno.EMFILE, "Too many open files")] * 2)

    def accept(listening_socket: socket.socket) -> tuple[socket.socket, object]:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return real_accept(listening_socket)

    async with listening() as listener, connected(listener) as (reader, writer):
        writer.write(framed(b"a"))
        assert await reader.readexactly(1) == b"a"
        monkeypatch.setattr(socket.socket, "accept", accept)
        async with connected(listener) as (late, late_writer):
            late_writer.write(framed(b"late"))
            writer.write(framed(b"b"))
            assert await reader.readexactly(1) == b"b"
            assert await late.readexactly(4) == b"late"
        assert next(failures, None) is None


async def test_the_last_descriptors_are_not_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.net.sockets.ACCEPT_PAUSE_S", 0.005)
    gc.collect()  # descriptors that other tests left behind must not become free in between
    lowest_free = os.dup(0)
    os.close(lowest_free)
    async with listening(network=SystemNetwork(spared_descriptors=lowest_free + 20)) as listener:
        clients = [socket.create_connection((HOST, listener.port)) for _ in range(20)]
        async with asyncio.timeout(5):
            for client in clients:
                client.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        for client in clients:
            client.close()
        async with connected(listener) as (reader, writer):
            writer.write(framed(b"a"))
            assert await reader.readexactly(1) == b"a"


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="congestion control is chosen by connection on Linux only")
@pytest.mark.parametrize(("client", "is_paced"), [("127.0.0.1", False), ("127.0.0.2", True)], ids=["from here", "from elsewhere"])
async def test_what_stays_on_this_machine_is_not_paced(client: str, is_paced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second address stands for another machine, since it is not the address that the client connects to."""

    def congestion_control(of: socket.socket) -> bytes:
        return of.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")

    with socket.socket() as unconnected:
        default = congestion_control(unconnected)
    monkeypatch.setattr("moldau.net.sockets.PACING", default)  # as if this machine's congestion control paced, where it does not
    accepted: list[bytes] = []
    set_up = SocketTransport.__init__

    def look(self: SocketTransport, loop: asyncio.AbstractEventLoop, connected: socket.socket, peer: object) -> None:
        set_up(self, loop, connected, peer)  # type: ignore[arg-type]
        accepted.append(congestion_control(connected))

    monkeypatch.setattr(SocketTransport, "__init__", look)
    async with listening() as listener:
        with socket.create_connection((HOST, listener.port), source_address=(client, 0)):
            await until(lambda: bool(accepted))
    assert accepted == [default if is_paced else b"reno"]
