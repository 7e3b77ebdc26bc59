"""● Ties this broker's replicas to those on others: one fetcher for each followed leader, and the sender of in-sync sets.

    replication = Replication(replicas, …)      # from now on `ReplicaManager.apply` tells it which partition follows which leader
    replication.start()
    await replication.stop()                    # nothing is fetched or asked any more

The `Peers` of a `ReplicaManager`.

Source: ReplicaFetcherManager, ReplicaManager.maybeShrinkIsr.  Put together by `server/node`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Address, Network
from moldau.replication.catch_up import Verdict, begin_in_range
from moldau.replication.config import ReplicationConfig
from moldau.replication.fetcher import PIECE_MS, LeaderFetcher, Surroundings
from moldau.replication.isr_sender import AlterPartition, IsrSender
from moldau.replication.leader_line import LeaderLine
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.replication.tier_start import NotYet, Tier, begin_after_tier
from moldau.storage.log import Log
from moldau.storage.manager import LogManager

LOG: Final = logging.getLogger(__name__)


class Replication:
    """See the module.  `start` once, `stop` once."""

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        config: ReplicationConfig,
        network: Network,
        clock: Clock,
        logs: LogManager,
        alter_partition: AlterPartition,
        endpoint_of: Callable[[int], Address | None],
        broker_epoch: Callable[[], int],
        want_flush: Callable[[Log], None],
        note_starts: Callable[[], Awaitable[None]],
        tier: Tier | None = None,
    ) -> None:
        """`endpoint_of` returns a broker's address on the listener for brokers; `ReplicaManager.log_flushed` answers `want_flush`."""
        self._replicas: Final = replicas
        self._clock: Final = clock
        self._config: Final = config
        self._logs: Final = logs
        self._tier: Final = tier
        self._sender: Final = IsrSender(alter_partition, clock, local_id=replicas.local_id, broker_epoch=broker_epoch)
        self._around: Final = Surroundings(
            local_id=replicas.local_id,
            config=config,
            network=network,
            clock=clock,
            logs=logs,
            buffers=ReceiveBuffers(),
            endpoint_of=endpoint_of,
            broker_epoch=broker_epoch,
            want_flush=want_flush,
            note_starts=note_starts,
            seek=self._seek,
            throttle=replicas.throttles.follower,
        )
        self._fetchers: Final[dict[int, LeaderFetcher]] = {}
        self._followed: Final[dict[Partition, LeaderFetcher]] = {}
        self._leaving: Final[dict[asyncio.Task[None], None]] = {}
        self._shrinking: asyncio.Task[None] | None = None
        replicas.peers = self

    @property
    def _is_started(self) -> bool:
        return self._shrinking is not None

    def start(self) -> None:
        self._sender.start()
        self._shrinking = in_background(self._shrink(), name="removal of slow followers")
        for fetcher in self._fetchers.values():
            fetcher.start()

    async def stop(self) -> None:
        """Stop.  When this returns nothing is appended to a follower's log any more."""
        self._replicas.peers = None
        if self._shrinking is not None:
            self._shrinking.cancel()
        await asyncio.gather(self._sender.stop(), *(fetcher.stop() for fetcher in self._fetchers.values()), *self._leaving)
        self._fetchers.clear()
        self._followed.clear()

    # Peers

    def follow(self, partition: Partition) -> None:
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader_id] = LeaderFetcher(partition.leader_id, self._around)
            if self._is_started:
                fetcher.start()
        if self._followed.get(partition) is not fetcher:
            self.leave(partition)
            self._followed[partition] = fetcher
        fetcher.follow(partition)

    def leave(self, partition: Partition) -> None:
        fetcher = self._followed.pop(partition, None)
        if fetcher is None:
            return
        fetcher.leave(partition)
        # The fetcher that gave a partition up may be gone already.
        if not len(fetcher) and self._fetchers.get(fetcher.leader_id) is fetcher:
            del self._fetchers[fetcher.leader_id]
            task = in_background(fetcher.stop())
            self._leaving[task] = None
            task.add_done_callback(self._leaving.pop)

    def flushed(self, partition: Partition) -> None:
        fetcher = self._followed.get(partition)
        if fetcher is not None:
            fetcher.flushed(partition)

    def propose(self, partition: Partition) -> None:
        self._sender.propose(partition)

    # From time to time

    async def _shrink(self) -> None:
        """Remove followers that have fallen behind from the in-sync sets, at most half of replica.lag.time.max.ms late."""
        while True:
            await asyncio.sleep(self._config.lag_time_max_ms / 2000)
            began_ms = self._clock.monotonic_ms()
            for partition in list(self._replicas):
                try:
                    partition.shrink_isr(self._clock.monotonic_ms())
                except Exception:  # of one partition
                    LOG.exception("%s: a mistake of ours, while it is asked who has fallen behind", partition)
                if self._clock.monotonic_ms() - began_ms >= PIECE_MS:
                    await asyncio.sleep(0)
                    began_ms = self._clock.monotonic_ms()

    # Where a log cannot go on from its leader's

    async def _seek(self, partition: Partition, leader: LeaderLine, why: Verdict) -> None:
        """Find an end from which a log can go on with its leader.  Errors: KafkaError, OSError, NotYet."""
        if why is Verdict.OUT_OF_RANGE:
            await self._begin_in_range(partition, leader)
        elif self._tier is None:
            raise NotYet("its next record is in remote storage, and this broker has none: set remote.log.storage.system.enable=true")
        else:
            await begin_after_tier(partition, leader, self._tier, self._logs, self._clock.now_ms())

    async def _begin_in_range(self, partition: Partition, leader: LeaderLine) -> None:
        epoch, truncations = partition.leader_epoch, partition.log.truncations
        end = await leader.latest_offset()
        start = await leader.earliest_offset()
        if partition.is_leader or (partition.leader_epoch, partition.log.truncations) != (epoch, truncations):
            raise NotYet(f"{partition.topic_partition} has another leader meanwhile")
        LOG.warning("%s is out of its leader's range, %d to %d", partition, start.offset, end.offset)
        now_ms = self._clock.now_ms()
        begin_in_range(self._logs, partition.log, leader_start_offset=start.offset, leader_end_offset=end.offset, now_ms=now_ms)
