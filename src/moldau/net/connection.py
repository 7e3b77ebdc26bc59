"""● The server's side of one connection: frames in, replies out, in order and within limits.

    dispatch(connection, frame) -> parts        answered at once
                                -> None         taken, nothing is sent (acks=0)
                                -> Later        waited for as long as the peer is there
                                -> coroutine    work, which goes on to its end

A connection's next request begins when the one before is answered, as with Kafka.  Requests of `SIDE_BY_SIDE` begin at once, behind others
of their kind.

All frames of one receive are dispatched first; then their replies leave together.  Replies of one turn leave together, too.

A peer that sends many requests at once is served `REQUESTS_PER_TURN` of them, then all other connections, then the next.

Three limits stop reading, and none of them loses data: the requests in work, the bytes of parked requests, and the bytes of replies that
the peer does not take.  `overdue` gives the reason to close a connection: the peer was silent, took no replies, or sent its request too
slowly, or a request that waits keeps those behind it unread.  `stop` ends gracefully: it takes no new requests, sends the replies of the
requests in work, and closes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from moldau.net.framing import Framing, ReceiveBuffers
from moldau.net.later import Later
from moldau.net.pipeline import Pipeline
from moldau.net.transport import Address, Transport
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.types import FileSlice, Part

log: Final = logging.getLogger(__name__)

Reply: TypeAlias = list[Part] | None
LaterReply: TypeAlias = Later[list[Part]] | Coroutine[Any, Any, Reply]
ReplyOrLater: TypeAlias = Reply | LaterReply
Dispatch: TypeAlias = "Callable[[Connection, memoryview], ReplyOrLater]"

SIDE_BY_SIDE: Final = frozenset({ProduceRequest.API_KEY, OffsetCommitRequest.API_KEY})
"""Requests that begin while others of their kind wait, so that many share one sync: their logs keep them in order.

Any other request begins when all requests before it are answered.  Otherwise a request for metadata or for the end of a log, behind a
waiting fetch, would get an answer older than the records of that fetch.  A commit behind a produce could outlive the records.
"""
REQUESTS_PER_TURN: Final = 32
"""After this many requests of one receive a connection yields to the others.

One receive may hold thousands of small requests.  A few peers that send such receives would keep clients, replication and the quorum
waiting for longer than their time-outs.  Kafka takes one request of a connection at a time.
"""
MIN_RECEIVE_RATE: Final = 1024
"""The bytes a second at which a request must arrive, once `ConnectionLimits.frame_grace_ms` are over."""


class Session(Protocol):
    """The dispatcher's state of one connection."""

    def closed(self) -> None:
        """Learn that the connection is gone."""
        ...


class InvalidFrame(Exception):
    """Raised by `dispatch` for bytes that are no request: the connection is closed, and the log says why."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one peer.  Sources: socket.request.max.bytes, queued.max.requests, connections.max.idle.ms."""

    max_request_bytes: int = 100 << 20
    max_in_flight: int = 500
    max_parked_bytes: int = 100 << 20
    max_unsent_bytes: int = 256 << 10
    """The most bytes of replies that may wait for the peer to read them.  Above it, none of its requests are dispatched."""
    idle_ms: int = 600_000
    frame_grace_ms: int = 30_000


class Connection:
    """One accepted connection; a `Receiver` of its transport."""

    __slots__ = (
        "_frame_since_ms",
        "_framing",
        "_held",
        "_in_work",
        "_is_closed",
        "_is_flush_due",
        "_is_holding",
        "_is_stopping",
        "_is_yielding",
        "_last_unsent",
        "_limits",
        "_loop",
        "_moved",
        "_on_closed",
        "_parked",
        "_parked_bytes",
        "_pipeline",
        "_quiet_since_ms",
        "_ready",
        "_transport",
        "dispatch",
        "listener_name",
        "number",
        "session",
    )

    def __init__(
        self,
        transport: Transport,
        dispatch: Dispatch,
        *,
        limits: ConnectionLimits,
        buffers: ReceiveBuffers,
        listener_name: str = "",
        number: int = 0,
        on_closed: "Callable[[Connection], None] | None" = None,
    ) -> None:
        self.listener_name = listener_name
        self.number: Final = number
        """A number that grows with every connection that the process accepts."""
        self.session: Session | None = None
        """The dispatcher's state of this connection."""
        self._transport = transport
        self.dispatch = dispatch
        self._limits = limits
        self._framing = Framing(limits.max_request_bytes, buffers)
        self._pipeline = Pipeline()
        self._loop = asyncio.get_running_loop()
        self._on_closed = on_closed
        self._held: list[memoryview] = []
        self._in_work = -1
        """The API of the requests that are not answered yet; all of them have the same."""
        self._ready: list[Part] = []
        # The loop itself holds tasks only weakly.
        self._parked: dict[int, Later[list[Part]] | asyncio.Task[Reply]] = {}
        self._parked_bytes = 0
        self._is_holding = False
        self._is_flush_due = False
        self._is_stopping = False
        self._is_yielding = False
        self._is_closed = False
        self._moved = True
        self._last_unsent = 0
        self._quiet_since_ms = 0
        self._frame_since_ms: int | None = None

    def __repr__(self) -> str:
        return f"Connection({self.peer}, {self._pipeline.in_flight} in flight, {self.unsent} unsent)"

    @property
    def peer(self) -> Address:
        return self._transport.peer

    @property
    def unsent(self) -> int:
        """The bytes of replies that have not left."""
        return self._transport.buffered

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # requests

    def get_buffer(self) -> memoryview:
        return self._framing.get_buffer()

    def received(self, count: int) -> None:  # hot: 3 us a request, beside what dispatch takes
        self._moved = True
        frames = self._framing.received(count)
        if frames:
            self._frame_since_ms = None
            if self._is_holding:
                self._held += frames
            else:
                self._serve(frames)
        if self._framing.error is not None and not self._is_stopping:
            log.warning("connection %s closed: %s", self.peer, self._framing.error)
            self.stop()

    def _serve(self, frames: Sequence[memoryview]) -> None:
        pipeline = self._pipeline
        for position, frame in enumerate(frames):
            if self._is_stopping:
                return
            if (pipeline.in_flight and not self._may_run_beside(frame)) or self._is_full():
                self._hold(frames[position:])
                break
            if position == REQUESTS_PER_TURN:
                self._hold(frames[position:])
                self._is_yielding = True
                self._loop.call_soon(self._yielded)
                break
            slot = pipeline.request()
            try:
                reply = self.dispatch(self, frame)
            except InvalidFrame as error:
                log.warning("connection %s closed: %s", self.peer, error)
                self._refuse(slot)
                break
            except Exception:
                log.exception("connection %s closed: a request could not be dispatched", self.peer)
                self._refuse(slot)
                break
            if reply is None or type(reply) is list:
                self._ready += pipeline.reply(slot, reply)
            else:
                self._in_work = _api_key(frame)
                self._park(slot, reply, len(frame))  # type: ignore[arg-type]  # mypy does not narrow on `type() is`
        if self._ready and not self._is_flush_due:
            self._flush()

    def _may_run_beside(self, frame: memoryview) -> bool:
        """Whether a request may begin before those in work are answered."""
        return self._in_work in SIDE_BY_SIDE and _api_key(frame) == self._in_work

    def _is_full(self) -> bool:
        if self._pipeline.in_flight >= self._limits.max_in_flight or self._parked_bytes > self._limits.max_parked_bytes:
            return True
        if self._ready:
            unsent = 0
            for part in self._ready:  # hot: a generator costs twice as much
                if type(part) is not FileSlice:
                    unsent += len(part)
            if len(self._ready) < 64 and unsent <= self._limits.max_unsent_bytes:
                return False
            self._flush()
        return self._transport.buffered > self._limits.max_unsent_bytes

    def _hold(self, frames: Sequence[memoryview]) -> None:
        self._held += frames
        if not self._is_holding:
            self._is_holding = True
            self._transport.pause_reading()

    def _yielded(self) -> None:
        self._is_yielding = False
        self._resume()

    def _resume(self) -> None:
        if self._is_holding and not self._is_yielding and not self._is_closed and not self._is_full():
            self._is_holding = False
            frames, self._held = self._held, []
            self._serve(frames)
            if not self._is_holding and not self._is_stopping:
                self._transport.resume_reading()

    def _refuse(self, slot: int) -> None:
        """Send no reply to this request and none after it.  Earlier replies still leave."""
        self._ready += self._pipeline.reply(slot, None)
        self.stop()

    # replies

    def _park(self, slot: int, reply: LaterReply, size: int) -> None:
        self._parked_bytes += size
        if isinstance(reply, Later):
            self._parked[slot] = reply
            reply.then(partial(self._replied, slot, size), self._give_up)
        else:
            task = self._parked[slot] = self._loop.create_task(reply)
            task.add_done_callback(partial(self._completed, slot, size))

    def _completed(self, slot: int, size: int, task: "asyncio.Task[Reply]") -> None:
        parts: Reply = None
        if task.cancelled():
            if not self._is_closed:
                self.abort()
        elif (error := task.exception()) is not None:
            self._give_up(error)
        else:
            parts = task.result()
        self._replied(slot, size, parts)

    def _give_up(self, error: BaseException) -> None:
        """Close the connection: a request cannot be answered, so no request behind it can."""
        if isinstance(error, InvalidFrame):
            log.warning("connection %s closed: %s", self.peer, error)
        else:
            log.error("connection %s closed: a request failed", self.peer, exc_info=error)
        self.abort()

    def _replied(self, slot: int, size: int, parts: Reply) -> None:
        self._parked_bytes -= size
        del self._parked[slot]
        if self._is_closed:
            return
        self._ready += self._pipeline.reply(slot, parts)
        if not self._is_flush_due:
            # Other replies may be ready in this turn, too: they leave together.
            self._is_flush_due = True
            self._loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._is_flush_due = False
        self._moved = True
        if not self._is_closed:
            self._flush()
            self._resume()
            self._maybe_finish()

    def _flush(self) -> None:
        if self._ready:
            ready, self._ready = self._ready, []
            self._transport.write(ready)

    def writable(self) -> None:
        self._moved = True
        self._resume()

    # ending

    def stop(self) -> None:
        """End gracefully: answer the dispatched requests, then close the connection."""
        if not self._is_stopping:
            self._is_stopping = True
            self._held = []
            self._transport.pause_reading()
            self._maybe_finish()

    def _maybe_finish(self) -> None:
        if self._is_stopping and not self._pipeline.in_flight and not self._is_flush_due:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        self._is_stopping = True
        self._transport.abort()

    def closed(self, error: Exception | None) -> None:
        self._is_closed = True
        self._is_stopping = True
        self._held = []
        self._ready = []
        for parked in list(self._parked.values()):
            if isinstance(parked, Later):
                parked.abandon()
        if error is not None:
            log.debug("connection %s broke: %s", self.peer, error)
        if self.session is not None:
            self.session.closed()
        if self._on_closed is not None:
            self._on_closed(self)

    def overdue(self, now_ms: int) -> str | None:
        """The reason to close the connection, or None.  To be asked at intervals: progress since the last call counts as progress now."""
        unsent = self._transport.buffered
        if self._moved or unsent != self._last_unsent:
            self._moved = False
            self._last_unsent = unsent
            self._quiet_since_ms = now_ms
        if self._framing.is_amid_frame:
            if self._frame_since_ms is None:
                self._frame_since_ms = now_ms
            late_ms = now_ms - self._frame_since_ms - self._limits.frame_grace_ms
            if late_ms > 0 and self._framing.received_of_frame < MIN_RECEIVE_RATE * late_ms // 1000 and not self._is_holding:
                return "the client sends its request too slowly"
        if now_ms - self._quiet_since_ms < self._limits.idle_ms:
            return None
        if unsent:
            return "the client does not read its replies"
        if self._is_holding:
            # Nothing is read, so the end of a peer that has gone would not be seen.  Kafka closes such a connection, too.
            return "a request waits for too long with others behind it"
        return None if self._pipeline.in_flight else "the connection is idle"


def _api_key(frame: memoryview) -> int:
    return int.from_bytes(frame[:2], "big")
