"""◇ The partitions of this broker: made, led, followed and removed as the metadata says.

`hosted` is asked once a partition on the hot path, so it is a plain dictionary by (topic, partition).  Everything that waits shares one
`Timeouts`; logs come from the `LogManager`.  Source: kafka.server.ReplicaManager.  Called by `server/node/publisher.py`
(the metadata) and by the handlers of the data plane.
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
    """Other brokers, as far as this one's replicas need them: `replication.Replication`."""

    def follow(self, partition: Partition) -> None:
        """It follows its leader from now on; again, under another leader or leader epoch."""
        ...

    def leave(self, partition: Partition) -> None:
        """It follows nobody any more, if it did."""
        ...

    def flushed(self, partition: Partition) -> None:
        """More of its log is on stable storage, or its disk has failed."""
        ...

    def propose(self, partition: Partition) -> None:
        """Its `proposal` is to go to the controller."""
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
        """None on a broker that is alone."""
        self.followers_parked: Final[dict[FetchWait, None]] = {}
        """Fetches of followers that wait here for something to come."""
        self._restless_until_ms = -RESTLESS_MS
        self.has_resigned = False
        """The broker stops: nobody is to wait for anything any more."""
        self._lag_time_max_ms: Final = lag_time_max_ms
        self._on_flush_wanted: Final = on_flush_wanted

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.hosted.values())

    def host(self, topic_partition: TopicPartition, topic_id: UUID, log: Log) -> Partition:
        """The partition lives here from now on; `lead` or `follow` says in which role."""
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
        """What the metadata says of it now; a state that is known, or older, is left alone.  True if its role here changed.

        The in-sync set that the controller has answered may come once more this way, when another one has been asked for already.
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

        A follower names a partition that it has just begun to follow with its next fetch.  So for a moment after leaders have changed none
        waits long: what producers wait for would wait with it.
        """
        return min(max_wait_ms, RESTLESS_WAIT_MS) if now_ms < self._restless_until_ms else max_wait_ms

    def _leads_anew(self, now_ms: int) -> None:
        self._restless_until_ms = now_ms + RESTLESS_MS
        for wait in list(self.followers_parked):
            wait.finish()

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """It lives here no more: those who wait on it are told."""
        partition = self.hosted.pop(topic_partition, None)
        if partition is not None:
            partition.retire()
            if self.peers is not None:
                self.peers.leave(partition)
        return partition

    def log_flushed(self, log: Log) -> None:
        """More of a log is on stable storage, or its disk has failed."""
        partition = self.hosted.get(log.topic_partition)
        if partition is not None and partition.log is log:
            if log.failure is None:
                partition.flushed()
            else:
                partition.failed()
            if self.peers is not None and not partition.is_leader:
                self.peers.flushed(partition)

    def resign(self) -> None:
        """Nothing is led any more; who waits is told, but for those whose records are committed and wait for the disk."""
        self.has_resigned = True
        for partition in self:
            partition.resign()
