"""● Random clusters, and random requests to their controller.

A `Cluster` draws brokers (fenced, shutting down, with failed or cordoned directories), topics and partitions in any state that a log can
hold: being moved, leaderless, with eligible replicas, recovering.  `next_step` draws a request that fits the state of that moment.  Most
requests are sensible, some are stale or absurd.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.metadata.features import ELR_VERSION, METADATA_VERSION, is_cordoning_supported, is_directory_assignment_supported
from moldau.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration, ResourceType, TopicImage
from moldau.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from moldau.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.wire import Request, StoredRecord
from moldau.types import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, NO_LEADER

LEVELS: Final = (30, 30, 30, 30, 30, 29, 25, 22, 17, 16, 12, 11, 7)
FEATURE_RANGES: Final = {METADATA_VERSION: (7, 30), ELR_VERSION: (0, 1)}


class Step(NamedTuple):
    """One event at the controller.  `request` is None for an event without a request; `at_ms` is a time of the steady clock."""

    op: str
    request: Request[Any] | None
    version: int
    at_ms: int


@dataclass(slots=True)
class Cluster:
    """A random cluster, drawn from `chance`."""

    chance: Random
    level: int = 0
    records: list[StoredRecord] = field(default_factory=list)
    now_ms: int = 0

    def draw(self) -> list[StoredRecord]:
        """Draw the records that make the cluster."""
        chance = self.chance
        self.level = chance.choice(LEVELS)
        self.records.append(FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.level))
        is_elr_enabled = self.level >= 23 and chance.random() < 0.7
        if is_elr_enabled:
            self.records.append(FeatureLevelRecord(name=ELR_VERSION, feature_level=1))
        brokers = [self._broker(number) for number in range(1, chance.randint(3, 6) + 1)]
        for number in range(chance.randint(1, 2)):
            self._topic(f"t{number}", UUID(int=1000 + number), brokers, is_elr_enabled=is_elr_enabled)
        return self.records

    def _broker(self, number: int) -> RegisterBrokerRecord:
        chance = self.chance
        directories = [UUID(int=5000 + 10 * number + index) for index in range(chance.choice((1, 1, 1, 2)))]
        has_directories = is_directory_assignment_supported(self.level)
        record = RegisterBrokerRecord(
            broker_id=number,
            incarnation_id=UUID(int=100 + number),
            broker_epoch=len(self.records),
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9000 + number, security_protocol=0)],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURE_RANGES.items()
            ],
            rack=chance.choice((None, "a", "b")),
            fenced=chance.random() < 0.25,
            in_controlled_shutdown=chance.random() < 0.1,
            log_dirs=directories if has_directories else [],
            cordoned_log_dirs=directories[:1] if is_cordoning_supported(self.level) and chance.random() < 0.1 else None,
        )
        self.records.append(record)
        return record

    def _topic(self, name: str, topic_id: UUID, brokers: Sequence[RegisterBrokerRecord], *, is_elr_enabled: bool) -> None:
        chance = self.chance
        min_isr = chance.randint(1, 3)
        self.records.append(TopicRecord(name=name, topic_id=topic_id))
        configs = {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": chance.choice(("true", "false", "false"))}
        for key, value in configs.items():
            record = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=value)
            self.records.append(record)
        factor = chance.randint(1, min(4, len(brokers)))
        for number in range(chance.randint(1, 3)):
            replicas = [one.broker_id for one in chance.sample(brokers, factor)]
            made = self._partition(topic_id, number, replicas, min(min_isr, factor), is_elr_enabled=is_elr_enabled)
            by_id = {one.broker_id: one for one in brokers}
            made.directories = [self._directory(by_id[one].log_dirs) for one in replicas]
            self.records.append(made)

    def _partition(self, topic_id: UUID, number: int, replicas: list[int], min_isr: int, *, is_elr_enabled: bool) -> PartitionRecord:
        chance = self.chance
        isr = [one for one in replicas if chance.random() < 0.65] or ([] if is_elr_enabled and chance.random() < 0.5 else replicas[-1:])
        elr = sorted(one for one in replicas if one not in isr and chance.random() < 0.5) if is_elr_enabled and len(isr) < min_isr else []
        leader = chance.choice(isr) if isr and chance.random() < 0.85 else NO_LEADER
        last_known = chance.sample(replicas, 1) if is_elr_enabled and leader == NO_LEADER and chance.random() < 0.6 else []
        adding = [one for one in replicas if chance.random() < 0.3] if chance.random() < 0.4 else []
        adding = sorted(adding[: len(replicas) - 1])
        removing = (
            sorted(one for one in replicas if one not in adding and chance.random() < 0.4) if adding or chance.random() < 0.15 else []
        )
        if len(removing) == len(replicas):
            removing = removing[:-1]
        return PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            removing_replicas=removing,
            adding_replicas=adding,
            leader=leader,
            leader_recovery_state=int(len(isr) == 1 and chance.random() < 0.2),
            leader_epoch=chance.randint(0, 9),
            partition_epoch=chance.randint(0, 9),
            eligible_leader_replicas=elr or None,
            last_known_elr=last_known or None,
        )

    def _directory(self, known: Sequence[UUID]) -> UUID:
        if not known:
            return DIRECTORY_MIGRATING
        drawn = self.chance.random()
        if drawn < 0.8:
            return self.chance.choice(known)
        return self.chance.choice((DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING, UUID(int=9999)))

    # ---------------------------------------------------------------- requests

    def next_step(self, image: MetadataImage, next_offset: int) -> Step:
        """Draw an event at a controller that has this image."""
        self.now_ms += self.chance.choice((1, 500, 3_000, 4_501))
        draws: dict[str, Callable[[MetadataImage, int], tuple[Request[Any] | None, int]]] = {
            "alter_partition": self._alter_partition,
            "reassign": self._reassign,
            "elect_leaders": self._elect_leaders,
            "assign_directories": self._assign_directories,
            "heartbeat": self._heartbeat,
            "register": self._register,
            "unregister": self._unregister,
            "create_partitions": self._create_partitions,
            "fence_overdue": lambda *_: (None, 0),
            "balance": lambda *_: (None, 0),
            "elect_uncleanly": lambda *_: (None, 0),
        }
        weights = (6, 6, 2, 2, 6, 2, 1, 2, 2, 1, 1)
        op = self.chance.choices(list(draws), weights)[0]
        if op == "assign_directories" and not is_directory_assignment_supported(image.metadata_version):
            op = "heartbeat"
        request, version = draws[op](image, next_offset)
        return Step(op, request, version, self.now_ms)

    def _some_topic(self, image: MetadataImage) -> TopicImage:
        return self.chance.choice(list(image.topics.values()))

    def _some_partition(self, image: MetadataImage) -> tuple[TopicImage, int, PartitionRegistration]:
        topic = self._some_topic(image)
        number = self.chance.randrange(len(topic.partitions))
        return topic, number, topic.partitions[number]

    def _some_broker(self, image: MetadataImage) -> BrokerRegistration:
        return self.chance.choice(list(image.brokers.values()))

    def _epoch(self, image: MetadataImage, broker_id: int) -> int:
        return image.broker_epoch(broker_id) if self.chance.random() < 0.95 else 77

    def _alter_partition(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        chance = self.chance
        topic, number, found = self._some_partition(image)
        led = found.leader if found.leader in image.brokers and chance.random() < 0.95 else self._some_broker(image).id
        isr = [one for one in found.replicas if one == found.leader or chance.random() < 0.75]
        if chance.random() < 0.04:
            isr += [chance.randint(1, 7)]
        states = [BrokerState(broker_id=one, broker_epoch=chance.choice((-1, self._epoch(image, one)))) for one in isr]
        asked = AlterPartitionRequestPartitionData(
            partition_index=number if chance.random() < 0.98 else 9,
            leader_epoch=found.leader_epoch + chance.choice((0,) * 30 + (1, -1)),
            new_isr_with_epochs=states,
            leader_recovery_state=found.leader_recovery_state if chance.random() < 0.8 else chance.randint(0, 1),
            partition_epoch=found.partition_epoch + chance.choice((0,) * 30 + (1, -1)),
        )
        topic_id = topic.id if chance.random() < 0.98 else UUID(int=4)
        topics = [AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[asked])]
        return AlterPartitionRequest(broker_id=led, broker_epoch=self._epoch(image, led), topics=topics), 3

    def _reassign(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        chance = self.chance
        topic, number, found = self._some_partition(image)
        replicas: list[int] | None = None
        if chance.random() < 0.75:
            candidates = [*found.replicas] if chance.random() < 0.3 else [*image.brokers]
            replicas = chance.sample(candidates, chance.randint(1, min(4, len(candidates))))
            if chance.random() < 0.05:
                replicas += [chance.choice((replicas[0], 9))]
        asked = ReassignablePartition(partition_index=number if chance.random() < 0.98 else 9, replicas=replicas)
        topics = [ReassignableTopic(name=topic.name if chance.random() < 0.98 else "nosuch", partitions=[asked])]
        return AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=chance.random() < 0.7), 1

    def _elect_leaders(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        topic = self._some_topic(image)
        asked = [TopicPartitions(topic=topic.name, partitions=[*range(len(topic.partitions)), 9][: self.chance.randint(1, 4)])]
        everything = self.chance.random() < 0.3
        return ElectLeadersRequest(election_type=self.chance.randint(0, 1), topic_partitions=None if everything else asked), 2

    def _assign_directories(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        topic, number, _found = self._some_partition(image)
        broker = self._some_broker(image)
        directory = self._directory(broker.log_dirs)
        partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=number)]
        topics = [AssignReplicasToDirsRequestTopicData(topic_id=topic.id, partitions=partitions)]
        directories = [AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)]
        return AssignReplicasToDirsRequest(broker_id=broker.id, broker_epoch=self._epoch(image, broker.id), directories=directories), 0

    def _heartbeat(self, image: MetadataImage, next_offset: int) -> tuple[Request[Any], int]:
        chance = self.chance
        broker = self._some_broker(image)
        offline = [one for one in broker.log_dirs if chance.random() < 0.5] if chance.random() < 0.3 else []
        cordoned = [one for one in broker.log_dirs if chance.random() < 0.5] if chance.random() < 0.3 else None
        request = BrokerHeartbeatRequest(
            broker_id=broker.id,
            broker_epoch=self._epoch(image, broker.id),
            current_metadata_offset=chance.choice((next_offset - 1, next_offset - 1, broker.epoch, broker.epoch - 1, 0)),
            want_fence=chance.random() < 0.15,
            want_shut_down=chance.random() < 0.35,
            offline_log_dirs=offline,
            cordoned_log_dirs=cordoned,
        )
        return request, 2

    def _register(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        chance = self.chance
        broker_id = chance.randint(1, 7)
        existing = image.brokers.get(broker_id)
        incarnation = existing.incarnation_id if existing is not None and chance.random() < 0.2 else UUID(int=chance.randint(200, 10_000))
        previous = existing.epoch if existing is not None and chance.random() < 0.5 else -1
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="cluster" if chance.random() < 0.97 else "other",
            incarnation_id=incarnation,
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9000 + broker_id, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high) for name, (low, high) in FEATURE_RANGES.items()
            ],
            rack=None,
            log_dirs=[UUID(int=5000 + 10 * chance.choice((broker_id,) * 9 + (1,)))],
            previous_broker_epoch=previous,
        )
        return request, 4

    def _unregister(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        return UnregisterBrokerRequest(broker_id=self.chance.randint(1, 7)), 0

    def _create_partitions(self, image: MetadataImage, _: int) -> tuple[Request[Any], int]:
        chance = self.chance
        topic = self._some_topic(image)
        more = chance.randint(1, 12)
        assignments = None
        if chance.random() < 0.4:
            factor = len(topic.partitions[0].replicas)
            candidates = [*image.brokers]
            drawn = [chance.sample(candidates, min(factor, len(candidates))) for _ in range(more)]
            assignments = [CreatePartitionsAssignment(broker_ids=one) for one in drawn]
        count = len(topic.partitions) + (more if chance.random() < 0.95 else 0)
        topics = [CreatePartitionsTopic(name=topic.name, count=count, assignments=assignments)]
        return CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=False), 3
