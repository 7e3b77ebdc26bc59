"""● Carries batches from one leader: one task, one connection, one fetch under way at a time.

    next request ─▶ response ─▶ appended, truncated ─▶ synced, where acknowledged means on stable storage ─▶ next request

Records go from the buffer that their frame was received into to the file.  A leader that cannot be reached is tried again, after longer and
longer pauses up to replica.fetch.backoff.ms.  Partitions come and go at any time: `follower.py` ignores an answer to a fetch under another
leader epoch or from another offset.

Other requests than fetches (`Seeking`) use a connection of their own: a fetch that waits at the leader would hold them up.
Source: ReplicaFetcherThread, RemoteLeaderEndPoint.  Made by `replication.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Address, Network
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.wire import EncodeError
from moldau.replication.catch_up import Verdict, begin_following, take
from moldau.replication.config import ReplicationConfig
from moldau.replication.follower import FIRST_BACKOFF_MS, Followed, Follower
from moldau.replication.leader_line import LeaderLine
from moldau.replication.partition import Partition
from moldau.replication.throttle import Throttle
from moldau.storage.log import Log
from moldau.storage.manager import LogManager

LOG: Final = logging.getLogger(__name__)

PIECE_MS: Final = 20
"""Appending takes at most this many milliseconds before other tasks have their turn."""
START_NOTE_GAP_MS: Final = 200
"""The milliseconds between two checkpoints of the logs' start offsets."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The objects that every fetcher of a broker works with."""

    local_id: int
    config: ReplicationConfig
    network: Network
    clock: Clock
    logs: LogManager
    buffers: ReceiveBuffers
    endpoint_of: Callable[[int], Address | None]
    """The address of a broker on the listener for brokers; None while it is not known."""
    broker_epoch: Callable[[], int]
    want_flush: Callable[[Log], None]
    """Asks for a flush, which `LeaderFetcher.flushed` answers."""
    note_starts: Callable[[], Awaitable[None]]
    """Writes the checkpoint of the logs' start offsets."""
    seek: Callable[[Partition, LeaderLine, Verdict], Awaitable[None]]
    """Finds an end from which a log can go on with its leader.  Errors: KafkaError, OSError, NotYet."""
    throttle: Throttle
    """The throttle that all fetchers share."""


class LeaderFetcher:
    """See the module.  `start` once, `stop` once."""

    def __init__(self, leader_id: int, around: Surroundings) -> None:
        self.leader_id: Final = leader_id
        self._around: Final = around
        self._follower: Final = Follower(local_id=around.local_id, config=around.config, throttle=around.throttle)
        self._news: Final = asyncio.Event()
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._seekers: dict[asyncio.Task[None], None] = {}
        self._has_flushed: Final = asyncio.Event()
        self._noting: asyncio.Task[None] | None = None
        self._is_noting = False
        """Whether start offsets are being noted: a fetch sent meanwhile would wait at the leader, which waits for the new starts."""
        self._unflushed: dict[Followed, None] = {}
        """The partitions whose end is not on stable storage yet.  It must be before a fetch tells it."""
        self._failures = 0

    def __len__(self) -> int:
        return len(self._follower)

    def __repr__(self) -> str:
        return f"LeaderFetcher(leader {self.leader_id}, {len(self)} partitions)"

    # Which partitions

    def follow(self, partition: Partition) -> None:
        """Follow a partition from now on, under its present leader epoch.  Call it again when the epoch has changed."""
        known = self._follower.get(partition)
        if known is not None and known.is_current:
            return
        try:
            begin_following(self._around.logs, partition, self._around.clock.now_ms())
        except OSError as error:
            LOG.error("%s cannot be truncated: %s", partition, error)
            self.leave(partition)
            return
        self._expect_flush(self._follower.add(partition))
        self._news.set()

    def leave(self, partition: Partition) -> None:
        """Follow a partition no longer.  Nothing here may wait for its flush any more."""
        self._follower.remove(partition)
        self._wake()

    def flushed(self, partition: Partition) -> None:
        """Note that more of a log is on stable storage, or that its disk has failed."""
        if self._follower.get(partition) is not None:
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._has_flushed.set()

    # Its life

    def start(self) -> None:
        self._task = in_background(self._run(), name=f"fetcher of leader {self.leader_id}")

    async def stop(self) -> None:
        """Stop.  When this returns nothing is appended any more."""
        tasks = [task for task in (self._task, self._noting, *self._seekers) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._disconnect()

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch()
                self._failures = 0
            except (OSError, KafkaError, EncodeError) as error:
                self._lost(error)
            except Exception:
                LOG.exception("a mistake of ours, while leader %d is followed", self.leader_id)
                self._lost(None)
            if self._failures:
                delay_ms = min(self._around.config.fetch_backoff_ms, FIRST_BACKOFF_MS << min(self._failures, 16))
                await asyncio.sleep(delay_ms / 1000)

    def _lost(self, error: Exception | None) -> None:
        if error is not None and not self._failures:
            LOG.info("leader %d cannot be fetched from, and is tried again: %s", self.leader_id, error)
        self._failures += 1
        self._follower.lost()
        self._disconnect()

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort()

    # Fetching

    async def _fetch(self) -> None:
        """Send one fetch and apply its answer.  Errors: OSError, KafkaError, EncodeError."""
        around = self._around
        await self._until_flushed()
        self._news.clear()
        channel = await self._connected() if len(self._follower) else None
        request = self._follower.next_request(around.clock.monotonic_ms(), around.broker_epoch())
        if request is None or channel is None:
            await self._wait_for_news(self._follower.next_due_ms())
            return
        response = await channel.send(request, timeout_s=around.config.socket_timeout_ms / 1000)
        await self._take(response)

    async def _connected(self) -> Channel:
        channel = self._channel
        if channel is None or channel.is_closed:
            self._follower.lost()
            channel = self._channel = await connect(self.leader_id, self._around)
        return channel

    async def _take(self, response: FetchResponse) -> None:
        around = self._around
        began_ms = around.clock.monotonic_ms()
        for followed, answer in self._follower.answers(response):
            try:
                verdict = take(around.logs, followed.partition, answer, around.clock.now_ms())
            except OSError as error:
                LOG.error("%r is followed no more: %s", followed, error)
                verdict = Verdict.DROPPED
            now_ms = around.clock.monotonic_ms()
            self._follower.settle(followed, verdict, now_ms, byte_count=len(answer.records or b""))
            if verdict is Verdict.TAKEN:
                self._expect_flush(followed)
            if not followed.is_start_noted:
                self._note_starts()
            if verdict in (Verdict.OUT_OF_RANGE, Verdict.IN_REMOTE_STORAGE):
                self._seek(followed, verdict)
            if now_ms - began_ms >= PIECE_MS:
                await asyncio.sleep(0)
                began_ms = around.clock.monotonic_ms()

    def _expect_flush(self, followed: Followed) -> None:
        if not followed.is_flushed:
            self._unflushed[followed] = None
            self._around.want_flush(followed.partition.log)

    async def _until_flushed(self) -> None:
        while self._unflushed or self._is_noting:
            self._news.clear()
            for followed in list(self._unflushed):
                if followed.is_flushed or self._follower.get(followed.partition) is not followed:
                    del self._unflushed[followed]
            if self._unflushed or self._is_noting:
                await self._wait_for_news(None)

    async def _wait_for_news(self, until_ms: int | None) -> None:
        timer = None
        if until_ms is not None:
            delay_s = max(0, until_ms - self._around.clock.monotonic_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(delay_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # Beside the fetches

    def _note_starts(self) -> None:
        if self._noting is None or self._noting.done():
            self._is_noting = True
            self._noting = in_background(self._noting_starts())

    async def _noting_starts(self) -> None:
        while behind := [followed for followed in self._follower if not followed.is_start_noted]:
            self._is_noting = True
            try:
                await self._note_starts_of(behind)
            except OSError as error:
                LOG.error("where logs begin cannot be noted: %s", error)
            finally:
                self._is_noting = False
                self._news.set()
            await asyncio.sleep(START_NOTE_GAP_MS / 1000)

    async def _note_starts_of(self, behind: list[Followed]) -> None:
        """Note the start offsets of these partitions.  A log is synced first: records that are not on stable storage yet may not be noted
        as gone.

        Errors: OSError.
        """
        for followed in behind:
            log = followed.partition.log
            while log.certain_start_offset < log.log_start_offset and log.failure is None and not log.is_flushed:
                if self._follower.get(followed.partition) is not followed:
                    break
                self._around.want_flush(log)
                self._has_flushed.clear()
                await self._has_flushed.wait()
        starts = [(followed, followed.partition.log.certain_start_offset) for followed in behind]
        await self._around.note_starts()
        for followed, start in starts:
            followed.noted_start_offset = start
            self._follower.changed(followed)

    def _seek(self, followed: Followed, why: Verdict) -> None:
        task = in_background(self._seeking(followed, why))
        self._seekers[task] = None
        task.add_done_callback(self._seekers.pop)

    async def _seeking(self, followed: Followed, why: Verdict) -> None:
        verdict = Verdict.TAKEN
        line = LeaderLine(followed.partition, self._around.local_id, lambda: connect(self.leader_id, self._around))
        try:
            await self._around.seek(followed.partition, line, why)
        except Exception as error:
            LOG.warning("%r cannot go on from its leader, and tries again: %s", followed, error)
            verdict = Verdict.REFUSED if followed.partition.log.failure is None else Verdict.DROPPED
        finally:
            line.close()
        self._follower.settle(followed, verdict, self._around.clock.monotonic_ms())
        self._news.set()


async def connect(leader_id: int, around: Surroundings) -> Channel:
    """A connection to a leader.  Errors: OSError, KafkaError."""
    address = around.endpoint_of(leader_id)
    if address is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"no address of broker {leader_id} is known")
    timeout_s = around.config.socket_timeout_ms / 1000
    client_id = f"broker-{around.local_id}-fetcher-0"
    return await Channel.connect(
        around.network, address.host, address.port, client_id=client_id, timeout_s=timeout_s, buffers=around.buffers
    )
