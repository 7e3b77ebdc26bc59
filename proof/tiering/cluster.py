"""● Simulated brokers with one replicated, tiered partition.  They run the parts of `moldau serve`, except the network between brokers.

    TierCluster     the controller with leader, epoch and in-sync set; brokers hear of changes sooner or later
    TierBroker      files in memory, logs, the partition, its flusher, the remote log manager; one life after another
    follow          carries batches from the leader: the leader's fetch, the follower's append, truncation, beginning after the tier

A follower's fetch says that everything before its offset is on stable storage (flush policy `ack`), so the follower flushes first.  The
fetch also names the start of the follower's log, and the answer to DeleteRecords depends on it.  So the follower notes a new start on the
disk first, too.
"""

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.image import MetadataImage
from moldau.protocol.messages.fetch import PartitionData
from moldau.replication.catch_up import append_fetched, begin_in_range, truncation_offset
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Isolation, Partition
from moldau.replication.tier_start import NotYet, begin_after_tier
from moldau.server.tier.manager import RemoteLogManager
from moldau.storage.config import LogConfig
from moldau.storage.epochs import EpochEnd
from moldau.storage.flush.flusher import Flusher
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.tiered.config import RemoteLogConfig, StoreConfig
from moldau.storage.tiered.segments import TopicIdPartition
from moldau.storage.validator import AppendFailure
from moldau.testing.clock import SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.types import NO_LEADER, REMOTE_LOG_METADATA_TOPIC, FileSlice, OffsetAndEpoch
from proof.cluster.images import with_topics
from proof.tiering.metadata import MetadataView, SharedMetadata
from proof.tiering.model import TierModel
from proof.tiering.object_store import MemoryObjectStore

WHERE: Final = TopicIdPartition(UUID(int=9), "t", 0)
METADATA_TOPIC_ID: Final = UUID(int=8)
FETCH_BYTES: Final = 700
LAG_TIME_MAX_MS: Final = 400
TASK_INTERVAL_MS: Final = 60
SLOW_S: Final = 0.02
LIMITS: Final = dataclasses.replace(RemoteLogConfig.load({}), task_interval_ms=TASK_INTERVAL_MS, fetch_max_wait_ms=10_000)
STORE: Final = dataclasses.replace(StoreConfig.load({}), chunk_size=500, prefetch_size=500, cache_size=4000)


class TierBroker:
    """See the module."""

    def __init__(self, cluster: "TierCluster", broker_id: int) -> None:
        self.id: Final = broker_id
        self.cluster: Final = cluster
        self.files = MemoryFiles()
        self.machine = Machine(f"broker-{broker_id}")
        self.is_up = False
        self.is_cut_off = False
        """True while the broker cannot reach its leader."""
        self.is_ready = False
        """True once the broker has loaded its log."""
        self.noted_start = -1
        self.lives = 0
        self.partition: Partition
        self.logs: LogManager
        self.remote: RemoteLogManager
        self.metadata: MetadataView
        self.flusher: Flusher

    @property
    def log(self) -> Log:
        return self.partition.log

    def __repr__(self) -> str:
        log = self.partition.log
        return f"broker {self.id} ({log.log_start_offset}/{log.local_log_start_offset}..{log.log_end_offset}, {log.epochs.entries})"

    # Its lives

    def start(self) -> None:
        """Start on the files on the broker's disk."""
        self.lives += 1
        self.noted_start = -1
        self.is_ready = False
        self.machine = Machine(f"broker-{self.id}")
        self.is_up = True
        self.cluster.loop.start(self.machine, self._live())

    async def _live(self) -> None:
        cluster = self.cluster
        choice = random.Random(cluster.choice.getrandbits(64))
        self.logs = LogManager(self.files, ["/d"], cluster.config, unique=lambda: UUID(int=choice.getrandbits(128)))
        self.logs.open(cluster.clock.now_ms())
        self.logs.load_all(lambda topic: cluster.config, cluster.clock.now_ms())
        replicas = ReplicaManager(
            local_id=self.id,
            lag_time_max_ms=LAG_TIME_MAX_MS,
            on_flush_wanted=self._want_flush,
            on_earlier_timeout=lambda due_ms: None,
        )
        self.flusher = Flusher(self.files, on_flushed=replicas.log_flushed)
        log = self.logs.get_or_create(
            WHERE.topic_partition, cluster.config, now_ms=cluster.clock.now_ms(), topic_id=WHERE.topic_id, is_new=False
        )
        log.verifies_transactions = False
        self.partition = replicas.host(WHERE.topic_partition, WHERE.topic_id, log)
        self.metadata = MetadataView(cluster.metadata, self.id, choice)
        self.remote = RemoteLogManager(
            local_id=self.id,
            limits=LIMITS,
            options=STORE,
            store=cluster.store,
            metadata=self.metadata,
            files=self.files,
            clock=cluster.clock,
            logs=self.logs,
            replicas=replicas,
            image=cluster.image,
            new_id=lambda: UUID(int=choice.getrandbits(128)),
            checkpoint=self._checkpoint,
            threads_of=lambda count, name: self._elsewhere(choice),
        )
        self.remote.start()
        self._replicas = replicas
        self.is_ready = True
        self.apply()
        spawn = asyncio.get_running_loop().create_task
        self._tasks = [spawn(self._keep_house()), spawn(self._keep_in_sync()), spawn(follow(self, choice))]

    def _elsewhere(self, choice: random.Random) -> Callable[..., Awaitable[Any]]:
        async def run(fn: Callable[..., Any], *args: Any) -> Any:
            await asyncio.sleep(choice.random() * SLOW_S * (20 if choice.random() < 0.05 else 1))
            result = fn(*args)
            await asyncio.sleep(choice.random() * SLOW_S)
            return result

        return run

    def _want_flush(self, log: Log) -> None:
        self.flusher.want(log)

    async def _checkpoint(self) -> None:
        self.logs.write_checkpoints()

    def die(self, *, with_power: bool) -> None:
        """Stop everything at once.  After a power failure the disk keeps any part of the data that was not synced."""
        self.is_up = False
        self.cluster.loop.kill(self.machine)
        if with_power:
            self.files.crash(self.cluster.choice)
        self.files.held_locks.clear()

    def lose_disk(self) -> None:
        assert not self.is_up
        self.files = MemoryFiles()

    # What it does

    def apply(self) -> None:
        """Apply the controller's decision."""
        if not self.is_up or not self.is_ready or self.cluster.is_deleted:
            return
        cluster, before = self.cluster, (self.partition.leader_epoch, self.partition.is_leader)
        start = self.log.log_end_offset
        self._replicas.apply(
            self.partition,
            leader_id=cluster.leader_id,
            leader_epoch=cluster.leader_epoch,
            partition_epoch=cluster.partition_epoch,
            replicas=tuple(cluster.brokers),
            isr=cluster.isr,
            eligible=cluster.eligible(),
            now_ms=cluster.clock.monotonic_ms(),
        )
        if before != (self.partition.leader_epoch, self.partition.is_leader):
            if self.partition.is_leader:
                entries = [entry for entry in self.log.epochs.entries if entry.epoch < cluster.leader_epoch]
                cluster.model.elected(cluster.leader_epoch, entries, start, is_clean=cluster.was_clean)
                cluster.was_clean = True
            self.remote.leadership_changed(self.partition)

    async def _keep_house(self) -> None:
        """Run retention, checkpoints and flushes of sealed segments."""
        clock = self.cluster.clock
        while True:
            await asyncio.sleep(0.05)
            self.logs.delete_old_segments(clock.now_ms(), clock.monotonic_ms())
            self.logs.delete_due_files(clock.now_ms())
            self.flusher.want(self.log)

    async def _keep_in_sync(self) -> None:
        """As leader, take replicas that fell behind out of the in-sync set, and put replicas that caught up into it."""
        while True:
            await asyncio.sleep(0.03)
            partition, cluster = self.partition, self.cluster
            if not partition.is_leader:
                continue
            behind = partition.fallen_behind(cluster.clock.monotonic_ms())
            joining = [broker_id for broker_id in cluster.brokers if partition.wants_to_expand(broker_id)]
            wanted = tuple(sorted({*partition.isr, *joining} - set(behind)))
            if wanted != tuple(sorted(partition.isr)):
                partition.maximal_isr = tuple(sorted({*partition.isr, *wanted}))
                cluster.alter_isr(self, wanted)


class TierCluster:
    """See the module."""

    def __init__(self, loop: SimLoop, choice: random.Random, config: LogConfig) -> None:
        self.loop: Final = loop
        self.choice: Final = choice
        self.config: Final = config
        self.clock: Final = SimClock(loop)
        self.model: Final = TierModel(has_retention=config.retention_bytes >= 0 or config.retention_ms >= 0)
        self.metadata: Final = SharedMetadata()
        self.store: Final = MemoryObjectStore(now_ms=self.clock.now_ms)
        self.leader_id, self.leader_epoch, self.partition_epoch = NO_LEADER, 0, 0
        self.was_clean = True
        """Whether the last leader was elected from the in-sync set."""
        self.is_deleted = False
        self.is_eager = choice.random() < 0.3
        """Whether new replicas begin with the last tiered offset (KIP-1023)."""
        self.brokers: Final = {number: TierBroker(self, number) for number in (1, 2, 3)}
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.done: Final[dict[str, int]] = {}

    def count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    @property
    def leader(self) -> TierBroker | None:
        """The leader, if it knows that it leads."""
        broker = self.brokers.get(self.leader_id)
        is_ready = broker is not None and broker.is_up and broker.is_ready and not self.is_deleted
        return broker if is_ready and broker is not None and broker.partition.leader_epoch == self.leader_epoch else None

    def eligible(self) -> dict[int, int]:
        return {broker.id: broker.lives for broker in self.brokers.values() if broker.is_up}

    def image(self) -> MetadataImage:
        topics = {} if self.is_deleted else {WHERE.topic: WHERE.topic_id}
        return with_topics({REMOTE_LOG_METADATA_TOPIC: METADATA_TOPIC_ID, **topics})

    # The controller

    def elect(self, *, is_unclean: bool = False, other_than: int = NO_LEADER) -> None:
        """Elect a living broker of the in-sync set, or any living broker if `is_unclean`; none if there is no candidate."""
        alive = [broker_id for broker_id in self.brokers if self.brokers[broker_id].is_up]
        candidates = [each for each in (alive if is_unclean else self.isr) if each in alive]
        preferred = [each for each in candidates if each != other_than] or candidates
        self.leader_id = self.choice.choice(preferred) if preferred else NO_LEADER
        self.leader_epoch += 1
        if is_unclean and self.leader_id not in self.isr:
            self.was_clean = False
            self.isr = (self.leader_id,)
            self.count("unclean elections")
        self._commit()

    def alter_isr(self, leader: TierBroker, isr: tuple[int, ...]) -> None:
        """AlterPartition.  Only the leader of this epoch may ask, and only brokers that run may join."""
        partition = leader.partition
        if (leader.id, partition.leader_epoch, partition.partition_epoch) == (self.leader_id, self.leader_epoch, self.partition_epoch):
            self.isr = tuple(each for each in isr if each in self.isr or self._has_fetched(leader, self.brokers[each]))
            self._commit()
            leader.apply()
        else:
            partition.maximal_isr = partition.isr

    @staticmethod
    def _has_fetched(leader: TierBroker, broker: TierBroker) -> bool:
        """Tells whether a broker has fetched in its present life.  Fetches before its last crash prove nothing (KIP-903)."""
        return broker.is_up and leader.partition.followers[broker.id].broker_epoch == broker.lives

    def broker_is_gone(self, broker: TierBroker) -> None:
        """Take a dead broker out of the in-sync set, unless it is the last one: no other could lead."""
        if broker.id in self.isr and len(self.isr) > 1:
            self.isr = tuple(each for each in self.isr if each != broker.id)
        if self.leader_id == broker.id:
            self.elect()
        else:
            self._commit()

    def broker_is_back(self, broker: TierBroker) -> None:
        if self.leader_id == NO_LEADER and broker.id in self.isr:
            self.elect()
        else:
            self._commit()

    def _commit(self) -> None:
        self.partition_epoch += 1
        for broker in self.brokers.values():
            delay_s = self.choice.random() * (0.6 if self.choice.random() < 0.15 else 0.01)
            self.loop.call_later(delay_s, self._tell, broker, broker.machine)

    def _tell(self, broker: TierBroker, machine: Machine) -> None:
        if broker.machine is machine and machine.is_alive and broker.is_ready:
            self.loop.start(machine, _calling(broker.apply))


async def _calling(work: Callable[[], object]) -> None:
    work()


# From leader to follower


class LeaderLine:
    """A follower's questions to its leader: a `tier_start.Leader`."""

    def __init__(self, leader: TierBroker, leader_epoch: int, choice: random.Random) -> None:
        self._leader: Final = leader
        self._leader_epoch: Final = leader_epoch
        self._choice: Final = choice

    async def asked(self) -> Partition:
        """The leader's partition, after the time of a request.  Errors: KafkaError."""
        await asyncio.sleep(self._choice.random() * 0.01)
        if not self._leader.is_up or not self._leader.is_ready:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        refusal = self._leader.partition.refusal_of(self._leader_epoch, from_leader_only=True)
        if refusal:
            raise KafkaError(refusal)
        return self._leader.partition

    async def earliest_offset(self) -> OffsetAndEpoch:
        log = (await self.asked()).log
        return OffsetAndEpoch(log.log_start_offset, log.epochs.epoch_for_offset(log.log_start_offset))

    async def earliest_local_offset(self) -> OffsetAndEpoch:
        log = (await self.asked()).log
        return OffsetAndEpoch(log.local_log_start_offset, log.epochs.epoch_for_offset(log.local_log_start_offset))

    async def earliest_pending_upload_offset(self) -> OffsetAndEpoch:
        log = (await self.asked()).log
        if log.copied_offset == 0 and log.local_log_start_offset > log.log_start_offset:
            return OffsetAndEpoch(-1, -1)
        offset = max(log.copied_offset, log.log_start_offset)
        return OffsetAndEpoch(offset, log.epochs.epoch_for_offset(offset))

    async def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return (await self.asked()).log.end_offset_for_epoch(epoch)


async def follow(broker: TierBroker, choice: random.Random) -> None:
    """Follow the leader for as long as the broker lives."""
    cluster, partition = broker.cluster, broker.partition
    while True:
        await asyncio.sleep(0.001 + choice.random() * 0.02)
        leader = cluster.brokers.get(partition.leader_id)
        if partition.is_leader or leader is None or broker.is_cut_off or leader.is_cut_off or not leader.is_up:
            continue
        try:
            await _fetch(broker, leader, choice)
        except (KafkaError, OSError):  # errors of the leader or the store, because disks do not fail here
            continue
        except NotYet:
            cluster.count("not yet")


async def _fetch(broker: TierBroker, leader: TierBroker, choice: random.Random) -> None:
    partition, log = broker.partition, broker.log
    epoch, offset, truncations = partition.leader_epoch, log.log_end_offset, log.truncations
    while not log.is_flushed:
        broker.flusher.want(log)
        await asyncio.sleep(0.001)
        if log.truncations != truncations or log.log_end_offset != offset:
            return
    if log.log_start_offset != broker.noted_start:
        broker.logs.write_checkpoints()
        broker.noted_start = log.log_start_offset
    line = LeaderLine(leader, epoch, choice)
    last_epoch = log.epochs.latest_epoch
    led = await line.asked()
    found = led.read(offset, FETCH_BYTES, Isolation.LOG_END, min_one_batch=True, last_fetched_epoch=last_epoch)
    if not found.error_code and found.diverging_epoch.epoch < 0 and broker.id in led.followers:
        steady_ms = broker.cluster.clock.monotonic_ms()
        led.follower_fetched(broker.id, offset=offset, log_start_offset=log.log_start_offset, broker_epoch=broker.lives, now_ms=steady_ms)
    content = found.records.read() if isinstance(found.records, FileSlice) else bytes(found.records or b"")
    await asyncio.sleep(choice.random() * 0.01)
    if (partition.leader_epoch, log.log_end_offset, log.truncations) == (epoch, offset, truncations) and not partition.is_leader:
        await _take(broker, line, found, content)


async def _take(broker: TierBroker, line: LeaderLine, found: PartitionData, content: bytes) -> None:
    """Take the leader's answer in."""
    cluster, log, logs = broker.cluster, broker.log, broker.logs
    now_ms = cluster.clock.now_ms()
    match found.error_code:
        case ErrorCode.NONE if found.diverging_epoch.epoch >= 0:
            diverging = found.diverging_epoch
            logs.truncate_to(log, truncation_offset(log, EpochEnd(diverging.epoch, diverging.end_offset)), now_ms)
            cluster.count("truncations")
        case ErrorCode.NONE:
            if content:
                epoch, start = broker.partition.leader_epoch, found.log_start_offset
                result = append_fetched(logs, log, bytearray(content), leader_epoch=epoch, leader_start_offset=start, now_ms=now_ms)
                if isinstance(result, AppendFailure):
                    cluster.model.violated(f"{broker!r} cannot append what its leader sent: {result}")
            broker.partition.heard_from_leader(high_watermark=found.high_watermark, log_start_offset=found.log_start_offset)
        case ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            if broker.id in cluster.isr and cluster.was_clean and len(cluster.isr) > 1:
                cluster.count("in sync, but far behind")
            await begin_after_tier(
                broker.partition, line, broker.remote, logs, now_ms, at_last_tiered=cluster.is_eager and log.log_end_offset == 0
            )
            cluster.count("begun after the tier")
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            await _out_of_range(broker, line)


async def _out_of_range(broker: TierBroker, line: LeaderLine) -> None:
    log, epoch = broker.log, broker.partition.leader_epoch
    end, start = (await line.asked()).log.log_end_offset, (await line.earliest_offset()).offset
    if broker.partition.leader_epoch != epoch or broker.partition.is_leader:
        return
    begin_in_range(broker.logs, log, leader_start_offset=start, leader_end_offset=end, now_ms=broker.cluster.clock.now_ms())
    broker.cluster.count("out of range")
