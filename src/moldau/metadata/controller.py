"""● The active controller: one decision at a time, commits awaited side by side.

    request ─▶ decide on the newest image ─▶ append ─▶ replay onto that image ─▶ await the commit ─▶ response

A decision and its append happen in one turn of the loop, so decisions never overlap and each sees all that was decided before it,
committed or not.

A response waits for the commit of its records.  A response without records waits for the records that the decision may have seen.  When
this node ceases to lead, the image with uncommitted records is dropped and every waiting caller gets NOT_CONTROLLER: there is nothing to
undo.

A lone node writes no NoOpRecord while it is idle, unless metadata.max.idle.interval.ms is in its properties: the record shows followers
that their leader lives, and each one costs a sync.

Source: QuorumController; KIP-631, 835.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.metadata import (
    automatic_elections,
    brokers,
    configs,
    departures,
    directories,
    elections,
    feature_updates,
    heartbeats,
    producer_ids,
    topics,
)
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import replay
from moldau.metadata.image import MetadataImage, encode_record
from moldau.metadata.loader import Loader
from moldau.metadata.options import ControllerOptions
from moldau.metadata.outcome import MAX_BATCH_RECORDS, Outcome, Piece
from moldau.metadata.records import AbortTransactionRecord, NoOpRecord
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from moldau.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from moldau.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from moldau.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from moldau.protocol.wire import StoredRecord
from moldau.raft.driver import RaftDriver
from moldau.raft.listener import QuorumStatus
from moldau.raft.replica_log import MAX_BATCH_BYTES
from moldau.raft.voter_wire import VoterRequest

LOG: Final = logging.getLogger(__name__)

R = TypeVar("R")

IDLE_OPTION: Final = "metadata.max.idle.interval.ms"
TICK_MS: Final = 250
"""The longest interval between two looks at sessions and snapshots, in milliseconds."""


@dataclass(slots=True, frozen=True)
class ControllerConfig:
    """The controller's options beside those of the quorum."""

    cluster_id: str
    session_timeout_ms: int
    delete_topic_enable: bool
    rules: topics.TopicRules
    idle_interval_ms: Callable[[int], int]
    """The idle interval for the present number of voters; 0: no NoOpRecord."""

    @property
    def schema(self) -> ConfigSchema:
        return self.rules.schema


def idle_interval_ms(properties: Mapping[str, str], configured_ms: int, voter_count: int) -> int:
    """See the module."""
    return configured_ms if voter_count > 1 or IDLE_OPTION in properties else 0


class Controller:
    """See the module.  Active while `is_active`; otherwise every request is refused with NOT_CONTROLLER."""

    def __init__(
        self,
        driver: RaftDriver,
        loader: Loader,
        clock: Clock,
        config: ControllerConfig,
        bootstrap: Sequence[StoredRecord] = (),
    ) -> None:
        """`bootstrap`: the records with which an empty log begins, such as features and credentials."""
        self.config: Final = config
        self.sessions: Final = heartbeats.Sessions(config.session_timeout_ms)
        self.options: Final = ControllerOptions.load(config.schema.properties)
        self._driver: Final = driver
        self._loader: Final = loader
        self._clock: Final = clock
        self._bootstrap: Final = bootstrap
        self._image: MetadataImage | None = None
        self._active = asyncio.Event()
        self._is_look_due = asyncio.Event()
        self._ticker: asyncio.Task[None] | None = None
        self._balanced_ms = self._elected_ms = clock.monotonic_ms()
        loader.leadership = self

    # ---------------------------------------------------------------- leadership

    @property
    def is_active(self) -> bool:
        return self._image is not None and self._driver.is_leader

    @property
    def newest_image(self) -> MetadataImage:
        """The newest image, with uncommitted changes.  Errors: KafkaError NOT_CONTROLLER."""
        if self._image is None or not self._driver.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller appears to be another node.")
        return self._image

    async def wait_until_active(self) -> None:
        await self._active.wait()

    def end_session(self, broker_id: int) -> None:
        """Fence a broker whose process is certainly gone, at the next look at sessions, which is now."""
        self.sessions.forget(broker_id)
        self._is_look_due.set()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Take over or give up.  The loader has everything that was committed before this epoch."""
        if leader_id != self._driver.node_id:
            self._image = None
            self._active.clear()
            return
        self._image = self._loader.image
        now_ms = self._balanced_ms = self._elected_ms = self._clock.monotonic_ms()
        self.sessions.adopt(self._image.brokers, now_ms, self._driver.followed)
        if self._loader.has_open_transaction:
            self._append([AbortTransactionRecord(reason="Controller failover")])
        if self._image.metadata_version == 0:
            self._append(self._first_records())
        self._active.set()
        if self._ticker is None:
            self._ticker = in_background(self._tick(), name="controller")

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        self._image = None

    # ---------------------------------------------------------------- requests

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._decide(lambda image: topics.create_topics(image, self.config.rules, request), request.timeout_ms)

    async def delete_topics(self, request: DeleteTopicsRequest, *, version: int) -> DeleteTopicsResponse:
        is_enabled = self.config.delete_topic_enable
        return await self._decide(
            lambda image: topics.delete_topics(image, request, is_enabled=is_enabled, version=version), request.timeout_ms
        )

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return await self._decide(lambda image: topics.create_partitions(image, self.config.rules, request), request.timeout_ms)

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._decide(lambda image: configs.alter_configs(image, self.config.schema, request))

    async def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        return await self._decide(lambda image: configs.incremental_alter_configs(image, self.config.schema, request))

    async def update_features(self, request: UpdateFeaturesRequest, *, version: int) -> UpdateFeaturesResponse:
        def decide(image: MetadataImage) -> Outcome[UpdateFeaturesResponse]:
            node = self._driver.node
            quorum = feature_updates.Quorum(
                self._driver.node_id, tuple(node.voters.by_id), self._driver.kraft_version, can_upgrade=node.upgrade_refusal is None
            )
            outcome = feature_updates.update_features(image, quorum, request, version=version)
            if feature_updates.upgrades_quorum(quorum, request, outcome.response):
                self._driver.upgrade_kraft_version()
                outcome.records.append(NoOpRecord())  # this commit is the upgrade's commit, too
            if not image.is_elr_enabled and replay(image, outcome.records).is_elr_enabled:
                outcome.records += configs.elr_safety_records(image, self.config.schema)
            return outcome

        return await self._decide(decide)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._decide(lambda image: producer_ids.allocate_producer_ids(image, request))

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        if request.topic_partitions is not None and not request.topic_partitions:
            return ElectLeadersResponse(replica_election_results=[])  # the rest of the request does not matter, as in Kafka
        return await self._decide(lambda image: elections.elect_leaders(image, self.config.schema, request), request.timeout_ms)

    async def alter_partition(self, request: AlterPartitionRequest, *, version: int) -> AlterPartitionResponse:
        return await self._decide(lambda image: elections.alter_partition(image, self.config.schema, request, version=version))

    async def alter_partition_reassignments(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        return await self._decide(
            lambda image: elections.alter_partition_reassignments(image, self.config.schema, request), request.timeout_ms
        )

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        return await self._decide(lambda image: directories.assign_replicas_to_dirs(image, self.config.schema, request))

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        now_ms = self._clock.monotonic_ms()

        def decide(image: MetadataImage) -> Outcome[BrokerRegistrationResponse]:
            outcome = brokers.register_broker(
                image,
                self.config.schema,
                request,
                cluster_id=self.config.cluster_id,
                next_offset=self._driver.node.end_offset,
                is_session_valid=self.sessions.is_valid(request.broker_id, now_ms),
            )
            existing = image.brokers.get(request.broker_id)
            if not outcome.is_piece and (existing is None or existing.incarnation_id != request.incarnation_id):
                self.sessions.begin(request.broker_id)
            return outcome

        return await self._decide(decide)

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        now_ms = self._clock.monotonic_ms()
        return await self._decide(
            lambda image: heartbeats.broker_heartbeat(
                image, self.config.schema, self.sessions, request, now_ms=now_ms, next_offset=self._driver.node.end_offset
            )
        )

    def quorum_status(self) -> QuorumStatus:
        """How far each replica of the metadata log is.  Errors: KafkaError NOT_CONTROLLER."""
        status = self._driver.status()
        if status is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return status

    async def change_voters(self, request: VoterRequest) -> Any:
        """Change the voters of the metadata log by AddRaftVoter or RemoveRaftVoter.

        Errors: KafkaError NOT_CONTROLLER, BROKER_NOT_AVAILABLE.
        """
        if not self.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await self._driver.change_voters(request)

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        return await self._decide(lambda image: brokers.unregister_broker(image, self.config.schema, request))

    async def register_controller(self, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
        return await self._decide(lambda image: brokers.register_controller(image, request))

    # ---------------------------------------------------------------- how

    async def _decide(self, decision: Callable[[MetadataImage], Outcome[R]], timeout_ms: int = 1) -> R:
        """Decide and append now, and answer when the records cannot be lost.

        Errors: KafkaError NOT_CONTROLLER, and those of the decision; REQUEST_TIMED_OUT without a decision for a client with a timeout of 0.

        A decision that is too large for one turn of the loop is made in pieces, each on the newest image.
        """
        if timeout_ms <= 0:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        while True:
            outcome = decision(self.newest_image)
            end_offset = self._append(outcome.records, is_atomic=outcome.is_atomic)
            if not outcome.is_piece:
                break
            await asyncio.sleep(0)
        await self._driver.wait_for_commit(end_offset)
        return outcome.response

    def _append(self, records: Sequence[StoredRecord], *, is_atomic: bool = True) -> int:
        """Append and replay at once.  Returns the offset after the records, or without records the end of the log.

        An atomic decision is one batch, all or nothing; any other takes as many batches as needed.
        Errors: KafkaError POLICY_VIOLATION for an atomic decision that is too large.
        """
        assert self._image is not None
        if not records:
            return self._driver.node.end_offset
        level = self._image.metadata_version or _level_in(records)
        encoded = [encode_record(record, level) for record in records]
        ends = [len(records)] if is_atomic else batch_ends(encoded)
        begin = end_offset = 0
        for end in ends:
            base_offset = self._driver.node.end_offset
            image = replay(self._image, records[begin:end], offset=base_offset + end - begin - 1, epoch=self._driver.node.epoch)
            end_offset = self._driver.propose(encoded[begin:end])
            self._image, begin = image, end
        return end_offset

    def _first_records(self) -> list[StoredRecord]:
        image = replay(MetadataImage(), self._bootstrap)
        return [*self._bootstrap, *(configs.elr_safety_records(image, self.config.schema) if image.is_elr_enabled else ())]

    async def _tick(self) -> None:
        """Look at ended sessions, missing or unpreferred leaders and due snapshots, and give a sign of life."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._until_next_look_ms() / 1000):
                    await self._is_look_due.wait()
            self._is_look_due.clear()
            try:
                await self._look_around()
            except KafkaError as error:  # a disk that fails ends the node; a full one has room later
                LOG.debug("not now: %s", error)
            except Exception:  # without this task no dead broker would be noticed any more
                LOG.exception("a mistake of ours, while the controller looks after brokers and leaders")

    def _until_next_look_ms(self) -> int:
        if not self.is_active:
            return TICK_MS
        due_ms = self.sessions.next_end_ms(self.newest_image) - self._clock.monotonic_ms()
        return min(due_ms, TICK_MS) if due_ms > 0 else TICK_MS  # a broker that could not be fenced just now is tried again later

    async def _look_around(self) -> None:
        """Fence silent brokers and elect leaders.  Errors: KafkaError NOT_CONTROLLER, KAFKA_STORAGE_ERROR."""
        self._loader.maybe_snapshot(self._driver)
        if not self.is_active:
            return
        await self._fence_overdue()
        await self._look_after_leaders()
        idle_ms = self._clock.now_ms() - self._driver.last_append_ms
        if 0 < self.config.idle_interval_ms(len(self._driver.node.voters)) <= idle_ms:
            self._append([NoOpRecord()])

    async def _fence_overdue(self) -> None:
        for broker_id in self.sessions.overdue(self.newest_image, self._clock.monotonic_ms()):

            def fence(image: MetadataImage, broker_id: int = broker_id) -> Piece:
                if broker_id not in self.sessions.overdue(image, self._clock.monotonic_ms()):
                    return Piece([], is_complete=True)  # the broker was heard of meanwhile, or is gone
                return departures.fence(image, self.config.schema, broker_id)

            await self._in_pieces(fence)

    async def _look_after_leaders(self) -> None:
        now_ms, options = self._clock.monotonic_ms(), self.options
        if options.auto_leader_rebalance_enable and now_ms - self._balanced_ms >= options.leader_imbalance_check_interval_seconds * 1000:
            self._balanced_ms = now_ms
            await self._in_pieces(lambda image: automatic_elections.balance_leaders(image, self.config.schema))
        if now_ms - self._elected_ms >= options.unclean_leader_election_interval_ms:
            self._elected_ms = now_ms
            await self._in_pieces(lambda image: automatic_elections.elect_uncleanly(image, self.config.schema))

    async def _in_pieces(self, decide: Callable[[MetadataImage], Piece]) -> None:
        """Run a decision piece by piece.  Errors: KafkaError NOT_CONTROLLER, KAFKA_STORAGE_ERROR."""
        is_complete = False
        while not is_complete:
            records, is_complete = decide(self.newest_image)
            self._append(records, is_atomic=False)
            await asyncio.sleep(0)


def batch_ends(encoded: Sequence[bytes]) -> list[int]:
    """The ends (exclusive) at which to cut records that need not be atomic into batches; no batch has too many records or bytes."""
    ends, begin, size = [], 0, 0
    for index, record in enumerate(encoded):
        if index - begin == MAX_BATCH_RECORDS or (index > begin and size + len(record) > MAX_BATCH_BYTES):
            ends.append(index)
            begin, size = index, 0
        size += len(record)
    return [*ends, len(encoded)]


def _level_in(records: Sequence[StoredRecord]) -> int:
    """The metadata.version in the first records of a log."""
    image = replay(MetadataImage(), records)
    assert image.metadata_version > 0, "a log begins with its metadata.version"
    return image.metadata_version
