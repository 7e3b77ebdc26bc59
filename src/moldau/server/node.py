"""● One process: broker, controller or both, put together and brought up and down in the right order.

    start   take the folders → open the listeners (requests wait) → metadata log and controller → recover the logs → register → catch up →
            unfenced → answer what waits
    stop    hand over → no new requests → answer what waits → sync and close the logs, checkpoints, .kafka_cleanshutdown → metadata log

Everything comes from outside: options, files, network, clock, random numbers.  So the same node runs on a simulated loop.
Whatever happens from time to time is a timer of the loop: retention, checkpoints, flushes by age, producers that expire, time-outs.

Source: KafkaRaftServer, SharedServer, BrokerServer, ControllerServer.  Called by `process.py`, and by `moldau.testing`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from moldau.clock import Clock
from moldau.config import ConfigError
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.controller import Controller, ControllerConfig, idle_interval_ms
from moldau.metadata.delta import Delta
from moldau.metadata.features import supported_ranges
from moldau.metadata.formatting import read_bootstrap
from moldau.metadata.image import EMPTY, MetadataImage
from moldau.metadata.loader import Loader
from moldau.metadata.topics import TopicRules
from moldau.net.connection import Dispatch
from moldau.net.transport import Network
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.roles import CorruptQuorumState
from moldau.raft.snapshots import CorruptSnapshot
from moldau.raft.voters import Address, VoterSet
from moldau.replication.manager import ReplicaManager
from moldau.replication.share.config import SharePartitionConfig
from moldau.server.accepted import is_fixed
from moldau.server.broker import Broker
from moldau.server.cluster_view import ImageView, TopicsView
from moldau.server.config import ServerConfig
from moldau.server.coordinators import Coordinators
from moldau.server.directory_assignments import DirectoryAssignments
from moldau.server.dispatch import Dispatcher
from moldau.server.fetch_session import FetchSessionCache
from moldau.server.folders import StartRefused, check_folders, is_stray
from moldau.server.handlers import MODULES
from moldau.server.handlers.registry import apis_of
from moldau.server.housekeeping import Housekeeping
from moldau.server.lifecycle import BrokerLifecycle, Patience, RegistrationFailed
from moldau.server.listeners import Listeners
from moldau.server.log_loading import LogLoading, SeveralDamaged
from moldau.server.log_mover import LogMover
from moldau.server.node_config import ROOMS, NodeConfig
from moldau.server.producer_ids import ProducerIds
from moldau.server.publisher import Publisher
from moldau.server.registrations import register_broker, register_controller
from moldau.server.remote_log import RemoteLogManager
from moldau.server.remote_metadata import RemoteMetadata
from moldau.server.share_dead_letters import DeadLetters
from moldau.server.share_partitions import SharePartitions
from moldau.server.share_session import ShareSessions
from moldau.storage.checkpoints import MetaProperties, read_meta_properties
from moldau.storage.config import CleanerConfig
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.files import Files, LockHeld
from moldau.storage.flusher import Flusher
from moldau.storage.log import Log
from moldau.storage.manager import DuplicateLog, LogManager
from moldau.storage.recovery import LogDamaged
from moldau.storage.tiered.config import RemoteLogConfig
from moldau.storage.tiered.store import Obstore
from moldau.types import usable_uuid, uuid_to_text

LOG: Final = logging.getLogger(__name__)

MAX_SESSION_ID: Final = (1 << 31) - 1
SHUTDOWN_PATIENCE_MS: Final = 10_000
DAMAGES: Final = (CorruptCheckpoint, CorruptQuorumState, CorruptSnapshot, DuplicateLog, LogDamaged, SeveralDamaged)
"""Files that cannot be as they are; the text names the file, what is wrong and the way out."""


class Node:
    """See the module.  `start` once, `stop` once."""

    def __init__(self, config: NodeConfig, *, files: Files, network: Network, clock: Clock, random: Random) -> None:
        self.config: Final = config
        self.files: Final = files
        self.network: Final = network
        self.clock: Final = clock
        self.random: Final = random
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Set when the node cannot go on: a disk that it needs is gone."""
        self.tell: Callable[[str], None] = LOG.info
        """Gets a line now and then while the start takes long."""
        self.logs = LogManager(files, config.log_dirs, config.log, unique=self._new_uuid)
        own_folder = [config.metadata_log_dir] if config.metadata_log_dir not in config.log_dirs else []
        self._metadata_folder: Final = LogManager(files, own_folder, config.log, unique=self._new_uuid) if own_folder else None
        """That of the metadata log, where it is none of log.dirs."""
        self.schema = ConfigSchema(config.properties, ROOMS, node_id=config.node_id, is_fixed=is_fixed)
        self.flusher = Flusher(files, self._log_flushed)
        self.replicas = ReplicaManager(
            local_id=config.node_id,
            lag_time_max_ms=config.server.replica_lag_time_max_ms,
            on_flush_wanted=self.flusher.want,
            on_earlier_timeout=self._arm_timeouts,
        )
        self.listeners: Final = Listeners(network, config.server)
        self._timer: asyncio.TimerHandle | None = None
        self._cluster_id: str
        self._directory_ids: dict[str, UUID]
        """Of every folder that could be read."""
        self._driver: RaftDriver
        self._loader: Loader
        self._controller: Controller
        self._lifecycle: BrokerLifecycle
        self._housekeeping: Housekeeping
        self._assignments: DirectoryAssignments
        self._mover: LogMover
        self._publisher: Publisher
        self._is_publishing = False
        self._incarnation_id: UUID
        self._coordinators: Coordinators
        self._producer_ids: Final = ProducerIds(self._allocate_producer_ids)
        self._remote: RemoteLogManager | None = None
        self._shares: SharePartitions
        self._started: list[str] = []

    # ---------------------------------------------------------------- up

    async def start(self) -> None:
        """Returns once clients are served.  Errors: StartRefused, OSError."""
        try:
            await self._start()
        except DAMAGES as error:
            await self.stop()
            raise StartRefused(str(error)) from error
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._take_folders()
        await self.listeners.open(self.config.listeners)
        await self._start_metadata()
        self._put_together()
        if self.config.is_broker:
            self._check_tiered_topics()
            await self._recover_logs()
            self._loader.add_publisher(self._publish)
            self._started.append("publisher")
            await self._join()
            self._housekeeping.start()
            self._mover.resume()
            self._started.append("housekeeping")
            if self._remote is not None:
                self._remote.start()
        self.listeners.serve(self._dispatchers())

    def _take_folders(self) -> None:
        if not self.config.is_controller:
            raise StartRefused("process.roles: a broker without a controller is not served yet: set broker,controller")
        managers = [self.logs, *([self._metadata_folder] if self._metadata_folder is not None else ())]
        # Before they are taken: what is not this node's stays as it was found.
        self._cluster_id = check_folders(
            self._metas([directory.path for each in managers for directory in each.directories]), self.config.node_id
        )
        try:
            for manager in managers:
                manager.open(self.clock.now_ms())
        except LockHeld as error:
            folder = str(error.filename or "").rpartition("/")[0]
            raise StartRefused(f"{folder} is in use by another process: stop that one, or give this node folders of its own") from error
        self._started.append("folders")
        self.logs.on_directory_failure = self._directory_failed
        self._directory_ids = {path: number for each in managers for path, number in each.name_directories(self._new_uuid).items()}
        for directory in self.logs.directories:
            if directory.failure is not None:
                LOG.error("%s is offline: %s", directory.path, directory.failure)

    def _metas(self, paths: Sequence[str]) -> dict[str, MetaProperties | None]:
        """Of the folders that can be read."""
        metas = {}
        for path in paths:
            try:
                metas[path] = read_meta_properties(self.files, path)
            except OSError as error:
                LOG.error("%s cannot be read: %s", path, error)
        return metas

    async def _start_metadata(self) -> None:
        quorum = self.config.of(QuorumConfig)
        self._loader = Loader(self.clock)
        self._driver = RaftDriver(
            files=self.files,
            clock=self.clock,
            directory=self.config.metadata_log_dir,
            node_id=self.config.node_id,
            directory_id=self._directory_ids[self.config.metadata_log_dir],
            config=quorum,
            static_voters=self._static_voters(quorum),
            addresses=self._voter_addresses(quorum),
            on_failure=self._fail,
        )
        server = self.config.server
        rules = TopicRules(
            schema=self.schema,
            num_partitions=server.num_partitions,
            replication_factor=server.default_replication_factor,
            new_id=self._new_uuid,
            chance=self.random,
        )
        self._controller = Controller(
            self._driver,
            self._loader,
            self.clock,
            ControllerConfig(
                cluster_id=self._cluster_id,
                session_timeout_ms=server.broker_session_timeout_ms,
                delete_topic_enable=server.delete_topic_enable,
                rules=rules,
                idle_interval_ms=idle_interval_ms(self.config.properties, quorum.max_idle_interval_ms, 1),
            ),
            bootstrap=read_bootstrap(self.files, self.config.metadata_log_dir),
        )
        await self._driver.start(self._loader)
        self._started.append("metadata")
        if not self._driver.is_lone_voter:
            raise StartRefused(_who_votes(self.config.node_id, self.config.metadata_log_dir, self._driver.node.voters))
        await self._unless_failed(self._controller.wait_until_active())
        await self._controller.register_controller(register_controller(self.config, self.listeners.ports, self._new_uuid()))

    async def _unless_failed(self, work: Coroutine[None, None, object]) -> None:
        """Nobody waits for what will never come: the disk of the metadata is broken, or this node cannot do what they say.

        Errors: StartRefused, and those of `work`.
        """
        task = asyncio.get_running_loop().create_task(work)

        def give_up(_: object) -> None:
            task.cancel()

        self.failed.add_done_callback(give_up)
        try:
            await task
        except asyncio.CancelledError:
            if self.failed.done():
                raise StartRefused(f"the metadata cannot be followed: {self.failed.result()}") from None
            raise
        finally:
            self.failed.remove_done_callback(give_up)

    def _static_voters(self, quorum: QuorumConfig) -> VoterSet | None:
        return VoterSet.from_option(quorum.voters, self.config.controller_names[0]) if quorum.voters else None

    def _voter_addresses(self, quorum: QuorumConfig) -> tuple[Address, ...]:
        """Where other voters reach this one.  A fixed set says so itself, and a port that the system is to choose says nothing."""
        found = [] if quorum.voters else self.config.advertised_controller_listeners
        return tuple(Address(one.name, one.host, one.port) for one in found) if all(one.port for one in found) else ()

    def _put_together(self) -> None:
        config = self.config
        self._coordinators = Coordinators(
            group_config=config.of(GroupCoordinatorConfig),
            transaction_config=config.of(TransactionConfig),
            share_config=config.of(ShareCoordinatorConfig),
            topics=TopicsView(EMPTY),
            clock=self.clock,
            new_uuid=self._new_uuid,
            replicas=self.replicas,
            producer_ids=self._producer_ids,
            create_topic=self._create_internal_topic,
            create_topics=self._controller.create_topics,
        )
        self._assignments = DirectoryAssignments(self._controller, broker_id=config.node_id, broker_epoch=lambda: self._lifecycle.epoch)
        self._mover = LogMover(
            self.files,
            self.clock,
            self.logs,
            at_once=config.server.num_replica_alter_log_dirs_threads or len(config.log_dirs),
            bytes_per_second=self._move_bytes_per_second,
            on_moved=self._log_moved,
        )
        self._housekeeping = Housekeeping(
            options=config.server,
            cleaner=config.of(CleanerConfig),
            files=self.files,
            clock=self.clock,
            logs=self.logs,
            flusher=self.flusher,
        )
        self._remote = self._new_remote_log_manager() if config.remote_log.system_enable else None
        self._shares = self._new_share_partitions(config.of(SharePartitionConfig))
        self._publisher = Publisher(
            local_id=config.node_id,
            clock=self.clock,
            logs=self.logs,
            replicas=self.replicas,
            schema=self.schema,
            coordinators=self._coordinators,
            assignments=self._assignments,
            on_failure=self._fail,
            on_options=self._take_options,
            remote=self._remote,
        )
        self._incarnation_id = self._new_uuid()
        self._lifecycle = BrokerLifecycle(
            node_id=config.node_id,
            controller=self._controller,
            metadata_offset=lambda: self._publisher.published_offset,
            offline_dirs=self._offline_dirs,
            patience=Patience(
                config.server.broker_heartbeat_interval_ms,
                config.server.initial_broker_registration_timeout_ms,
                SHUTDOWN_PATIENCE_MS,
            ),
        )

    def _new_remote_log_manager(self) -> RemoteLogManager:
        config = self.config
        try:
            store = Obstore.open(config.store, config.remote_log.storage_prefix)
        except ConfigError as error:
            raise StartRefused(str(error)) from error
        return RemoteLogManager(
            local_id=config.node_id,
            limits=config.remote_log,
            options=config.store,
            store=store,
            metadata=RemoteMetadata(config.remote_log_metadata, self.clock, self._create_internal_topic),
            files=self.files,
            clock=self.clock,
            logs=self.logs,
            replicas=self.replicas,
            image=lambda: self._loader.image,
            new_id=self._new_uuid,
            checkpoint=self._housekeeping.checkpoint,
        )

    def _new_share_partitions(self, config: SharePartitionConfig) -> SharePartitions:
        shares = SharePartitions(
            config=config,
            replicas=self.replicas,
            clock=self.clock,
            states=self._coordinators.share_persister,
            group_values=lambda group_id: self.schema.group_values(self._loader.image, group_id),
        )
        shares.bury = DeadLetters(
            config=config,
            replicas=self.replicas,
            clock=self.clock,
            files=self.files,
            group_values=shares.values,
            partition_count=lambda topic: len(found.partitions) if (found := self._loader.image.topics.get(topic)) is not None else 0,
            create_topic=self._create_internal_topic,
        ).bury
        return shares

    def _dispatchers(self) -> dict[str, Dispatch]:
        """What answers requests, by listener name."""
        config = self.config
        apis = {
            listener: apis_of(MODULES, "controller" if listener in config.controller_names else "broker")
            for listener in self.listeners.ports
        }
        broker = Broker(
            config=config,
            cluster_id=self._cluster_id,
            controller=self._controller,
            loader=self._loader,
            files=self.files,
            clock=self.clock,
            cluster=ImageView(lambda: self._loader.image, supported_ranges(), lambda: self._driver.kraft_version),
            replicas=self.replicas,
            logs=self.logs,
            mover=self._mover,
            fetch_sessions=FetchSessionCache(
                config.server.max_incremental_fetch_session_cache_slots, lambda: self.random.randint(1, MAX_SESSION_ID)
            ),
            producer_ids=self._producer_ids,
            coordinators=self._coordinators,
            remote=self._remote,
            shares=self._shares,
            share_sessions=ShareSessions(config.of(SharePartitionConfig).max_share_sessions, self._shares.forget_group),
            apis=apis,
        )
        return {listener: Dispatcher(broker, served).dispatch for listener, served in apis.items()}

    def _check_tiered_topics(self) -> None:
        """Without tiered storage their older records would silently be gone."""
        image = self._loader.image
        tiered = [name for name in image.topics if self.schema.log_config(image, name).remote_storage_enable]
        if tiered and self._remote is None:
            raise StartRefused(
                f"{', '.join(sorted(tiered)[:5])} keep older records in an object store: set remote.log.storage.system.enable=true again, "
                "with rsm.config.storage.url as it was, or delete these topics before it is switched off"
            )

    async def _recover_logs(self) -> None:
        image = self._loader.image
        for path in await self.files.run(self.logs.set_strays_aside, partial(is_stray, image, self.config.node_id)):
            LOG.warning("the cluster does not know this log: kept as %s", path)
        waiting = list(self.logs.found(lambda topic: self.schema.log_config(image, topic), self.clock.now_ms()))
        loading = LogLoading(
            self.files,
            self.clock,
            self.logs,
            threads_per_directory=self.config.server.num_recovery_threads_per_data_dir,
            tell=self.tell,
        )
        await loading.run(waiting)

    async def _join(self) -> None:
        request = register_broker(
            self.config,
            self.listeners.ports,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            directory_ids=[self._directory_ids[directory.path] for directory in self.logs.directories if directory.is_online],
            previous_broker_epoch=self._previous_epoch(),
        )
        # These folders are locked: whoever was this broker before is gone, and nobody has to wait for the end of his session.
        self._controller.sessions.forget(self.config.node_id)
        try:
            await self._unless_failed(self._lifecycle.register(request))
        except RegistrationFailed as error:
            raise StartRefused(str(error)) from error
        self._started.append("membership")
        await self._unless_failed(self._lifecycle.unfence())

    def _publish(self, delta: Delta, image: MetadataImage) -> None:
        """From when the controller knows this incarnation on.

        After an unclean stop the image says what the one before led.  To lead that in its epoch, for the moment until the controller has
        taken it away, would load every coordinator twice.
        """
        if self._is_publishing:
            self._publisher.publish(delta, image)
            return
        known = image.brokers.get(self.config.node_id)
        if known is not None and known.incarnation_id == self._incarnation_id:
            self._is_publishing = True
            self._publisher.publish(Delta.between(EMPTY, image), image)

    def _previous_epoch(self) -> int:
        """Of the last clean stop; -1 tells the controller that something may be lost."""
        epochs = {directory.broker_epoch for directory in self.logs.directories if directory.is_online}
        epoch = epochs.pop() if len(epochs) == 1 else None
        return -1 if epoch is None else epoch

    # ---------------------------------------------------------------- down

    async def stop(self) -> None:
        """Graceful; also after a start that got only part of the way."""
        if not self._has_peers():
            # Nobody takes over: clients are better off without a connection than with partitions that have no leader.
            await self._finish_requests()
        if "membership" in self._started:
            await self._lifecycle.hand_over()
            await self._lifecycle.stop()
        if "housekeeping" in self._started:
            await self._mover.stop()
            await self._housekeeping.stop()
        if self._remote is not None:
            await self._remote.stop()
        await self._finish_requests()
        if "publisher" in self._started:
            self._publisher.stop()
        self.replicas.resign()
        await self.listeners.close()
        if self._timer is not None:
            self._timer.cancel()
        if "membership" in self._started:
            await self._assignments.stop()
            self._shares.close()
            self._coordinators.close()
        await self.flusher.drain()
        if "folders" in self._started:
            epoch = self._lifecycle.epoch if "membership" in self._started else None
            # Several at a time: most of it is waiting for the disk.  Which of them failed, the folder knows.
            await asyncio.gather(*(self.files.run(log.close) for log in self.logs.working_logs()), return_exceptions=True)
            await self.files.run(self.logs.close, epoch)
        if "metadata" in self._started:
            await self._controller.stop()
            await self._loader.stop()
            await self._driver.stop()
        if self._metadata_folder is not None:
            self._metadata_folder.release()
        self._started.clear()

    def _has_peers(self) -> bool:
        if "metadata" not in self._started:
            return False
        return any(broker.id != self.config.node_id and not broker.fenced for broker in self._loader.image.brokers.values())

    async def _finish_requests(self) -> None:
        """No new ones; what those in work have appended is acknowledged while it still has a leader."""
        self.listeners.stop_reading()
        await self.flusher.drain()

    # ---------------------------------------------------------------- what the parts ask for

    def _log_flushed(self, log: object) -> None:
        self.replicas.log_flushed(log)  # type: ignore[arg-type]

    def _log_moved(self, log: Log) -> None:
        self.replicas.log_flushed(log)
        partition = self.replicas.hosted.get(log.topic_partition)
        if partition is not None:
            self._publisher.tell_directory(partition, None)

    def _take_options(self, image: MetadataImage) -> None:
        """What was set for this broker, or for all, while it runs."""
        options = self.schema.options(image, ServerConfig)
        self.listeners.take_options(options)
        self._housekeeping.take_options(options, self.schema.options(image, CleanerConfig))
        self._coordinators.group_options_changed(self.schema.options(image, GroupCoordinatorConfig))
        self._coordinators.transaction_options_changed(self.schema.options(image, TransactionConfig))
        if self._remote is not None:
            self._remote.configure(self.schema.options(image, RemoteLogConfig))

    def _move_bytes_per_second(self) -> float:
        return self.schema.options(self._loader.image, ServerConfig).replica_alter_log_dirs_io_max_bytes_per_second

    def _arm_timeouts(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, due_ms - self.clock.monotonic_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.replicas.timeouts.expire(self.clock.monotonic_ms())
        due_ms = self.replicas.timeouts.next_due_ms()
        if due_ms is not None and self._timer is None:
            self._arm_timeouts(due_ms)

    async def _allocate_producer_ids(self) -> range:
        request = AllocateProducerIdsRequest(broker_id=self.config.node_id, broker_epoch=self._lifecycle.epoch)
        response = await self._controller.allocate_producer_ids(request)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code))  # type: ignore[call-arg]
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    async def _create_internal_topic(self, topic: str, partition_count: int, replication_factor: int, configs: dict[str, str]) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=partition_count,
                    replication_factor=replication_factor,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
                )
            ],
            timeout_ms=self.config.server.request_timeout_ms,
        )
        (result,) = (await self._controller.create_topics(request)).topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(result.error_code), result.error_message)  # type: ignore[call-arg]

    def _offline_dirs(self) -> Sequence[UUID]:
        ids = self._directory_ids
        return [ids[directory.path] for directory in self.logs.directories if not directory.is_online and directory.path in ids]

    def _directory_failed(self, directory: object, error: OSError) -> None:
        for partition in self.replicas:
            if partition.log.failure is not None:
                partition.failed()
        LOG.error("%s is offline: %s", getattr(directory, "path", directory), error)
        if not any(each.is_online for each in self.logs.directories):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            if not isinstance(error, OSError | KafkaError):
                LOG.error("a mistake of ours", exc_info=error)
            self.failed.set_result(error)

    def _new_uuid(self) -> UUID:
        return usable_uuid(lambda: UUID(int=self.random.getrandbits(128), version=4))


def _who_votes(node_id: int, folder: str, voters: VoterSet) -> str:
    """Why this node cannot lead the metadata log."""
    if len(voters) > 1:
        names = ", ".join(map(str, voters.by_id))
        return f"the quorum has the controllers {names}: several of them are not served yet, give this node a cluster of its own"
    if node_id in voters.by_id:
        known = uuid_to_text(voters.by_id[node_id].directory_id)
        return (
            f"{folder}/meta.properties has another directory.id than the quorum knows of controller {node_id}, {known}: "
            "bring the folder back that it was formatted with, or write that id into the file if it was damaged"
        )
    return f"node {node_id} is no voter of its quorum: format a new folder with --standalone, or set controller.quorum.voters to this node"
