"""● The broker of a process: its partitions, coordinators and requests, brought up and down in order.

    start   recover the logs → follow the metadata → register → catch up → unfenced → housekeeping → answer waiting requests
    stop    hand over → no new requests → answer waiting requests → the same steps backwards

Regular work is a timer of the loop: retention, checkpoints, flushes by age, producers that expire, time-outs.
Source: BrokerServer, ReplicaManager.  Put together by `node.py`.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from moldau.config import ConfigError
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import Delta
from moldau.metadata.features import supported_ranges
from moldau.metadata.image import EMPTY, MetadataImage
from moldau.net.transport import Address
from moldau.raft.config import QuorumConfig
from moldau.replication.config import ReplicationConfig
from moldau.replication.manager import ReplicaManager
from moldau.replication.replication import Replication
from moldau.server.handlers import MODULES
from moldau.server.node.assembly import assemble
from moldau.server.node.config import NodeConfig
from moldau.server.node.directory_assignments import DirectoryAssignments
from moldau.server.node.folders import StartRefused, is_stray, told_directory
from moldau.server.node.housekeeping import Housekeeping
from moldau.server.node.lifecycle import BrokerLifecycle, Patience, RegistrationFailed
from moldau.server.node.log_loading import LogLoading
from moldau.server.node.log_mover import LogMover
from moldau.server.node.options import ServerConfig
from moldau.server.node.outside import Outside
from moldau.server.node.publisher import Publisher
from moldau.server.node.registrations import register_broker
from moldau.server.node.shared_server import SharedServer
from moldau.server.node.taken_folders import TakenFolders
from moldau.server.peers.brokers import BrokerChannels
from moldau.server.peers.controller import ControllerCalls, allocate_producer_ids, create_internal_topic
from moldau.server.peers.listed_brokers import ListedBrokers
from moldau.server.requests.broker import Broker
from moldau.server.requests.cluster_view import ImageView
from moldau.server.requests.dispatch import Dispatcher
from moldau.server.requests.listeners import Listeners
from moldau.server.requests.registry import apis_of
from moldau.server.tier.manager import RemoteLogManager
from moldau.server.tier.metadata import RemoteMetadata
from moldau.storage.config import CleanerConfig
from moldau.storage.flush.flusher import Flusher
from moldau.storage.log import Log
from moldau.storage.tiered.config import RemoteLogConfig
from moldau.storage.tiered.store import Obstore
from moldau.types import NO_LEADER, TopicPartition

LOG: Final = logging.getLogger(__name__)

SHUTDOWN_PATIENCE_MS: Final = 10_000


class BrokerServer:
    """See the module.  `start` once, `stop` once."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        schema: ConfigSchema,
        folders: TakenFolders,
        shared: SharedServer,
        controller: ControllerCalls,
        listeners: Listeners,
        outside: Outside,
    ) -> None:
        """`controller` is the active one, wherever it is.  Errors: StartRefused."""
        files, clock, server = outside.files, outside.clock, config.server
        self.logs: Final = folders.logs
        self.schema: Final = schema
        self._config: Final = config
        self._folders: Final = folders
        self._loader: Final = shared.loader
        self._listeners: Final = listeners
        self._outside: Final = outside
        self._incarnation_id: Final = outside.new_uuid()
        self._is_publishing = False
        self._timer: asyncio.TimerHandle | None = None
        self._running: AsyncExitStack | None = None
        self._flusher: Final = Flusher(files, self._log_flushed)
        self.replicas: Final = ReplicaManager(
            local_id=config.node_id,
            lag_time_max_ms=config.of(ReplicationConfig).lag_time_max_ms,
            on_flush_wanted=self._flusher.want,
            on_earlier_timeout=self._arm_timeouts,
        )
        self._lifecycle: Final = self._new_lifecycle(controller)
        self._assignments: Final = DirectoryAssignments(controller, broker_id=config.node_id, broker_epoch=lambda: self._lifecycle.epoch)
        self._mover: Final = LogMover(
            files,
            clock,
            self.logs,
            at_once=server.num_replica_alter_log_dirs_threads or len(config.log_dirs),
            on_moved=self._log_moved,
        )
        self._housekeeping: Final = Housekeeping(
            options=server, cleaner=config.of(CleanerConfig), files=files, clock=clock, logs=self.logs, flusher=self._flusher
        )
        self._brokers: Final = BrokerChannels(
            local_id=config.node_id,
            network=outside.network,
            leader_of=self._leader_of,
            endpoint_of=self._endpoint_of,
            timeout_ms=server.request_timeout_ms,
        )
        self._listed_brokers: Final = ListedBrokers(
            local_id=config.node_id,
            network=outside.network,
            clock=clock,
            listener_name=config.inter_broker_listener_name,
            linger_ms=server.broker_session_timeout_ms,
        )
        self._replication: Final = self._new_replication(controller)
        self._remote: Final = self._new_remote_log_manager(controller) if config.remote_log.system_enable else None
        self.requests: Final[Broker] = self._new_requests(controller, shared)
        """The parts that handlers use."""
        self._publisher: Final = Publisher(
            local_id=config.node_id,
            clock=clock,
            logs=self.logs,
            replicas=self.replicas,
            schema=schema,
            coordinators=self.requests.coordinators,
            assignments=self._assignments,
            on_failure=outside.fail,
            on_options=self._take_options,
            remote=self._remote,
        )
        self.logs.on_directory_failure = self._directory_failed

    def _new_lifecycle(self, controller: ControllerCalls) -> BrokerLifecycle:
        config, server, quorum = self._config, self._config.server, self._config.of(QuorumConfig)
        return BrokerLifecycle(
            node_id=config.node_id,
            controller=controller,
            metadata_offset=lambda: self._publisher.published_offset,
            offline_dirs=self._folders.offline_ids,
            patience=Patience(
                heartbeat_ms=server.broker_heartbeat_interval_ms,
                registration_ms=server.initial_broker_registration_timeout_ms,
                shutdown_ms=SHUTDOWN_PATIENCE_MS,
                silence_ms=quorum.fetch_timeout_ms + quorum.election_timeout_ms,
            ),
        )

    def _new_replication(self, controller: ControllerCalls) -> Replication:
        return Replication(
            self.replicas,
            config=self._config.of(ReplicationConfig),
            network=self._outside.network,
            clock=self._outside.clock,
            logs=self.logs,
            alter_partition=controller.ask,
            endpoint_of=self._endpoint_of,
            broker_epoch=lambda: self._lifecycle.epoch,
            want_flush=self._flusher.want,
            note_starts=self._housekeeping.checkpoint,
        )

    def _new_requests(self, controller: ControllerCalls, shared: SharedServer) -> Broker:
        config, outside = self._config, self._outside
        return assemble(
            config=config,
            cluster_id=self._folders.cluster_id,
            schema=self.schema,
            files=outside.files,
            clock=outside.clock,
            random=outside.random,
            controller=controller,
            raft=shared.driver,
            allocate_producer_ids=lambda: allocate_producer_ids(controller, config.node_id, self._lifecycle.epoch),
            loader=shared.loader,
            cluster=ImageView(lambda: shared.loader.image, supported_ranges(), lambda: shared.driver.kraft_version),
            replicas=self.replicas,
            brokers=self._brokers,
            logs=self.logs,
            mover=self._mover,
            listed_brokers=self._listed_brokers.of,
            remote=self._remote,
            apis={endpoint.name: apis_of(MODULES, "broker") for endpoint in config.broker_listeners},
        )

    def _new_remote_log_manager(self, controller: ControllerCalls) -> RemoteLogManager:
        config, outside = self._config, self._outside
        try:
            store = Obstore.open(config.store, config.remote_log.storage_prefix)
        except ConfigError as error:
            raise StartRefused(str(error)) from error
        create_topic = partial(create_internal_topic, controller, timeout_ms=config.server.request_timeout_ms)
        return RemoteLogManager(
            local_id=config.node_id,
            limits=config.remote_log,
            options=config.store,
            store=store,
            metadata=RemoteMetadata(config.remote_log_metadata, outside.clock, create_topic),
            files=outside.files,
            clock=outside.clock,
            logs=self.logs,
            replicas=self.replicas,
            image=lambda: self._loader.image,
            new_id=outside.new_uuid,
            checkpoint=self._housekeeping.checkpoint,
        )

    # ---------------------------------------------------------------- up

    async def start(self) -> None:
        """Start the broker; returns once clients are served.  Errors: StartRefused, OSError, and those of damaged files."""
        async with AsyncExitStack() as running:
            running.push_async_callback(self._flusher.drain)
            self._check_tiered_topics()
            self._check_tiered_alone()
            await self._recover_logs()
            running.push_async_callback(self._close_rooms)
            running.push_async_callback(self._replication.stop)
            self._replication.start()
            self._loader.add_publisher(self._publish)
            running.callback(self._stop_following)
            await self._register()
            running.push_async_callback(self._lifecycle.stop)
            await self._outside.unless_failed(self._lifecycle.unfence())
            # Whoever registered at the same time, and topics that were created before this broker was known.
            self._check_tiered_alone()
            self._check_tiered_topics()
            running.push_async_callback(self._housekeeping.stop)
            self._housekeeping.start()
            running.push_async_callback(self._mover.stop)
            self._mover.resume()
            if self._remote is not None:
                running.push_async_callback(self._remote.stop)
                self._remote.start()
            running.push_async_callback(self._take_leave)
            self._listeners.serve({name: Dispatcher(self.requests, apis).dispatch for name, apis in self.requests.apis.items()})
            self._running = running.pop_all()

    def _check_tiered_topics(self) -> None:
        """Refuse topics with remote records if tiered storage is off: their older records would silently be gone."""
        image = self._loader.image
        tiered = [name for name in image.topics if self.schema.log_config(image, name).remote_storage_enable]
        if tiered and self._remote is None:
            raise StartRefused(
                f"{', '.join(sorted(tiered)[:5])} keep older records in an object store: set remote.log.storage.system.enable=true again, "
                "with rsm.config.storage.url as it was, or delete these topics before it is switched off"
            )

    def _check_tiered_alone(self) -> None:
        """Refuse tiered storage among several brokers: it is not tried yet."""
        others = sorted(self._loader.image.brokers.keys() - {self._config.node_id})
        if others and self._remote is not None:
            raise StartRefused(
                "remote.log.storage.system.enable=true works on a cluster of one broker only, and this one has others: "
                f"{', '.join(map(str, others[:5]))}.  Take the option out; or, where they are gone for good, let them be unregistered "
                "(moldau kafka-cluster unregister --id N) while it is out"
            )

    async def _recover_logs(self) -> None:
        image, outside = self._loader.image, self._outside
        node_id = self._config.node_id
        for path in await outside.files.run(
            self.logs.set_strays_aside, partial(is_stray, image, node_id), partial(told_directory, image, node_id)
        ):
            LOG.warning("the cluster does not know this log: kept as %s", path)
        waiting = list(self.logs.found(lambda topic: self.schema.log_config(image, topic), outside.clock.now_ms()))
        threads = self._config.server.num_recovery_threads_per_data_dir
        loading = LogLoading(outside.files, outside.clock, self.logs, threads_per_directory=threads, tell=outside.tell)
        await loading.run(waiting)

    async def _register(self) -> None:
        request = register_broker(
            self._config,
            self._listeners.ports,
            cluster_id=self._folders.cluster_id,
            incarnation_id=self._incarnation_id,
            directory_ids=self._folders.online_ids(),
            previous_broker_epoch=self._folders.previous_epoch(),
        )
        try:
            await self._outside.unless_failed(self._lifecycle.register(request))
        except RegistrationFailed as error:
            raise StartRefused(str(error)) from error
        self._folders.served_epoch = self._lifecycle.epoch

    def _publish(self, delta: Delta, image: MetadataImage) -> None:
        """Publish metadata once the controller knows this incarnation.

        After an unclean stop the image has the leaderships of the former incarnation.  To take them up until the controller has moved them
        would load every coordinator twice.
        """
        if self._is_publishing:
            if delta.changed_brokers:
                self._listed_brokers.brokers_changed(image)
            self._publisher.publish(delta, image)
            return
        known = image.brokers.get(self._config.node_id)
        if known is not None and known.incarnation_id == self._incarnation_id:
            self._is_publishing = True
            self._listed_brokers.brokers_changed(image)
            self._publisher.publish(Delta.between(EMPTY, image), image)

    # ---------------------------------------------------------------- down

    async def stop(self) -> None:
        """Stop gracefully: each started part, the last one first."""
        if self._running is not None:
            running, self._running = self._running, None
            await running.aclose()

    async def _take_leave(self) -> None:
        if self._config.server.controlled_shutdown_enable:
            if not self._has_peers():
                # No broker takes over: clients are better off without a connection than with partitions that have no leader.
                await self._finish_requests()
            await self._lifecycle.hand_over()
        await self._finish_requests()

    def _has_peers(self) -> bool:
        return any(broker.id != self._config.node_id and not broker.fenced for broker in self._loader.image.brokers.values())

    async def _finish_requests(self) -> None:
        """Take no new requests.  Appends of the requests in work are acknowledged while they still have a leader."""
        self._listeners.stop_reading(self.requests.apis)
        await self._flusher.drain()

    def _stop_following(self) -> None:
        self._publisher.stop()
        self.replicas.resign()

    async def _close_rooms(self) -> None:
        """Stop the coordinators first: nothing is led any more, so a waiting request would wait until its connection is cut off."""
        self.requests.shares.close()
        self.requests.coordinators.close()
        await self._listeners.close(self.requests.apis)
        if self._timer is not None:
            self._timer.cancel()
        await self._assignments.stop()
        self._brokers.close()
        self._listed_brokers.close()

    # ---------------------------------------------------------------- used by the parts

    def _log_flushed(self, log: Log) -> None:
        self.replicas.log_flushed(log)

    def _log_moved(self, log: Log) -> None:
        self.replicas.log_flushed(log)
        partition = self.replicas.hosted.get(log.topic_partition)
        if partition is not None:
            self._publisher.tell_directory(partition, None)

    def _take_options(self, image: MetadataImage) -> None:
        """Take the options that were set for this broker, or for all, while it runs."""
        options, coordinators = self.schema.options(image, ServerConfig), self.requests.coordinators
        self._listeners.take_options(options)
        self._housekeeping.take_options(options, self.schema.options(image, CleanerConfig))
        replication, now_ms = self.schema.options(image, ReplicationConfig), self._outside.clock.monotonic_ms()
        self.replicas.throttles.leader.set_rate(replication.leader_throttled_rate, now_ms)
        self.replicas.throttles.follower.set_rate(replication.follower_throttled_rate, now_ms)
        self._mover.pace.set_rate(options.replica_alter_log_dirs_io_max_bytes_per_second, now_ms)
        coordinators.group_options_changed(self.schema.options(image, GroupCoordinatorConfig))
        coordinators.transaction_options_changed(self.schema.options(image, TransactionConfig))
        if self._remote is not None:
            self._remote.configure(self.schema.options(image, RemoteLogConfig))

    def _leader_of(self, where: TopicPartition) -> int:
        found = self._loader.image.partition(*where)
        return NO_LEADER if found is None else found.leader

    def _endpoint_of(self, broker_id: int) -> Address | None:
        """The address of a broker for other brokers."""
        broker = self._loader.image.brokers.get(broker_id)
        found = broker.endpoint(self._config.inter_broker_listener_name) if broker is not None else None
        return Address(found.host, found.port) if found is not None else None

    def _arm_timeouts(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, due_ms - self._outside.clock.monotonic_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.replicas.timeouts.expire(self._outside.clock.monotonic_ms())
        due_ms = self.replicas.timeouts.next_due_ms()
        if due_ms is not None and self._timer is None:
            self._arm_timeouts(due_ms)

    def _directory_failed(self, directory: object, error: OSError) -> None:
        for partition in self.replicas:
            if partition.log.failure is not None:
                partition.failed()
        LOG.error("%s is offline: %s", getattr(directory, "path", directory), error)
        if not any(each.is_online for each in self.logs.directories):
            self._outside.fail(error)
