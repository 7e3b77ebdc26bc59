"""Both ends over a simulated network: bytes of any size arrive, a wrong name or a torn stream is an error."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.net.tls import TlsNetwork
from moldau.net.transport import Receiver, Transport
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork
from moldau.types import FileSlice
from proof.kafka.certificates import Certificates


class Echo:
    """Sends back what comes, or only collects it."""

    def __init__(self, transport: Transport | None = None) -> None:
        self.transport = transport
        self.data = bytearray()
        self.buffer = bytearray(700)
        self.end: object = "open"

    def get_buffer(self) -> memoryview:
        return memoryview(self.buffer)

    def received(self, count: int) -> None:
        self.data += self.buffer[:count]
        if self.transport is not None:
            self.transport.write([bytes(self.buffer[:count])])

    def writable(self) -> None:
        pass

    def closed(self, error: Exception | None) -> None:
        self.end = error


class Numbers:
    """A file whose bytes count up."""

    def pread(self, size: int, position: int) -> bytes:
        return bytes(number % 251 for number in range(position, position + size))

    def fileno(self) -> int:
        raise OSError


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"), "broker")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  the receiver knows of no events, and the time is virtual
        await asyncio.sleep(0.01)


class World:
    def __init__(self, certificates: Certificates) -> None:
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, 7)
        self.broker, self.client = Machine("broker"), Machine("client")
        self.network.add(self.broker)
        self.network.add(self.client)
        self.certificates = certificates
        self.served: list[Echo] = []
        self.loop.start(self.broker, self.serve())

    async def serve(self) -> None:
        def accept(transport: Transport) -> Receiver:
            self.served.append(Echo(transport))
            return self.served[-1]

        await TlsNetwork(self.network, self.certificates.server_context()).listen("", 9093, accept)


def test_bytes_of_any_size_come_back(certificates: Certificates) -> None:
    world = World(certificates)

    async def talk() -> tuple[bytes, object]:
        network = TlsNetwork(world.network, certificates.client_context())
        taker = Echo()
        transport = await network.connect("broker", 9093, taker)
        transport.write([b"", b"hello ", bytearray(3_000_000), FileSlice(Numbers(), 5, 200_000)])
        await until(lambda: len(taker.data) >= 3_200_006)
        transport.close()
        await until(lambda: world.served[0].end != "open")
        return bytes(taker.data), world.served[0].end

    data, end = world.loop.run_until_complete(world.loop.start(world.client, talk()))
    assert data == b"hello " + bytes(3_000_000) + Numbers().pread(200_000, 5)
    assert end is None
    assert not world.loop.failures


def test_a_broker_of_another_name_is_refused(certificates: Certificates) -> None:
    world = World(certificates)

    async def talk() -> None:
        await TlsNetwork(world.network, certificates.client_context(), server_hostname="elsewhere").connect("broker", 9093, Echo())

    with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
        world.loop.run_until_complete(world.loop.start(world.client, talk()))


def test_a_stream_that_just_ends_is_an_error(certificates: Certificates) -> None:
    world = World(certificates)

    async def talk() -> object:
        taker = Echo()
        await TlsNetwork(world.network, certificates.client_context()).connect("broker", 9093, taker)
        world.loop.kill(world.broker)
        world.network.crash(world.broker, silently=False)
        await until(lambda: taker.end != "open")
        return taker.end

    assert isinstance(world.loop.run_until_complete(world.loop.start(world.client, talk())), ConnectionError)


def test_a_peer_that_speaks_no_tls(certificates: Certificates) -> None:
    world = World(certificates)

    async def talk() -> None:
        def accept(transport: Transport) -> Receiver:
            transport.write([b"\0\0\0\4what"])
            return Echo()

        await world.network.listen("", 1234, accept)

    world.loop.run_until_complete(world.loop.start(world.broker, talk()))

    async def connect() -> None:
        await TlsNetwork(world.network, certificates.client_context()).connect("broker", 1234, Echo())

    with pytest.raises(OSError, match="SSL"):
        world.loop.run_until_complete(world.loop.start(world.client, connect()))


def test_made_files_are_private(certificates: Certificates) -> None:
    assert Path(certificates.key).stat().st_mode & 0o077 == 0
