"""The life of brokers, and what it does to partitions: told as records, replayed, told on."""

from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.brokers import Sessions, broker_heartbeat, fence, register_broker, register_controller, unregister_broker
from moldau.metadata.features import supported_ranges
from moldau.metadata.image import MetadataImage, PartitionRegistration
from moldau.metadata.producer_ids import BLOCK_SIZE, allocate_producer_ids
from moldau.metadata.topics import create_topics
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest
from moldau.protocol.messages.controller_registration import Listener as ControllerListener
from moldau.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.testing.images import an_image, rules

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
    return image.apply(outcome.records), outcome.response.broker_epoch


def beat(
    image: MetadataImage, sessions: Sessions, number: int, *, now_ms: int = 0, **wants: object
) -> tuple[MetadataImage, BrokerHeartbeatResponse]:
    epoch = image.broker_epoch(number)
    fields = {"current_metadata_offset": epoch, "want_fence": False, "want_shut_down": False, **wants}
    request = BrokerHeartbeatRequest(broker_id=number, broker_epoch=epoch, **fields)  # type: ignore[arg-type]
    outcome = broker_heartbeat(image, SCHEMA, sessions, request, now_ms=now_ms, next_offset=60)
    return image.apply(outcome.records), outcome.response


def with_topic(image: MetadataImage, *replicas: int) -> MetadataImage:
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=placed, configs=[])
    return image.apply(create_topics(image, rules(), CreateTopicsRequest(topics=[topic])).records)


def partition(image: MetadataImage) -> PartitionRegistration:
    return image.topics["t"].partitions[0]


def test_a_broker_comes_fenced_and_is_unfenced_once_it_has_read_so_far() -> None:
    image, epoch = register(an_image(), registration())
    assert epoch == 50 and image.brokers[1].fenced
    image, answer = beat(image, Sessions(9000), 1, current_metadata_offset=49)
    assert answer.is_fenced and not answer.is_caught_up
    image, answer = beat(image, Sessions(9000), 1, current_metadata_offset=50)
    assert not answer.is_fenced and not image.brokers[1].fenced


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


def test_stale_epochs_and_strangers() -> None:
    for number in (1, 9):
        request = BrokerHeartbeatRequest(
            broker_id=number, broker_epoch=3, current_metadata_offset=1, want_fence=False, want_shut_down=False
        )
        with pytest.raises(KafkaError) as error:
            broker_heartbeat(an_image(1), SCHEMA, Sessions(9000), request, now_ms=0, next_offset=0)
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_fenced_leader_hands_over() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    image = image.apply(fence(image, SCHEMA, 1))
    assert (partition(image).leader, partition(image).isr, partition(image).leader_epoch) == (2, (2,), 1)
    assert image.brokers[1].fenced


def test_the_last_in_sync_replica_stays_eligible_and_leads_again() -> None:
    image = with_topic(an_image(1), 1)
    image = image.apply(fence(image, SCHEMA, 1))
    assert (partition(image).leader, partition(image).isr, partition(image).elr, partition(image).last_known_elr) == (-1, (), (1,), (1,))
    image, _ = beat(image, Sessions(9000), 1)
    found = partition(image)
    assert (found.leader, found.isr, found.elr, found.last_known_elr, found.leader_epoch, found.leader_recovery_state) == (
        1,
        (1,),
        (),
        (),
        2,
        0,
    )


def test_after_an_unclean_stop_the_last_known_leader_leads_recovering() -> None:
    """Nobody else is left; what it had not synced may be gone, so the partition says so."""
    image = with_topic(an_image(1), 1)
    image, _ = register(image, registration(previous_broker_epoch=-1))
    assert (partition(image).leader, partition(image).isr, partition(image).elr, partition(image).last_known_elr) == (-1, (), (), (1,))
    image, _ = beat(image, Sessions(9000), 1)
    found = partition(image)
    assert (found.leader, found.isr, found.leader_recovery_state, found.last_known_elr) == (1, (1,), 1, ())


def test_after_a_clean_stop_nothing_is_recovering() -> None:
    image = with_topic(an_image(1), 1)
    image, _ = register(image, registration(previous_broker_epoch=7))
    image, _ = beat(image, Sessions(9000), 1)
    assert (partition(image).leader, partition(image).leader_recovery_state) == (1, 0)


def test_a_controlled_shutdown() -> None:
    sessions = Sessions(9000)
    image = with_topic(an_image(1, 2), 1, 2)
    image, answer = beat(image, sessions, 2, current_metadata_offset=55)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert not answer.should_shut_down and image.brokers[1].in_controlled_shutdown
    assert partition(image).leader == 2 and partition(image).isr == (2,)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert not answer.should_shut_down, "broker 2 has not read so far: it might still fetch from here"
    image, _ = beat(image, sessions, 2, current_metadata_offset=99)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert answer.should_shut_down and image.brokers[1].fenced


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    image, answer = beat(an_image(1), Sessions(9000), 1, want_shut_down=True)
    assert answer.should_shut_down and image.brokers[1].fenced


def test_silence_ends_a_session() -> None:
    sessions, image = Sessions(9000), an_image(1, 2, fenced=(2,))
    sessions.adopt([1, 2], now_ms=100)
    assert sessions.overdue(image, 9_099) == []
    assert sessions.overdue(image, 9_100) == [1], "the fenced one is gone already"


def test_a_lost_directory_takes_its_replicas_out() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    image, _ = beat(image, Sessions(9000), 1, offline_log_dirs=[UUID(int=5001)])
    assert partition(image).isr == (2,) and partition(image).leader == 2


def test_unregistering() -> None:
    image = with_topic(an_image(1, 2), 1, 2)
    outcome = unregister_broker(image, SCHEMA, UnregisterBrokerRequest(broker_id=1))
    image = image.apply(outcome.records)
    assert list(image.brokers) == [2] and partition(image).leader == 2 and 1 not in partition(image).elr
    stranger = unregister_broker(image, SCHEMA, UnregisterBrokerRequest(broker_id=9))
    assert stranger.response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED and not stranger.records


def test_blocks_of_producer_ids_never_overlap() -> None:
    image, starts = an_image(1), []
    for _ in range(3):
        outcome = allocate_producer_ids(image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=7))
        starts.append(outcome.response.producer_id_start)
        image = image.apply(outcome.records)
    assert starts == [0, BLOCK_SIZE, 2 * BLOCK_SIZE]
