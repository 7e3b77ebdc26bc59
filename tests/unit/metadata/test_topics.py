"""Decisions about topics: the records written, the refusals, and that nothing else happens."""

from random import Random
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.delta import replay
from moldau.metadata.image import EMPTY, MetadataImage
from moldau.metadata.placement import UsableBroker, place
from moldau.metadata.records import (
    METADATA_RECORDS,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.metadata.topics import create_partitions, create_topics, delete_topics
from moldau.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.types import DIRECTORY_MIGRATING, ZERO_UUID
from proof.cluster.images import an_image, rules


def a_topic(name: str, partitions: int = 1, factor: int = 1, **more: object) -> CreatableTopic:
    fields = {"assignments": [], "configs": [], **more}
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)  # type: ignore[arg-type]


def create(image: MetadataImage, *topics: CreatableTopic, validate_only: bool = False) -> tuple[list[object], list[int]]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    outcome = create_topics(image, rules(), request)
    return list(outcome.records), [result.error_code for result in outcome.response.topics]


def with_topics(image: MetadataImage, *names: str) -> MetadataImage:
    outcome = create_topics(image, rules(), CreateTopicsRequest(topics=[a_topic(name, 2) for name in names]))
    return replay(image, outcome.records)


def test_a_topic_is_its_record_its_configs_and_its_partitions() -> None:
    config = CreatableTopicConfig(name="retention.ms", value="5")
    records, codes = create(an_image(1), a_topic("orders", 2, configs=[config]))
    assert codes == [0]
    assert [type(record) for record in records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    image = replay(an_image(1), records)  # type: ignore[arg-type]
    topic = image.topics["orders"]
    assert [(one.replicas, one.isr, one.leader, one.leader_epoch, one.partition_epoch) for one in topic.partitions] == [
        ((1,), (1,), 1, 0, 0)
    ] * 2
    assert topic.partitions[0].directories == (UUID(int=5001),), "a broker with one directory has no choice"
    assert image.topic_config("orders") == {"retention.ms": "5"}


def test_an_old_log_is_told_what_it_can_hold() -> None:
    """metadata.version 8 knows neither directories nor eligible replicas."""
    image = with_topics(an_image(1, level=8), "t")
    again = replay(EMPTY, [METADATA_RECORDS.decode(data) for data in image.encoded()])
    assert again.topics["t"].partitions[0].replicas == (1,)
    assert again.topics["t"].partitions[0].directories == (DIRECTORY_MIGRATING,)
    assert again.brokers[1].log_dirs == () and image.brokers[1].log_dirs


def test_only_validating_writes_nothing() -> None:
    assert create(an_image(1), a_topic("orders"), validate_only=True) == ([], [0])


def test_each_topic_stands_for_itself() -> None:
    records, codes = create(an_image(1), a_topic("a b"), a_topic("good"), a_topic("big", 1, 3))
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, 0, ErrorCode.INVALID_REPLICATION_FACTOR]
    assert [record.name for record in records if isinstance(record, TopicRecord)] == ["good"]


def test_twice_in_a_request_is_neither() -> None:
    assert create(an_image(1), a_topic("t"), a_topic("t")) == ([], [ErrorCode.INVALID_REQUEST])


def test_what_exists_and_what_collides() -> None:
    image = with_topics(an_image(1), "a.b")
    assert create(image, a_topic("a.b"))[1] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert create(image, a_topic("a_b"))[1] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    gone = replay(image, [RemoveTopicRecord(topic_id=image.topics["a.b"].id)])
    assert create(gone, a_topic("a_b"))[1] == [0]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (a_topic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (a_topic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (a_topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (a_topic("t", 1, 9), ErrorCode.INVALID_REPLICATION_FACTOR),
        (a_topic("t", 10_001), ErrorCode.POLICY_VIOLATION),
        (a_topic("t", 1 << 30), ErrorCode.POLICY_VIOLATION),
        (a_topic("t", configs=[CreatableTopicConfig(name="nosuch", value="1")]), ErrorCode.INVALID_CONFIG),
        (a_topic("t", configs=[CreatableTopicConfig(name="segment.bytes", value="x")]), ErrorCode.INVALID_CONFIG),
        (a_topic("t", configs=[CreatableTopicConfig(name="segment.bytes", value=None)]), ErrorCode.INVALID_CONFIG),
        (a_topic("t", 1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]), ErrorCode.INVALID_REQUEST),
        (
            a_topic("t", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=1, broker_ids=[1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            a_topic("t", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            a_topic("t", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (a_topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_writes_nothing(topic: CreatableTopic, code: ErrorCode) -> None:
    assert create(an_image(1, 2), topic) == ([], [code])


def test_a_tiered_topic_has_its_broker_for_itself() -> None:
    """The other broker would hold replicas without the store, and their older records would be gone there."""
    tiered = a_topic("t", configs=[CreatableTopicConfig(name="remote.storage.enable", value="true")])
    request = CreateTopicsRequest(topics=[tiered])
    with_store = rules({"remote.log.storage.system.enable": "true"})
    answers = [create_topics(an_image(*brokers), with_store, request) for brokers in ((1,), (1, 2))]
    assert [answer.response.topics[0].error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
    assert "2 are registered" in str(answers[1].response.topics[0].error_message) and not answers[1].records


def test_a_fenced_broker_is_no_replica_to_lead() -> None:
    assert create(an_image(1, fenced=(1,)), a_topic("t"))[1] == [ErrorCode.INVALID_REPLICATION_FACTOR]
    records, _ = create(an_image(1, 2, fenced=(2,)), a_topic("t", 1, 2))
    partition = next(record for record in records if isinstance(record, PartitionRecord))
    assert (partition.replicas, partition.isr, partition.leader) == ([1, 2], [1], 1)


def test_names() -> None:
    assert invalid_topic_reason("x" * 249) is None and invalid_topic_reason("x" * 250) is not None
    for name in ("", ".", "..", "a b", "ä", "a/b", "a\n"):
        assert invalid_topic_reason(name) is not None, name
    for name in ("a", "A.b_c-9", "...", "__consumer_offsets"):
        assert invalid_topic_reason(name) is None, name


def delete(image: MetadataImage, *states: DeleteTopicState) -> tuple[list[object], list[tuple[str | None, int]]]:
    outcome = delete_topics(image, DeleteTopicsRequest(topics=list(states), timeout_ms=1), is_enabled=True, version=6)
    return list(outcome.records), [(one.name, one.error_code) for one in outcome.response.responses]


def test_deleting_by_name_and_by_id() -> None:
    image = with_topics(an_image(1), "a", "b")
    a, b = image.topics["a"].id, image.topics["b"].id
    records, answers = delete(image, DeleteTopicState(name="a", topic_id=ZERO_UUID), DeleteTopicState(topic_id=b))
    assert records == [RemoveTopicRecord(topic_id=a), RemoveTopicRecord(topic_id=b)]
    assert answers == [("a", 0), ("b", 0)]
    assert not replay(image, records).topics  # type: ignore[arg-type]


def test_naming_a_topic_by_both_deletes_nothing() -> None:
    image = with_topics(an_image(1), "a")
    states = DeleteTopicState(name="a", topic_id=ZERO_UUID), DeleteTopicState(topic_id=image.topics["a"].id)
    assert delete(image, *states) == ([], [("a", ErrorCode.INVALID_REQUEST)])


def test_deletion_that_is_off() -> None:
    for version, code in ((1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
        with pytest.raises(KafkaError) as error:
            delete_topics(an_image(1), DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), is_enabled=False, version=version)
        assert error.value.code is code


def grow(image: MetadataImage, count: int, assignments: list[list[int]] | None = None) -> tuple[list[object], int]:
    placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=one) for one in assignments]
    topic = CreatePartitionsTopic(name="a", count=count, assignments=placed)
    outcome = create_partitions(image, rules(), CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False))
    return list(outcome.records), outcome.response.results[0].error_code


def test_growing() -> None:
    image = with_topics(an_image(1, 2), "a")
    records, code = grow(image, 4)
    assert code == 0 and [record.partition_id for record in records if isinstance(record, PartitionRecord)] == [2, 3]
    assert grow(image, 2) == ([], ErrorCode.INVALID_PARTITIONS)
    assert grow(image, 1) == ([], ErrorCode.INVALID_PARTITIONS)
    assert grow(image, 3, [[1], [2]]) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert grow(image, 3, [[1, 2]]) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert grow(image, 20_000) == ([], ErrorCode.POLICY_VIOLATION)
    assert grow(an_image(1), 4) == ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_replicas_are_spread_over_racks_and_leaders_over_brokers() -> None:
    brokers = [UsableBroker(number, "abc"[number % 3], fenced=number == 5) for number in range(6)]
    placed = place(brokers, partition_count=300, replication_factor=3, chance=Random(4))
    for replicas in placed:
        assert len({number % 3 for number in replicas}) == 3, "one in each rack"
        assert replicas[0] != 5, "a fenced broker does not lead"
    leads = [sum(replicas[0] == number for replicas in placed) for number in range(5)]
    assert min(leads) > 30, leads


def test_nothing_is_placed_on_a_broker_that_stops_or_takes_nothing_more() -> None:
    """A broker is passed over while it hands its leaderships over, and while all of its directories are cordoned."""
    for leaving in ({"in_controlled_shutdown": 1}, {"cordoned_log_dirs": [UUID(int=5002)]}):
        image = replay(an_image(1, 2, 3), [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=7, **leaving)])  # type: ignore[arg-type]
        asked = [CreatableTopic(name="t", num_partitions=30, replication_factor=2, assignments=[], configs=[])]
        image = replay(image, create_topics(image, rules(), CreateTopicsRequest(topics=asked)).records)
        assert {broker for one in image.topics["t"].partitions for broker in one.replicas} == {1, 3}
        three = [CreatableTopic(name="u", num_partitions=1, replication_factor=3, assignments=[], configs=[])]
        refused = create_topics(image, rules(), CreateTopicsRequest(topics=three)).response.topics[0]
        assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
