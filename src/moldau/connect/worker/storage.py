"""● The storage of a worker, and the others who work with it: the one difference between a worker in a group and a worker alone."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from moldau.clients.admin import Admin
from moldau.clients.cluster import Cluster
from moldau.clients.producer import Producer
from moldau.connect.errors import ConfigError
from moldau.connect.store.log import Log, Replay
from moldau.connect.store.topic_log import TopicLog, ensure_topic
from moldau.connect.worker.membership import Membership, Owner
from moldau.connect.worker.options import WorkerOptions

KINDS: Final = ("config", "status", "offset")


class Logs(NamedTuple):
    config: Log
    status: Log
    offset: Log


class Member(Protocol):
    generation: int

    async def start(self) -> None:
        """Ask for units.  A worker alone has them when this returns."""

    def rejoin(self) -> None:
        """The units to run have changed: let them be assigned anew."""

    async def close(self) -> None: ...


class Storage(Protocol):
    is_alone: bool
    """There are no other workers."""

    async def open(self, replays: Mapping[str, Replay]) -> Logs:
        """`replays`: one for each of KINDS.  The logs are not started.  Errors: ConnectError, KafkaError."""

    def member(self, owner: Owner) -> Member: ...

    async def flush(self) -> None:
        """Wait for the records that were posted."""

    async def close(self) -> None:
        """Behind the logs."""


class TopicStorage:
    """Three topics, and a group of workers."""

    is_alone = False

    def __init__(self, options: WorkerOptions, cluster: Cluster) -> None:
        self._options = options
        self._cluster = cluster
        self._producer: Producer | None = None

    async def open(self, replays: Mapping[str, Replay]) -> Logs:
        await self._ensure_topics()
        own = {**self._options.client("producer"), "acks": "all", "linger.ms": "0"}
        producer = self._producer = await Producer(self._cluster, own).start()

        def log(kind: str) -> TopicLog:
            return TopicLog(self._cluster.sibling(), producer, self._options[f"{kind}.storage.topic"], replays[kind])

        return Logs(*map(log, KINDS))

    async def _ensure_topics(self) -> None:
        """Errors: ConnectError, KafkaError."""
        options, partitions = self._options, {"config": 1}
        partitions |= {kind: options[f"{kind}.storage.partitions"] for kind in ("offset", "status")}
        async with Admin(self._cluster) as admin:
            for kind, count in partitions.items():
                topic, factor = options[f"{kind}.storage.topic"], options[f"{kind}.storage.replication.factor"]
                await ensure_topic(admin, topic, partitions=count, replication_factor=factor, configs=options.settings_of(kind))
        topic = options["config.storage.topic"]
        if len((await self._cluster.refresh([topic])).partitions_of(topic)) != 1:
            raise ConfigError(f"config.storage.topic {topic} must have exactly one partition: name another topic, or make this one anew")

    def member(self, owner: Owner) -> Membership:
        return Membership(self._cluster, self._options, owner)

    async def flush(self) -> None:
        assert self._producer is not None
        await self._producer.flush()

    async def close(self) -> None:
        """Errors: KafkaError."""
        if self._producer is not None:
            await self._producer.close()
