"""● A broker of a schedule: its disk, its replica and its follower, one life after another.  `schedules.py` takes each step of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import FetchResponse
from moldau.replication.catch_up import begin_following
from moldau.replication.config import ReplicationConfig
from moldau.replication.follower import Followed, Follower
from moldau.replication.isr import IsrProposal
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.storage.config import LogConfig
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition

WHERE: Final = TopicPartition("t", 0)
TOPIC_ID: Final = UUID(int=9)
WALL_MS: Final = 1_750_000_000_000
LAG_MS: Final = 500
CONFIG: Final = ReplicationConfig.load({"replica.fetch.backoff.ms": "20", "replica.fetch.wait.max.ms": "100"})
LOG_CONFIG: Final = LogConfig.load({"min.insync.replicas": "2", "log.flush.policy": "ack", "log.segment.bytes": "1048576"})


@dataclass(slots=True)
class UnderWay:
    """A follower's fetch that was answered and has not arrived."""

    leader_id: int
    response: FetchResponse


class Decided(NamedTuple):
    """The controller's answer to a proposal."""

    proposal: IsrProposal
    code: ErrorCode
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Broker:
    """A broker with one life after another on one disk."""

    def __init__(self, broker_id: int, choice: Random, epochs: Iterator[int]) -> None:
        """`epochs`: the broker epochs of the cluster, a new one for each life."""
        self.id: Final = broker_id
        self._choice: Final = choice
        self._epochs: Final = epochs
        self.files: MemoryFiles
        self.lose_disk()
        self._loaded_end = 0
        self.is_up = False
        self.epoch = 0
        self.replicas: ReplicaManager
        self.partition: Partition
        self.logs: LogManager
        self.follower: Follower
        self.followed: Followed | None = None
        self.answer: UnderWay | None = None
        self.proposal: IsrProposal | None = None
        """The proposal for the controller."""
        self.asked: IsrProposal | None = None
        """The proposal under way to the controller."""
        self.decided: Decided | None = None
        """The controller's answer under way."""

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def durable_end(self) -> int:
        """The log end that was on its disk when it started."""
        return max(self.log.recovery_point, self._loaded_end)

    def start(self) -> None:
        self.epoch = next(self._epochs)
        self.is_up = True
        self.logs = LogManager(self.files, ["/d"], LOG_CONFIG, unique=lambda: UUID(int=self._choice.getrandbits(128)))
        self.logs.open(WALL_MS)
        self.logs.load_all(lambda topic: LOG_CONFIG, WALL_MS)
        log = self.logs.get(WHERE) or self.logs.get_or_create(WHERE, LOG_CONFIG, now_ms=WALL_MS, topic_id=TOPIC_ID)
        self.replicas = ReplicaManager(
            local_id=self.id, lag_time_max_ms=LAG_MS, on_flush_wanted=lambda log: None, on_earlier_timeout=lambda due_ms: None
        )
        self.replicas.peers = self
        self.partition = self.replicas.host(WHERE, TOPIC_ID, log)
        self._loaded_end = log.log_end_offset
        self.follower = Follower(local_id=self.id, config=CONFIG)
        self.followed = self.answer = self.proposal = self.asked = self.decided = None

    def crash(self, *, with_power: bool) -> None:
        self.is_up = False
        if with_power:
            self.files.crash(self._choice)
        self.files.held_locks.clear()

    def lose_disk(self) -> None:
        self.files = MemoryFiles()
        self.files.mkdir("/d")
        self.files.sync_dir("/")

    def sync(self) -> None:
        self.log.flush()
        self.replicas.log_flushed(self.log)

    # Peers of its replicas

    def follow(self, partition: Partition) -> None:
        known = self.follower.get(partition)
        if known is None or not known.is_current:
            begin_following(self.logs, partition, WALL_MS)
            self.followed = self.follower.add(partition)
            self.answer = None

    def leave(self, partition: Partition) -> None:
        self.follower.remove(partition)
        self.followed = self.answer = None

    def flushed(self, partition: Partition) -> None:
        pass

    def propose(self, partition: Partition) -> None:
        self.proposal = partition.proposal
