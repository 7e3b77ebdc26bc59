"""◇ The partitions of this broker: made, led, followed and removed as the metadata says.

`hosted` is asked once a partition on the hot path, so it is a plain dictionary by (topic, partition).  All waiting requests share one
`Timeouts`; logs come from the `LogManager`.

Source: kafka.server.ReplicaManager.  Called by `server/node/publisher.py` (the metadata) and by the handlers of the data plane.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol
from uuid import UUID

from moldau.replication.partition import Partition
from moldau.replication.throttle import Throttles
from moldau.replication.waits import FetchWait, Timeouts
from moldau.storage.log import Log
from moldau.types import NO_LEADER, TopicPartition

RESTLESS_MS: Final = 1000
RESTLESS_WAIT_MS: Final = 20


class Peers(Protocol):
    """The interface to other brokers that this one's replicas need; `replication.Replication` implements it."""

    def follow(self, partition: Partition) -> None:
        """Let a partition follow its leader from now on; again, under another leader or leader epoch."""
        ...

    def leave(self, partition: Partition) -> None:
        """Let a partition follow no leader any more."""
        ...

    def flushed(self, partition: Partition) -> None:
        """Note that more of a log is on stable storage, or that its disk has failed."""
        ...

    def propose(self, partition: Partition) -> None:
        """Send the partition's `proposal` to the controller."""
        ...


class ReplicaManager:
    """See the module."""

    def __init__(
        self,
        *,
        local_id: int,
        lag_time_max_ms: int,
        on_flush_wanted: Callable[[Log], None],
        on_earlier_timeout: Callable[[int], None],
    ) -> None:
        self.local_id: Final = local_id
        self.hosted: Final[dict[tuple[str, int], Partition]] = {}
        self.timeouts: Final = Timeouts(on_earlier_timeout)
        self.throttles: Final = Throttles(local_id)
        self.peers: Peers | None = None
        """The interface to other brokers; None on a broker that is alone."""
        self.followers_parked: Final[dict[FetchWait, None]] = {}
        """Fetches of followers that wait for new records."""
        self._restless_until_ms = -RESTLESS_MS
        self.has_resigned = False
        """Whether the broker stops: nothing may wait any more."""
        self._lag_time_max_ms: Final = lag_time_max_ms
        self._on_flush_wanted: Final = on_flush_wanted

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.hosted.values())

    def host(self, topic_partition: TopicPartition, topic_id: UUID, log: Log) -> Partition:
        """Take a partition in.  `lead` or `follow` then gives it a role."""
        assert topic_partition not in self.hosted, topic_partition
        partition = Partition(
            topic_partition,
            topic_id,
            log,
            local_id=self.local_id,
            lag_time_max_ms=self._lag_time_max_ms,
            on_flush_wanted=self._on_flush_wanted,
        )
        if self.peers is not None:
            partition.on_proposal = self.peers.propose
        self.hosted[topic_partition] = partition
        return partition

    def apply(
        self,
        partition: Partition,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        eligible: Mapping[int, int],
        now_ms: int,
    ) -> bool:
        """Apply the metadata's state of a partition.  A known or older state is ignored.  True if its role here changed.

        An in-sync set that the controller has answered may arrive this way again, after another one has been asked for.
        """
        if partition_epoch <= partition.partition_epoch:
            return False
        led = partition.is_leader
        if leader_id == self.local_id:
            if len(replicas) > 1 and leader_epoch != partition.leader_epoch:
                self._leads_anew(now_ms)
            partition.lead(
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                replicas=replicas,
                isr=isr,
                eligible=eligible,
                now_ms=now_ms,
            )
        else:
            partition.follow(leader_id=leader_id, leader_epoch=leader_epoch, partition_epoch=partition_epoch, replicas=replicas, isr=isr)
        if self.peers is not None:
            if leader_id in (self.local_id, NO_LEADER):
                self.peers.leave(partition)
            else:
                self.peers.follow(partition)
        return led != partition.is_leader

    def follower_wait_ms(self, max_wait_ms: int, now_ms: int) -> int:
        """How long a follower's fetch may wait.

        A follower names a partition that it has just begun to follow with its next fetch.  So for a moment after leaders have changed no
        fetch waits long: acknowledgements of producers would wait with it.
        """
        return min(max_wait_ms, RESTLESS_WAIT_MS) if now_ms < self._restless_until_ms else max_wait_ms

    def _leads_anew(self, now_ms: int) -> None:
        self._restless_until_ms = now_ms + RESTLESS_MS
        for wait in list(self.followers_parked):
            wait.finish()

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Remove a partition, and tell the requests that wait on it."""
        partition = self.hosted.pop(topic_partition, None)
        if partition is not None:
            partition.retire()
            if self.peers is not None:
                self.peers.leave(partition)
        return partition

    def log_flushed(self, log: Log) -> None:
        """Note that more of a log is on stable storage, or that its disk has failed."""
        partition = self.hosted.get(log.topic_partition)
        if partition is not None and partition.log is log:
            if log.failure is None:
                partition.flushed()
            else:
                partition.failed()
            if self.peers is not None and not partition.is_leader:
                self.peers.flushed(partition)

    def resign(self) -> None:
        """Give up every leadership.  Waiting requests are told, except those whose records are committed and only wait for the disk."""
        self.has_resigned = True
        for partition in self:
            partition.resign()
