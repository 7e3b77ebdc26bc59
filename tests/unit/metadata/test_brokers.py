"""The life of brokers and its effect on partitions, as records that are replayed."""

from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.brokers import register_broker, register_controller, unregister_broker
from moldau.metadata.delta import replay
from moldau.metadata.departures import unfence
from moldau.metadata.directories import assign_replicas_to_dirs
from moldau.metadata.features import supported_ranges
from moldau.metadata.image import MetadataImage
from moldau.metadata.outcome import PIECE
from moldau.metadata.producer_ids import BLOCK_SIZE, allocate_producer_ids
from moldau.metadata.records import UnregisterBrokerRecord
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest
from moldau.protocol.messages.controller_registration import Listener as ControllerListener
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.types import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from proof.cluster.images import an_image, partition, rules, with_partition, with_topic

SCHEMA = rules().schema
CLUSTER = "cluster"
FEATURES = [Feature(name=name, min_supported_version=low, max_supported_version=high) for name, (low, high) in supported_ranges().items()]
MANY_FEATURES = [Feature(name=f"f{number}", min_supported_version=0, max_supported_version=0) for number in range(1000)]
UNUSABLE = [
    Listener(**{"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0, **wrong})  # type: ignore[arg-type]
    for wrong in ({"name": ""}, {"host": ""}, {"port": 0}, {"security_protocol": 4}, {"security_protocol": -1})
]


def registration(number: int = 1, *, incarnation: int = 9, **more: object) -> BrokerRegistrationRequest:
    fields: dict[str, object] = {
        "broker_id": number,
        "cluster_id": CLUSTER,
        "incarnation_id": UUID(int=incarnation),
        "listeners": [Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        "features": FEATURES,
        "rack": None,
        "log_dirs": [UUID(int=5000 + number)],
        **more,
    }
    return BrokerRegistrationRequest(**fields)  # type: ignore[arg-type]


def register(image: MetadataImage, request: BrokerRegistrationRequest, *, alive: bool = False) -> tuple[MetadataImage, int]:
    outcome = register_broker(image, SCHEMA, request, cluster_id=CLUSTER, next_offset=50, is_session_valid=alive)
    return replay(image, outcome.records), outcome.response.broker_epoch


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UUID(int=1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UUID(int=500)] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UUID(int=5002)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {"features": [*FEATURES, Feature(name="new.version", min_supported_version=1, max_supported_version=2)]},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        *[({"listeners": [listener]}, ErrorCode.INVALID_REGISTRATION) for listener in UNUSABLE],
        (
            {"listeners": [Listener(name=f"L{port}", host="h", port=port, security_protocol=0) for port in range(1, 1002)]},
            ErrorCode.INVALID_REGISTRATION,
        ),
        ({"features": [*FEATURES, *MANY_FEATURES]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UUID(int=number) for number in range(10_000, 11_001)]}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_who_may_not_register(changes: dict[str, object], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as error:
        register(an_image(2), registration(**changes))  # type: ignore[arg-type]
    assert error.value.code is code


@pytest.mark.parametrize("listener", UNUSABLE)
def test_a_controller_that_nobody_could_reach_may_not_register(listener: Listener) -> None:
    there = ControllerListener(name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol)
    request = ControllerRegistrationRequest(
        controller_id=3, incarnation_id=UUID(int=9), zk_migration_ready=False, listeners=[there], features=[]
    )
    with pytest.raises(KafkaError) as error:
        register_controller(an_image(), request)
    assert error.value.code is ErrorCode.INVALID_REGISTRATION


def test_another_process_with_the_same_number() -> None:
    image, _ = register(an_image(), registration())
    with pytest.raises(KafkaError) as error:
        register(image, registration(incarnation=10), alive=True)
    assert error.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(image, registration(incarnation=10))[1] == 50
    assert register(image, registration(), alive=True)[1] == image.brokers[1].epoch, "the same process keeps its epoch"


def test_after_an_unclean_stop_the_last_known_leader_leads_recovering() -> None:
    """No other replica is left.  Records that it had not synced may be gone, so the partition is marked as recovering."""
    image = with_topic(an_image(1), 1)
    image, _ = register(image, registration(previous_broker_epoch=-1))
    assert (partition(image).leader, partition(image).isr, partition(image).elr, partition(image).last_known_elr) == (-1, (), (), (1,))
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    found = partition(image)
    assert (found.leader, found.isr, found.leader_recovery_state, found.last_known_elr) == (1, (1,), 1, ())


def test_after_a_clean_stop_nothing_is_recovering() -> None:
    image = with_topic(an_image(1), 1)
    image, _ = register(image, registration(previous_broker_epoch=7))
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    assert (partition(image).leader, partition(image).leader_recovery_state) == (1, 0)


def test_who_comes_with_a_new_disk_after_it_was_unregistered_is_eligible_no_more() -> None:
    """Kafka leaves an unregistered broker in the eligible sets, and Kafka may have written our metadata log."""
    image = with_partition(with_topic(an_image(1, 2, 3), 1, 2, 3), isr=[1], eligible_leader_replicas=[2])
    image = replay(image, [UnregisterBrokerRecord(broker_id=2, broker_epoch=7)])
    image, _ = register(image, registration(2))
    assert partition(image).elr == ()


def with_directories(image: MetadataImage, **changes: object) -> MetadataImage:
    """The image with a topic on brokers 1, 2 and 3, of whose replicas no directory is known yet.  Broker 1 has two directories."""
    image, _ = register(image, registration(log_dirs=[UUID(int=5001), UUID(int=6001)], previous_broker_epoch=7))
    image = with_topic(replay(image, unfence(image, SCHEMA, image.brokers[1])), 1, 2, 3)
    return with_partition(image, directories=[DIRECTORY_UNASSIGNED] * 3, **changes)


LED_LAST: dict[str, object] = {"leader": -1, "isr": [], "last_known_elr": [1]}


@pytest.mark.parametrize(
    ("directories", "is_clean", "is_lost"),
    [
        ([5001, 6001], False, False),
        ([5001], False, True),
        ([5001], True, True),
        ([7001, 8001], False, True),
        ([5001, 6001, 7001], False, True),
        ([5001, 6001, 7001], True, False),
    ],
)
def test_a_replica_whose_directory_was_never_told_may_have_been_in_one_that_is_gone(
    directories: list[int], is_clean: bool, is_lost: bool
) -> None:
    image = with_directories(an_image(1, 2, 3), **LED_LAST)
    request = registration(
        incarnation=10,
        log_dirs=[UUID(int=one) for one in directories],
        previous_broker_epoch=image.brokers[1].epoch if is_clean else -1,
    )
    image, epoch = register(image, request)
    assert partition(image).directory_of(1) == (DIRECTORY_LOST if is_lost else DIRECTORY_UNASSIGNED)
    assert partition(image).directory_of(2) == DIRECTORY_UNASSIGNED
    image = assign(image, 1, UUID(int=directories[0]), epoch)
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    found = partition(image)
    assert (found.leader, found.last_known_elr) == ((-1, ()) if is_lost else (1, ()))


def test_a_leader_that_comes_back_on_another_disk_before_it_is_fenced_leads_no_more() -> None:
    image = with_directories(an_image(1, 2, 3), isr=[1])
    image, epoch = register(image, registration(incarnation=10, log_dirs=[UUID(int=7001), UUID(int=8001)]))
    assert (partition(image).leader, partition(image).last_known_elr) == (-1, (1,))
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    assert partition(image).leader == -1, "it has not told its directory yet"
    image = assign(image, 1, UUID(int=8001), epoch)
    assert (partition(image).leader, partition(image).last_known_elr) == (-1, ())


def test_the_only_replica_begins_anew_where_its_directory_is_gone() -> None:
    image, _ = register(an_image(1), registration(log_dirs=[UUID(int=5001), UUID(int=6001)], previous_broker_epoch=7))
    image = with_topic(replay(image, unfence(image, SCHEMA, image.brokers[1])), 1)
    assert partition(image).directory_of(1) == DIRECTORY_UNASSIGNED
    image, epoch = register(image, registration(incarnation=10, log_dirs=[UUID(int=7001), UUID(int=8001)]))
    image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    image = assign(image, 1, UUID(int=8001), epoch)
    assert (partition(image).leader, partition(image).isr) == (1, (1,))


def assign(image: MetadataImage, broker: int, directory: UUID, epoch: int) -> MetadataImage:
    partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=0)]
    topics = [AssignReplicasToDirsRequestTopicData(topic_id=image.topics["t"].id, partitions=partitions)]
    told = [AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)]
    request = AssignReplicasToDirsRequest(broker_id=broker, broker_epoch=epoch, directories=told)
    return replay(image, assign_replicas_to_dirs(image, SCHEMA, request).records)


def test_a_registration_that_moves_many_partitions_comes_in_pieces() -> None:
    image = with_topic(an_image(1, 2), 1, 2, partition_count=PIECE + 2)
    request = registration(previous_broker_epoch=7)
    first = register_broker(image, SCHEMA, request, cluster_id=CLUSTER, next_offset=50, is_session_valid=False)
    assert first.is_piece and len(first.records) == PIECE
    image = replay(image, first.records)
    assert image.brokers[1].epoch == 7, "the registration comes with the last piece"
    last = register_broker(image, SCHEMA, request, cluster_id=CLUSTER, next_offset=550, is_session_valid=False)
    assert not last.is_piece and len(last.records) == 3 and last.response.broker_epoch == 552, "the epoch is its record's offset"


def test_unregistering() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    outcome = unregister_broker(image, SCHEMA, UnregisterBrokerRequest(broker_id=1))
    image = replay(image, outcome.records)
    assert list(image.brokers) == [2] and partition(image).leader == 2 and 1 not in partition(image).elr
    stranger = unregister_broker(image, SCHEMA, UnregisterBrokerRequest(broker_id=9))
    assert stranger.response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED and not stranger.records


def test_blocks_of_producer_ids_never_overlap() -> None:
    image, starts = an_image(1), []
    for _ in range(3):
        outcome = allocate_producer_ids(image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=7))
        starts.append(outcome.response.producer_id_start)
        image = replay(image, outcome.records)
    assert starts == [0, BLOCK_SIZE, 2 * BLOCK_SIZE]
