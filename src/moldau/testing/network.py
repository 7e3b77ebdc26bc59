"""● `SimNetwork`: the network between the machines of a `SimLoop`, with delays, cuts and silences from a seed.

Bytes pass as bytes, in chunks of any size, in order, as in TCP; slices of files are read when they leave.  A link has a delay for each
chunk, now and then a long one.  Faults: `reset` breaks connections at once, `cut` holds everything between two machines back until `heal`,
`crash` ends a machine's connections, loudly (its kernel lives and tells peers) or silently (its power is gone: peers learn of it when the
machine is back).
"""

import asyncio
import errno
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moldau.net.transport import Accept, Address, Receiver
from moldau.testing.loop import Machine, SimLoop, current_machine
from moldau.types import FileSlice, Part

IN_FLIGHT_BYTES: Final = 256 * 1024
"""The bytes that a socket takes before its writer has to wait."""
SHORTEST_S: Final = 1e-7
FIRST_EPHEMERAL_PORT: Final = 40_000
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class Weather:
    """How slow the network is, in seconds and bytes a second."""

    min_delay_s: float = 0.0002
    max_delay_s: float = 0.002
    long_delay_s: float = 0.2
    long_delay_every: int = 200
    """One chunk in this many takes up to `long_delay_s` seconds."""
    chunk_bytes: int = 64 * 1024
    bytes_per_s: float = 100e6


class SimTransport:
    """One end of a connection."""

    def __init__(self, network: "SimNetwork", machine: Machine, peer: Address) -> None:
        self.peer = peer
        self.machine = machine
        self.other: SimTransport | None = None
        self.is_closed = False
        self._network = network
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._queued = 0
        self._in_flight = 0
        self._last_arrival = 0.0
        self._inbox: deque[bytes | Exception | None] = deque()
        self._is_reading = True
        self._is_closing = False

    def __repr__(self) -> str:
        return f"SimTransport({self.machine.host} to {self.peer})"

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._network.post(self.machine, self._network.loop.time(), self._drain_inbox)

    @property
    def buffered(self) -> int:
        return self._queued

    # sending

    def write(self, parts: Sequence[Part]) -> None:
        if self._is_closing or self.is_closed:
            return
        for part in parts:
            if len(part):
                self._queue.append(part)
                self._queued += len(part)
        self._pump()

    def _pump(self) -> None:
        """Send as much as fits into the wire."""
        while self._queue and self._in_flight < IN_FLIGHT_BYTES:
            data = self._take(IN_FLIGHT_BYTES - self._in_flight)
            self._queued -= len(data)
            for chunk in self._network.cut_up(data):
                self._send(chunk)
        if self._is_closing and not self._queue:
            self._finish(None)

    def _take(self, room: int) -> bytes:
        """Take at most `room` bytes from the first part of the queue."""
        part = self._queue.popleft()
        if isinstance(part, FileSlice):
            if part.size <= room:
                return part.read()
            self._queue.appendleft(FileSlice(part.file, part.position + room, part.size - room))
            return FileSlice(part.file, part.position, room).read()
        if len(part) > room:
            self._queue.appendleft(memoryview(part)[room:])
        return bytes(memoryview(part)[:room])

    def _send(self, chunk: bytes) -> None:
        self._in_flight += len(chunk)
        assert self.other is not None
        self._network.carry(self, self.other, chunk)

    def arrival(self, delay_s: float) -> float:
        """The arrival time of a chunk that leaves now.  It comes after the one ahead of it, because timers of one instant have no order."""
        self._last_arrival = max(self._last_arrival + SHORTEST_S, self._network.loop.time() + delay_s)
        return self._last_arrival

    def taken(self, count: int) -> None:
        """Note that the other end has received `count` bytes."""
        self._in_flight -= count
        had_to_wait = bool(self._queue)
        if not self.is_closed:
            self._pump()
        if had_to_wait and not self._queue and not self._is_closing and not self.is_closed and self._receiver is not None:
            self._receiver.writable()

    # receiving

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading and not self.is_closed:
            self._is_reading = True
            if self._inbox:
                self._network.post(self.machine, self._network.loop.time(), self._drain_inbox)

    def arrive(self, what: bytes | Exception | None) -> None:
        """Receive a chunk, or the end of the connection: None for an orderly one."""
        if self.is_closed:
            return
        if isinstance(what, Exception):
            self._inbox.clear()
        self._inbox.append(what)
        self._drain_inbox()

    def _drain_inbox(self) -> None:
        while self._inbox and not self.is_closed and self._receiver is not None:
            if not self._is_reading and isinstance(self._inbox[0], bytes):
                return
            what = self._inbox.popleft()
            if isinstance(what, bytes):
                self._deliver(what)
            else:
                self.is_closed = True
                self._queue.clear()
                self._queued = 0
                self._network.forget(self)
                self._tell(what)

    def _deliver(self, data: bytes) -> None:
        assert self._receiver is not None and self.other is not None
        self._network.loop.trace.note(f"deliver {self.machine.host} {self.peer}", data)
        other = self.other
        if other.machine.is_alive:
            self._network.post(other.machine, self._network.loop.time(), other.taken, len(data))
        view = memoryview(data)
        while view and not self.is_closed:
            if not self._is_reading:
                self._inbox.appendleft(bytes(view))
                return
            buffer = self._receiver.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self._receiver.received(count)

    # ending

    def close(self) -> None:
        if not self._is_closing and not self.is_closed:
            self._is_closing = True
            self._is_reading = False
            if not self._queue:
                self._finish(None)

    def abort(self) -> None:
        if not self.is_closed:
            self._queue.clear()
            self._queued = 0
            self._finish(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _finish(self, told_to_other: Exception | None) -> None:
        self.is_closed = True
        self._network.forget(self)
        assert self.other is not None
        self._network.carry(self, self.other, told_to_other)
        self._network.post(self.machine, self._network.loop.time(), self._tell, None)

    def _tell(self, error: Exception | None) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.closed(error)


class SimListening:
    """A listening port of a machine."""

    def __init__(self, network: "SimNetwork", machine: Machine, port: int, accept: Accept) -> None:
        self.port = port
        self.machine = machine
        self.accept = accept
        self._network = network

    def close(self) -> None:
        self._network.close_door(self)


class SimNetwork:
    """A `Network` for every machine of a loop.  The task that calls says which machine it is."""

    def __init__(self, loop: SimLoop, seed: int, weather: Weather | None = None, *, kernels_answer: bool = False) -> None:
        """`kernels_answer`: where a process died and its machine lives, ports refuse connections.  Otherwise nobody answers there."""
        self.loop = loop
        self._kernels_answer = kernels_answer
        self._refusing: dict[str, None] = {}
        """The hosts whose process is dead, and whose kernel answers."""
        self.weather = weather or Weather()
        self._random = random.Random(seed)
        self._machines: dict[str, Machine] = {}
        self._doors: dict[tuple[str, int], SimListening] = {}
        self._ends: dict[SimTransport, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._held: list[tuple[SimTransport, SimTransport, bytes | Exception | None]] = []
        self._next_port = FIRST_EPHEMERAL_PORT

    def add(self, machine: Machine) -> None:
        """Add a machine, for the first time or again."""
        self._machines[machine.host] = machine
        self._refusing.pop(machine.host, None)

    # Network

    async def listen(self, host: str, port: int, accept: Accept, *, backlog: int = 50) -> SimListening:
        machine = current_machine()
        port = port or self._ephemeral_port()
        if (machine.host, port) in self._doors:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {Address(host or '*', port)}: another process does")
        door = self._doors[machine.host, port] = SimListening(self, machine, port, accept)
        return door

    async def connect(self, host: str, port: int, receiver: Receiver) -> SimTransport:
        machine = current_machine()
        target = machine.host if host in LOOPBACK else host
        await asyncio.sleep(self._delay())
        while self._is_cut(machine.host, target) or not self._answers(target):  # noqa: ASYNC110  the faults know of no events
            # No machine refuses: the caller's own time-out ends the attempt.
            await asyncio.sleep(0.1)
        door = self._doors.get((target, port))
        if door is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"cannot connect to {Address(host, port)}: Connection refused")
        mine = SimTransport(self, machine, Address(host, port))
        theirs = SimTransport(self, door.machine, Address(machine.host, self._ephemeral_port()))
        mine.other, theirs.other = theirs, mine
        self._ends[mine] = self._ends[theirs] = None
        self.loop.trace.note(f"connect {machine.host} {target}:{port}")
        door.machine.context.run(self._accept, door, theirs)
        mine.start(receiver)
        return mine

    def _accept(self, door: SimListening, transport: SimTransport) -> None:
        receiver = door.accept(transport)
        if receiver is None:
            transport.abort()
        else:
            transport.start(receiver)

    def close_door(self, door: SimListening) -> None:
        if self._doors.get((door.machine.host, door.port)) is door:
            del self._doors[door.machine.host, door.port]

    def forget(self, transport: SimTransport) -> None:
        self._ends.pop(transport, None)

    def _ephemeral_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _answers(self, host: str) -> bool:
        machine = self._machines.get(host)
        return machine is not None and (machine.is_alive or host in self._refusing)

    # carrying

    def cut_up(self, data: bytes) -> list[bytes]:
        """Data in chunks as a network might cut it: mostly big, now and then tiny."""
        chunks = []
        position = 0
        while position < len(data):
            size = self._random.randint(1, 40) if self._random.random() < 0.02 else self._random.randint(1, self.weather.chunk_bytes)
            chunks.append(data[position : position + size])
            position += size
        return chunks

    def carry(self, sender: SimTransport, to: SimTransport, what: bytes | Exception | None) -> None:
        if self._is_cut(sender.machine.host, to.machine.host):
            self._held.append((sender, to, what))
            return
        size = len(what) if isinstance(what, bytes) else 0
        self.post(to.machine, sender.arrival(self._delay() + size / self.weather.bytes_per_s), to.arrive, what)

    def _delay(self) -> float:
        weather = self.weather
        if self._random.randrange(weather.long_delay_every) == 0:
            return self._random.uniform(weather.max_delay_s, weather.long_delay_s)
        return self._random.uniform(weather.min_delay_s, weather.max_delay_s)

    def post(self, machine: Machine, when: float, call: object, *args: object) -> None:
        """Call at that time on that machine, if it lives."""
        if machine.is_alive:
            self.loop.call_at(when, call, *args, context=machine.context)

    # faults

    def cut(self, one: str, other: str, *, both_ways: bool = True) -> None:
        """Let nothing pass from `one` to `other` until `heal`.  Nothing is lost, because TCP sends it again."""
        self.loop.trace.note(f"cut {one} {other}")
        self._cuts[one, other] = None
        if both_ways:
            self._cuts[other, one] = None

    def heal(self) -> None:
        self.loop.trace.note("heal")
        self._cuts.clear()
        held, self._held = self._held, []
        for sender, to, what in held:
            self.carry(sender, to, what)

    def _is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self._cuts

    def reset(self, host: str, *, chance: float = 1.0) -> None:
        """Break each connection of a machine with this chance; bytes on the wire are lost."""
        self.loop.trace.note(f"reset {host}")
        for end in list(self._ends):
            if end.machine.host == host and not end.is_closed and self._random.random() < chance:
                self._break(end)

    def _break(self, end: SimTransport) -> None:
        other = end.other
        assert other is not None
        for side in (end, other):
            self.forget(side)
            error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            self.post(side.machine, self.loop.time(), side.arrive, error)

    def crash(self, machine: Machine, *, silently: bool) -> None:
        """End a machine's connections after `SimLoop.kill`.

        `silently`: peers learn of it only when a new machine answers at that address, see `revive`.
        """
        self.loop.trace.note(f"crash {machine.host} {silently}")
        self._doors = {key: door for key, door in self._doors.items() if door.machine is not machine}
        if not silently:
            if self._kernels_answer:
                self._refusing[machine.host] = None
            self._bury(machine.host)

    def revive(self, machine: Machine) -> None:
        """Put a new machine at the address of a dead one: its kernel knows none of the old connections."""
        self._bury(machine.host)
        self.add(machine)

    def _bury(self, host: str) -> None:
        for end in list(self._ends):
            if end.machine.host == host and not end.machine.is_alive and end in self._ends:
                self._break(end)
