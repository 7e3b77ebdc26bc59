"""● What handlers work with: the parts of one node, and short answers out of its metadata."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import ErrorCode
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.controller import Controller
from moldau.metadata.loader import Loader
from moldau.replication.manager import ReplicaManager
from moldau.server.endpoints import Endpoint
from moldau.server.fetch_session import FetchSessionCache
from moldau.server.log_mover import LogMover
from moldau.server.node_config import NodeConfig
from moldau.server.producer_ids import ProducerIds
from moldau.server.share_session import ShareSessions
from moldau.storage.files import Files
from moldau.storage.manager import LogManager
from moldau.types import INTERNAL_TOPICS

if TYPE_CHECKING:
    from moldau.server.coordinators import Coordinators
    from moldau.server.dispatch import Api
    from moldau.server.remote_log import RemoteLogManager
    from moldau.server.share_partitions import SharePartitions


LOG: Final = logging.getLogger(__name__)

COMPLAIN_EVERY_MS: Final = 1000


class Leader(NamedTuple):
    """Who leads a partition; the address is that of the listener on which the question came."""

    leader_id: int
    leader_epoch: int
    endpoint: Endpoint | None
    rack: str | None


class Features(NamedTuple):
    """Levels that this broker can work with, and those that the cluster has decided on at `epoch`."""

    supported: Mapping[str, range]
    finalized: Mapping[str, int]
    epoch: int


class ClusterView(Protocol):
    """What handlers of the data plane ask of the metadata."""

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def has_partition(self, topic: str, index: int) -> bool: ...

    def leader_of(self, topic: str, index: int, listener: str) -> Leader: ...

    def features(self) -> Features: ...


@dataclass(kw_only=True, slots=True)
class Broker:
    """See the module.  `node.py` puts it together."""

    config: NodeConfig
    cluster_id: str
    controller: Controller
    loader: Loader
    files: Files
    clock: Clock
    cluster: ClusterView
    replicas: ReplicaManager
    logs: LogManager
    mover: LogMover
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    coordinators: "Coordinators"
    shares: "SharePartitions"
    share_sessions: ShareSessions
    remote: "RemoteLogManager | None" = None
    """Where there is tiered storage."""
    apis: Mapping[str, "Mapping[int, Api]"] = field(default_factory=dict)
    """What each listener serves, by listener name and api key."""
    complained_ms: int = -COMPLAIN_EVERY_MS

    @property
    def schema(self) -> ConfigSchema:
        """Which options there are, and which values hold."""
        return self.controller.config.schema

    def any_broker_id(self) -> int:
        """Whom clients may take for the controller: any broker forwards to it.  -1 while there is none."""
        return next((broker.id for broker in self.loader.image.alive_brokers()), -1)

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    def refusal_of_absent(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not here: nobody has it, or somebody else does."""
        is_known = self.cluster.has_partition(topic, index)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def complain(self, what: str) -> None:
        """A fault of the disk under a request: told in the log, once a second at most."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self.complained_ms >= COMPLAIN_EVERY_MS:
            self.complained_ms = now_ms
            LOG.error("%s", what)
