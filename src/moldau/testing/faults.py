"""● Faults on demand for the next requests of an API, on their way into a broker in a test's own process.

    broker.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    broker.faults.delay("Fetch", 1.5)
    broker.faults.drop("Metadata")                     # the connection breaks, and the broker has not seen the request
    broker.faults.drop("Produce", after=True)          # the broker has handled it, and the answer is lost
    broker.faults.move_time(hours=2)                   # the broker's wall clock

Any client can be under test.  Rules apply in the order in which they were given, each `times` times.  `count("Produce")` is the number of
requests of an API that have arrived.  Any thread may call this.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from moldau.clock import SystemClock
from moldau.errors import ErrorCode
from moldau.net.connection import Connection, Dispatch, InvalidFrame, Reply, ReplyOrLater
from moldau.net.correlation import is_answered
from moldau.net.later import Later
from moldau.net.transport import Accept, Listening, Network, Receiver, Transport
from moldau.protocol.compiler import request_decoder
from moldau.protocol.declared import DecodeError
from moldau.protocol.header import RequestHeader, decode_request_header, encode_response
from moldau.protocol.messages import REQUESTS
from moldau.types import Part


@dataclass(slots=True)
class Rule:
    """A rule for one API, which applies to `left` more requests."""

    api_key: int
    left: int
    code: ErrorCode | None = None
    delay_s: float = 0.0
    drops: bool = False
    drops_after: bool = False


class Faults:
    """The faults of one broker; see the module."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._seen: Counter[int] = Counter()
        self.skew_ms = 0

    def fail(self, api: str, code: ErrorCode, *, times: int = 1) -> None:
        """Let the broker answer with this code, and do nothing.  A produce with acks=0 has no answer: its connection breaks."""
        self._add(Rule(_key_of(api), times, code=code))

    def delay(self, api: str, seconds: float, *, times: int = 1) -> None:
        """Let the broker handle the request `seconds` later."""
        self._add(Rule(_key_of(api), times, delay_s=seconds))

    def drop(self, api: str, *, times: int = 1, after: bool = False) -> None:
        """Break the connection; with `after`, the broker has handled the request."""
        self._add(Rule(_key_of(api), times, drops=not after, drops_after=after))

    def move_time(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the broker's wall clock, forwards or back.  Its time-outs go by the monotonic clock, which does not move."""
        self.skew_ms += int((hours * 3600 + minutes * 60 + seconds) * 1000)

    def clear(self) -> None:
        """Remove every rule, and set the clock right."""
        with self._lock:
            self._rules.clear()
            self.skew_ms = 0

    def count(self, api: str) -> int:
        """The number of requests of this API that have arrived."""
        with self._lock:
            return self._seen[_key_of(api)]

    def _add(self, rule: Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def take(self, api_key: int) -> Rule | None:
        """The rule for the request that has just arrived, if there is one."""
        with self._lock:
            self._seen[api_key] += 1
            for rule in self._rules:
                if rule.api_key == api_key:
                    rule.left -= 1
                    if rule.left <= 0:
                        self._rules.remove(rule)
                    return rule
        return None


def _key_of(api: str) -> int:
    """The api key of a name.  Errors: ValueError naming the nearest."""
    name, keys = api.removesuffix("Request"), _keys()
    if name not in keys:
        from moldau.config import nearest

        meant = nearest(name, keys)
        raise ValueError(f"there is no API {api!r}" + (f"; the nearest is {meant!r}" if meant else ""))
    return keys[name]


@cache
def _keys() -> Mapping[str, int]:
    """The api keys by name.  A test without faults need not load every message."""
    return {request.__name__.removesuffix("Request"): key for key, request in REQUESTS.items()}


class MovableClock(SystemClock):
    """The operating system's clocks; `faults.move_time` moves the wall clock."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def now_ms(self) -> int:
        return super().now_ms() + self._faults.skew_ms


class FaultyNetwork:
    """A `Network` whose accepted connections ask `faults` about each request."""

    def __init__(self, below: Network, faults: Faults) -> None:
        self._below = below
        self._faults = faults

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        return await self._below.connect(host, port, receiver)

    async def listen(self, host: str, port: int, accept: Accept, *, backlog: int = 50) -> Listening:
        def accept_watched(transport: Transport) -> Receiver | None:
            receiver = accept(transport)
            if isinstance(receiver, Connection):
                receiver.dispatch = self._watch(receiver.dispatch)
            return receiver

        return await self._below.listen(host, port, accept_watched, backlog=backlog)

    def _watch(self, inner: Dispatch) -> Dispatch:
        def dispatch(connection: Connection, frame: memoryview) -> ReplyOrLater:
            try:
                header, body = decode_request_header(frame)
            except DecodeError:
                return inner(connection, frame)  # `inner` decides what becomes of a broken header
            rule = self._faults.take(header.api_key)
            if rule is None:
                return inner(connection, frame)
            if rule.drops:
                raise InvalidFrame("a fault breaks the connection")
            if rule.code is not None:
                return _refused(header, body, rule.code)
            # The frame is copied: its buffer may be used again before the delay is over.
            return _late(inner, connection, memoryview(bytearray(frame)), rule)

        return dispatch


def _refused(header: RequestHeader, body: memoryview, code: ErrorCode) -> list[Part]:
    request = request_decoder(REQUESTS[header.api_key], header.api_version)(body)
    if not is_answered(request):
        raise InvalidFrame("a fault refuses a produce without acknowledgement")  # as a broker does: it has no other way to tell
    return encode_response(request.refused(code), version=header.api_version, correlation_id=header.correlation_id)


async def _late(inner: Dispatch, connection: Connection, frame: memoryview, rule: Rule) -> Reply:
    await asyncio.sleep(rule.delay_s)
    answer: Any = inner(connection, frame)
    if isinstance(answer, Later):
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        answer.then(
            lambda reply: None if done.done() else done.set_result(reply),
            lambda error: None if done.done() else done.set_exception(error),
        )
        answer = await done
    elif asyncio.iscoroutine(answer):
        answer = await answer
    if rule.drops_after:
        connection.abort()
    reply: Reply = answer
    return reply
