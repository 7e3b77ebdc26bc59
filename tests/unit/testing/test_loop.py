import asyncio
import gc
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import pytest

from moldau.net.connection import Connection, Reply
from moldau.net.listener import Listener
from moldau.testing.loop import Machine, SimLoop, Stuck
from moldau.testing.network import SimNetwork, Weather
from moldau.testing.trace import Trace


class Taker:
    """A receiver that collects bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.buffer = bytearray(1000)
        self.end: object = "open"
        self.drained = 0

    def get_buffer(self) -> memoryview:
        return memoryview(self.buffer)

    def received(self, count: int) -> None:
        self.data += self.buffer[:count]

    def writable(self) -> None:
        self.drained += 1

    def closed(self, error: Exception | None) -> None:
        self.end = error


class World:
    """An echo broker on one machine, a client on another."""

    def __init__(self, seed: int, weather: Weather | None = None, *, keep: bool = False) -> None:
        self.loop = SimLoop(Trace(keep=keep))
        self.network = SimNetwork(self.loop, seed, weather)
        self.broker = Machine("broker")
        self.client = Machine("client")
        self.network.add(self.broker)
        self.network.add(self.client)
        self.served = 0
        self.loop.start(self.broker, self.serve())

    async def serve(self) -> None:
        self.listener = Listener(self.network, self.answer)
        await self.listener.start("", 9092)

    def answer(self, connection: Connection, frame: memoryview) -> Reply:
        self.served += 1
        return [bytes(frame)]

    async def connect(self) -> tuple[object, Taker]:
        taker = Taker()
        return await self.network.connect("broker", 9092, taker), taker

    def run(self, work: object) -> object:
        return self.loop.run_until_complete(self.loop.start(self.client, work))  # type: ignore[arg-type]


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def echo_run(seed: int) -> str:
    world = World(seed)

    async def work() -> None:
        transport, taker = await world.connect()
        for size in (1, 300_000, 7):
            transport.write([framed(b"x" * size)])  # type: ignore[attr-defined]
            await asyncio.sleep(1)
        assert len(taker.data) == 300_008

    world.run(work())
    assert not world.loop.failures
    return world.loop.trace.digest


def test_hours_pass_in_no_time() -> None:
    loop = SimLoop()
    loop.run_until_complete(asyncio.sleep(36_000))
    assert loop.time() == pytest.approx(36_000)


def test_timers_go_off_in_order_but_for_those_that_were_cancelled() -> None:
    loop = SimLoop()
    heard: list[float] = []
    timers = [loop.call_later(seconds, heard.append, seconds) for seconds in (3.0, 1.0, 2.0)]
    many = [loop.call_later(1.5 + number / 1000, heard.append, number) for number in range(300)]
    timers[1].cancel()
    for timer in many[1:]:
        timer.cancel()
    loop.run_until_complete(asyncio.sleep(5))
    assert heard == [0, 2.0, 3.0] and timers[1].cancelled() and timers[0].when() == 3.0


def test_a_closed_loop_takes_nothing_more_and_keeps_nothing() -> None:
    loop = SimLoop()
    waiting = Taker()
    remains = weakref.ref(waiting)
    loop.call_later(1, waiting.writable)
    del waiting
    loop.close()
    assert remains() is None
    for call in (lambda: loop.call_soon(print), lambda: loop.call_later(1, print)):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_waiting_for_nothing_is_an_error() -> None:
    loop = SimLoop()
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_the_same_seed_leaves_the_same_trace_and_another_one_another() -> None:
    assert echo_run(1) == echo_run(1) != echo_run(2)


@pytest.mark.slow
def test_the_same_trace_in_other_processes_with_other_hash_seeds() -> None:
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_loop import echo_run; print(echo_run(5))"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "77")
    }
    assert found == {(echo_run(5) + "\n").encode()}


def test_a_killed_machine_runs_nothing_more() -> None:
    loop = SimLoop()
    machine = Machine("m")
    ran = []

    async def work() -> None:
        try:
            loop.call_later(2, ran.append, "timer")
            await asyncio.sleep(1)
            ran.append("after sleep")
        finally:
            ran.append("finally")

    loop.start(machine, work())
    loop.run_until_complete(asyncio.sleep(0.5))
    loop.kill(machine)
    loop.run_until_complete(asyncio.sleep(5))
    assert ran == []


def test_the_clean_up_of_a_killed_machine_leaves_no_coroutine_that_was_never_awaited() -> None:
    """A `finally` that gathers begins tasks; without a running loop its coroutines are dropped, and Python warns of each."""
    asyncio.set_event_loop(None)  # as after asyncio.run: a coroutine outside of every loop gets none made for it
    loop, machine = SimLoop(), Machine("node")

    async def stays() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))

    async def life() -> None:
        loop.start(machine, stays())
        await asyncio.sleep(1)
        loop.kill(machine)

    loop.run_until_complete(life())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loop.forget_the_dead()
        loop.close()
        gc.collect()
    assert not [text for one in told if "never awaited" in (text := str(one.message))]


def test_a_loud_crash_breaks_the_peers_connections() -> None:
    world = World(1)

    async def work() -> Taker:
        _, taker = await world.connect()
        world.loop.kill(world.broker)
        world.network.crash(world.broker, silently=False)
        await asyncio.sleep(1)
        return taker

    taker = world.run(work())
    assert isinstance(taker.end, ConnectionResetError)  # type: ignore[attr-defined]


def test_a_silent_crash_is_heard_of_when_the_machine_is_back() -> None:
    world = World(1)

    async def work() -> list[object]:
        transport, taker = await world.connect()
        world.loop.kill(world.broker)
        world.network.crash(world.broker, silently=True)
        transport.write([framed(b"x")])  # type: ignore[attr-defined]
        await asyncio.sleep(60)
        ends = [taker.end]
        world.network.revive(Machine("broker"))
        await asyncio.sleep(1)
        return [*ends, type(taker.end)]

    assert world.run(work()) == ["open", ConnectionResetError]


def test_a_cut_holds_back_and_healing_delivers_in_order() -> None:
    world = World(1)

    async def work() -> tuple[int, bytes]:
        transport, taker = await world.connect()
        world.network.cut("client", "broker")
        for number in range(5):
            transport.write([framed(b"%d" % number)])  # type: ignore[attr-defined]
        await asyncio.sleep(10)
        before = world.served
        world.network.heal()
        await asyncio.sleep(1)
        return before, bytes(taker.data)

    assert world.run(work()) == (0, b"01234")


def test_nobody_listening_refuses_and_a_dead_machine_says_nothing() -> None:
    world = World(1)

    async def work() -> None:
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect("broker", 1, Taker())
        world.loop.kill(world.broker)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.network.connect("broker", 9092, Taker()), 30)

    world.run(work())


def test_a_reader_that_pauses_makes_its_writer_wait() -> None:
    world = World(1)

    async def work() -> None:
        transport, taker = await world.connect()
        transport.pause_reading()  # type: ignore[attr-defined]
        transport.write([framed(b"x" * 2_000_000)])  # type: ignore[attr-defined]
        assert transport.buffered > 1_000_000  # type: ignore[attr-defined]
        await asyncio.sleep(5)
        assert (transport.buffered, taker.drained) == (0, 1), "the broker took all of it"  # type: ignore[attr-defined]
        (connection,) = world.listener.connections.values()
        assert connection.unsent > 1_000_000, "the broker waits for us to take the bytes back"
        assert taker.data == b""
        transport.resume_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(5)
        assert len(taker.data) == 2_000_000

    world.run(work())


def test_close_comes_after_the_data_and_abort_may_come_before() -> None:
    world = World(1)
    accepted: list[object] = []

    async def serve() -> None:
        def accept(transport: object) -> Taker:
            accepted.append(transport)
            return Taker()

        await world.network.listen("", 1, accept)  # type: ignore[arg-type]

    world.loop.start(world.broker, serve())

    async def work() -> list[object]:
        takers = [Taker(), Taker()]
        for taker in takers:
            await world.network.connect("broker", 1, taker)
        for transport in accepted:
            transport.write([b"last words" * 100_000])  # type: ignore[attr-defined]
        accepted[0].close()  # type: ignore[attr-defined]
        accepted[1].abort()  # type: ignore[attr-defined]
        await asyncio.sleep(5)
        return [len(takers[0].data), takers[0].end, type(takers[1].end)]

    assert world.run(work()) == [1_000_000, None, ConnectionResetError]
