"""● Connections with slow requests.  They keep their order on each connection, but requests of a later connection may overtake them.

A client that waited too long gives a connection up and opens another one.  Requests still on the first one are then lost, or arrive long
after, as ghosts.  Nothing is reordered within a connection, as in TCP.  `replay_chance` tests requests that must be safe even if they come
twice.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.protocol.wire import Request

Serve = Callable[["Link", Any, int, Callable[[Any], None]], None]
"""Called with (link, request, version, answer) for a request that arrived at the broker.  `answer` may be called later, or never."""
Make = Callable[[], Request[Any]]
"""Makes a request anew for every delivery, because a broker may write into a request."""


class Lost(Exception):
    """No answer came in time, or the connection broke: nobody knows what became of the request."""


@dataclass(slots=True, kw_only=True)
class Weather:
    """The faults of the network between clients and broker."""

    timeout_s: float = 1.0
    usual_delay_s: float = 0.004
    slow_chance: float = 0.05
    """The chance that a request, or its answer, takes longer than a client waits."""
    slow_s: float = 6.0
    ghost_chance: float = 0.7
    """The chance that a connection that was given up still delivers its requests; else they are lost."""
    ghost_s: float = 6.0
    replay_chance: float = 0.0
    """The chance that a request arrives a second time, at any time."""


@dataclass(slots=True)
class Counts:
    requests: int = 0
    timeouts: int = 0
    ghosts: int = 0
    replays: int = 0
    refused: int = 0
    """The number of requests whose connection the broker closed instead of answering."""
    pending: int = field(default=0)
    """The number of requests that are on the way now."""


class Wire:
    """The network between clients and one broker."""

    def __init__(self, serve: Serve, choice: random.Random, weather: Weather, *, is_replayable: Callable[[Any], bool]) -> None:
        self.weather: Final = weather
        self.counts: Final = Counts()
        self._serve: Final = serve
        self._choice: Final = choice
        self._is_replayable: Final = is_replayable
        self._loop: Final = asyncio.get_running_loop()
        self._next_number = 0

    def connect(self) -> "Link":
        self._next_number += 1
        return Link(self, self._next_number)

    def delay_s(self) -> float:
        weather, choice = self.weather, self._choice
        if choice.random() < weather.slow_chance:
            return weather.timeout_s + choice.random() * weather.slow_s
        return choice.random() * weather.usual_delay_s

    def ghost_delay_s(self) -> float | None:
        """The delay of requests on a connection that was given up; None if they are lost."""
        if self._choice.random() >= self.weather.ghost_chance:
            return None
        # Ghosts arrive now and then at once, often within the next transaction, sometimes several transactions later.
        return self._choice.choice((0.05, 1.0, self.weather.ghost_s)) * self._choice.random()

    def deliver(self, link: "Link", make: Make, version: int, answer: Callable[[Any], None]) -> None:
        request = make()
        self._serve(link, request, version, answer)
        if self._choice.random() < self.weather.replay_chance and self._is_replayable(request):
            self.counts.pending += 1
            self._loop.call_later(self._choice.random() * self.weather.ghost_s, self._replay, link, make, version)

    def _replay(self, link: "Link", make: Make, version: int) -> None:
        self.counts.pending -= 1
        request = make()
        if not link.is_closed and self._is_replayable(request):
            self.counts.replays += 1
            self._serve(link, request, version, lambda _: None)


class Link:
    """One connection, from the client's side.  `number` grows with every connection that the broker accepts."""

    def __init__(self, wire: Wire, number: int) -> None:
        self.number: Final = number
        self.is_given_up = False
        self.is_closed = False
        """Whether the broker closed the connection."""
        self._wire: Final = wire
        self._last_arrival_s = 0.0
        self._travelling: dict[int, tuple[asyncio.TimerHandle, Make, int]] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next_request = 0

    async def ask(self, make: Make, version: int) -> Any:
        """Send a request and wait for the answer.  Errors: Lost."""
        loop, wire = asyncio.get_running_loop(), self._wire
        number = self._next_request
        self._next_request += 1
        wire.counts.requests += 1
        self._travel(number, make, version, wire.delay_s())
        answer = self._waiting[number] = loop.create_future()
        try:
            async with asyncio.timeout(wire.weather.timeout_s):
                return await answer
        except TimeoutError:
            wire.counts.timeouts += 1
            self.give_up()
            raise Lost from None
        finally:
            self._waiting.pop(number, None)

    def give_up(self) -> None:
        """Close the connection as the client.  Waiting calls fail; requests on the way are lost or come late, in their order."""
        if self.is_given_up:
            return
        self.is_given_up = True
        self._break_waiting()
        late_s = self._wire.ghost_delay_s()
        travelling, self._travelling = self._travelling, {}
        for number, (handle, make, version) in travelling.items():
            handle.cancel()
            self._wire.counts.pending -= 1
            if late_s is not None:
                self._travel(number, make, version, late_s)

    def close(self) -> None:
        """Close the connection as the broker.  No request on it arrives any more."""
        self._wire.counts.refused += 1
        self.is_closed = True
        for handle, _, _ in self._travelling.values():
            handle.cancel()
            self._wire.counts.pending -= 1
        self._travelling.clear()
        self._break_waiting()

    def _break_waiting(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Lost())

    def _travel(self, number: int, make: Make, version: int, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._last_arrival_s = max(self._last_arrival_s, loop.time() + delay_s)
        self._wire.counts.pending += 1
        handle = loop.call_at(self._last_arrival_s, self._arrive, number)
        self._travelling[number] = (handle, make, version)

    def _arrive(self, number: int) -> None:
        _, make, version = self._travelling.pop(number)
        self._wire.counts.pending -= 1
        if self.is_closed:
            return
        if self.is_given_up:
            self._wire.counts.ghosts += 1
        self._wire.deliver(self, make, version, lambda response: self._answer(number, response))

    def _answer(self, number: int, response: Any) -> None:
        if self.is_given_up or self.is_closed:
            return
        asyncio.get_running_loop().call_later(self._wire.delay_s(), self._answered, number, response)

    def _answered(self, number: int, response: Any) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)
