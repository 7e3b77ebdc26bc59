"""● The parts of one node that handlers use, and short answers from its metadata."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import ErrorCode
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.image import BrokerRegistration, MetadataImage
from moldau.metadata.loader import Loader
from moldau.raft.driver import RaftDriver
from moldau.replication.manager import ReplicaManager
from moldau.server.coordinators.producer_ids import ProducerIds
from moldau.server.node.config import NodeConfig
from moldau.server.node.log_mover import LogMover
from moldau.server.requests.endpoints import Endpoint
from moldau.server.requests.fetch_session import FetchSessionCache
from moldau.server.share.sessions import ShareSessions
from moldau.storage.files import Files
from moldau.storage.manager import LogManager
from moldau.types import INTERNAL_TOPICS

if TYPE_CHECKING:
    from moldau.server.coordinators.coordinators import Coordinators
    from moldau.server.peers.controller import ControllerCalls
    from moldau.server.requests.dispatch import Api
    from moldau.server.share.partitions import SharePartitions
    from moldau.server.tier.manager import RemoteLogManager


LOG: Final = logging.getLogger(__name__)

COMPLAIN_EVERY_MS: Final = 1000


class Leader(NamedTuple):
    """The leader of a partition; the address is that of the listener on which the request came."""

    leader_id: int
    leader_epoch: int
    endpoint: Endpoint | None
    rack: str | None


class Features(NamedTuple):
    """The levels that this broker supports, and those that the cluster has finalized at `epoch`."""

    supported: Mapping[str, range]
    finalized: Mapping[str, int]
    epoch: int


class ClusterView(Protocol):
    """The metadata that handlers of the data plane need."""

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def has_partition(self, topic: str, index: int) -> bool: ...

    def leader_of(self, topic: str, index: int, listener: str) -> Leader: ...

    def features(self) -> Features: ...


@dataclass(kw_only=True, slots=True)
class Services:
    """The parts that handlers of every listener use; those of a controller's listener use only these."""

    config: NodeConfig
    cluster_id: str
    schema: ConfigSchema
    """The schema of options and their valid values."""
    controller: "ControllerCalls"
    """The controller of this process on a controller's listener; on a broker's the active one, wherever it is."""
    raft: RaftDriver | None
    """The replica of the metadata log of this process."""
    loader: Loader
    clock: Clock
    cluster: ClusterView
    apis: Mapping[str, "Mapping[int, Api]"]
    """The APIs of each listener, by listener name and api key."""

    def any_broker_id(self) -> int:
        """A broker that clients may take for the controller: any broker forwards to it.  -1 while there is none."""
        return next((broker.id for broker in self.loader.image.alive_brokers()), -1)


@dataclass(kw_only=True, slots=True)
class Broker(Services):
    """The parts that handlers of a broker's listeners use: partitions, coordinators and sessions.  `node/assembly.py` puts it together."""

    files: Files
    replicas: ReplicaManager
    logs: LogManager
    mover: LogMover
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    coordinators: "Coordinators"
    shares: "SharePartitions"
    share_sessions: ShareSessions
    listed_brokers: Callable[[MetadataImage], Iterable[BrokerRegistration]] = MetadataImage.alive_brokers
    """The brokers that clients are told of."""
    remote: "RemoteLogManager | None" = None
    """Tiered storage, if it is on."""
    complained_ms: int = -COMPLAIN_EVERY_MS

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    def refusal_of_absent(self, topic: str, index: int) -> ErrorCode:
        """The error for a partition that is not here: it does not exist, or another broker has it."""
        is_known = self.cluster.has_partition(topic, index)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def complain(self, what: str) -> None:
        """Log a fault of the disk under a request, once a second at most."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self.complained_ms >= COMPLAIN_EVERY_MS:
            self.complained_ms = now_ms
            LOG.error("%s", what)
