"""● Puts together the parts that a broker's handlers use: coordinators, share partitions, sessions.

The node, the tests, the simulations and the benchmarks all build a broker here; they differ in the arguments.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from moldau.clock import Clock
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.features import TRANSACTION_VERSION
from moldau.metadata.image import EMPTY, BrokerRegistration, MetadataImage
from moldau.metadata.loader import Loader
from moldau.raft.driver import RaftDriver
from moldau.replication.manager import ReplicaManager
from moldau.replication.share.config import SharePartitionConfig
from moldau.server.coordinators.coordinators import Coordinators
from moldau.server.coordinators.producer_ids import Allocate, ProducerIds
from moldau.server.node.config import NodeConfig
from moldau.server.node.log_mover import LogMover
from moldau.server.peers.brokers import Brokers
from moldau.server.peers.controller import ControllerCalls, create_internal_topic
from moldau.server.requests.broker import Broker, ClusterView
from moldau.server.requests.cluster_view import TopicsView
from moldau.server.requests.dispatch import Api
from moldau.server.requests.fetch_session import FetchSessionCache
from moldau.server.share.dead_letters import DeadLetters, LettersTopic
from moldau.server.share.partitions import SharePartitions
from moldau.server.share.sessions import ShareSessions
from moldau.server.tier.manager import RemoteLogManager
from moldau.storage.files import Files
from moldau.storage.manager import LogManager
from moldau.types import usable_uuid

MAX_SESSION_ID: Final = (1 << 31) - 1


def assemble(
    *,
    config: NodeConfig,
    cluster_id: str,
    schema: ConfigSchema,
    files: Files,
    clock: Clock,
    random: Random,
    controller: ControllerCalls,
    allocate_producer_ids: Allocate,
    loader: Loader,
    cluster: ClusterView,
    replicas: ReplicaManager,
    brokers: Brokers,
    logs: LogManager,
    mover: LogMover,
    remote: RemoteLogManager | None = None,
    raft: RaftDriver | None = None,
    apis: Mapping[str, Mapping[int, Api]] | None = None,
    listed_brokers: Callable[[MetadataImage], Iterable[BrokerRegistration]] = MetadataImage.alive_brokers,
) -> Broker:
    """A broker that knows no topics yet; the publisher tells it of them."""
    create_topic = partial(create_internal_topic, controller, timeout_ms=config.server.request_timeout_ms)
    producer_ids = ProducerIds(allocate_producer_ids)

    def new_uuid() -> UUID:
        return usable_uuid(lambda: UUID(int=random.getrandbits(128), version=4))

    def group_values(group_id: str) -> Mapping[str, Any]:
        return schema.group_values(loader.image, group_id)

    def letters_topic(name: str) -> LettersTopic | None:
        found = loader.image.topics.get(name)
        return None if found is None else LettersTopic(found.id, len(found.partitions), schema.log_config(loader.image, name))

    coordinators = Coordinators(
        group_config=config.of(GroupCoordinatorConfig),
        transaction_config=config.of(TransactionConfig),
        share_config=config.of(ShareCoordinatorConfig),
        topics=TopicsView(EMPTY),
        transaction_version=lambda: loader.image.features.get(TRANSACTION_VERSION, 0),
        clock=clock,
        new_uuid=new_uuid,
        replicas=replicas,
        brokers=brokers,
        producer_ids=producer_ids,
        create_topic=create_topic,
        create_topics=controller.ask,
    )
    share_config = config.of(SharePartitionConfig)
    dead_letters = DeadLetters(
        config=share_config,
        replicas=replicas,
        clock=clock,
        files=files,
        group_values=group_values,
        topic_of=letters_topic,
        create_topic=create_topic,
        brokers=brokers,
    )
    shares = SharePartitions(
        config=share_config,
        replicas=replicas,
        clock=clock,
        states=coordinators.share_persister,
        group_values=group_values,
        bury=dead_letters.bury,
    )
    return Broker(
        config=config,
        cluster_id=cluster_id,
        schema=schema,
        controller=controller,
        raft=raft,
        loader=loader,
        files=files,
        clock=clock,
        cluster=cluster,
        replicas=replicas,
        logs=logs,
        mover=mover,
        fetch_sessions=FetchSessionCache(
            config.server.max_incremental_fetch_session_cache_slots, lambda: random.randint(1, MAX_SESSION_ID)
        ),
        producer_ids=producer_ids,
        coordinators=coordinators,
        shares=shares,
        share_sessions=ShareSessions(share_config.max_share_sessions, shares.forget_group),
        listed_brokers=listed_brokers,
        remote=remote,
        apis=apis or {},
    )
