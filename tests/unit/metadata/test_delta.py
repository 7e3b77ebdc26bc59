"""Records change an image, and publishers are told of the change; the properties of both are in tests/property/metadata."""

from typing import Any
from uuid import UUID

import pytest

from moldau.metadata import records as r
from moldau.metadata.delta import Delta, replay
from moldau.metadata.image import MetadataImage, Resource, ResourceType
from moldau.protocol.wire import StoredRecord
from moldau.types import DIRECTORY_MIGRATING
from proof.cluster.images import an_image

A, B = UUID(int=1), UUID(int=2)
DIRECTORIES = [UUID(int=101), UUID(int=102)]


def a_topic(topic_id: UUID = A, name: str = "a", **more: Any) -> list[StoredRecord]:
    """The records of a topic with two partitions on brokers 1 and 2."""
    return [
        r.TopicRecord(name=name, topic_id=topic_id),
        *(
            r.PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                **{
                    "replicas": [1, 2],
                    "isr": [1, 2],
                    "removing_replicas": [],
                    "adding_replicas": [],
                    "leader": 1,
                    "leader_epoch": 0,
                    "partition_epoch": 0,
                    "directories": DIRECTORIES,
                    **more,
                },
            )
            for number in (0, 1)
        ),
    ]


def a_config(name: str, value: str | None, topic: str = "a") -> r.ConfigRecord:
    return r.ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)


def replayed(image: MetadataImage, *records: StoredRecord) -> tuple[Delta, MetadataImage]:
    delta = Delta(image)
    for record in records:
        delta.replay(record)
    return delta, delta.apply()


BASE = replay(an_image(1, 2), a_topic())


def test_a_topic_that_comes_and_goes_at_once_was_never_there() -> None:
    delta, image = replayed(BASE, *a_topic(B, "b"), a_config("retention.ms", "5", "b"), r.RemoveTopicRecord(topic_id=B))
    assert image == BASE and delta.changed_topics == {} and delta.deleted_topics == {}
    assert delta.changed_configs == {Resource(ResourceType.TOPIC, "b"): {"retention.ms"}}


def test_a_deleted_topic_takes_its_configs_and_its_changes_along() -> None:
    image = replay(BASE, [a_config("retention.ms", "5")])
    change = r.PartitionChangeRecord(partition_id=0, topic_id=A, leader=2)
    delta, after = replayed(image, change, r.RemoveTopicRecord(topic_id=A))
    assert after.topics == {} and after.topic_names == {} and after.configs == {}
    assert delta.changed_topics == {} and list(delta.deleted_topics) == [A]
    assert delta.changed_configs == {Resource(ResourceType.TOPIC, "a"): {"retention.ms"}}
    again, made = replayed(image, r.RemoveTopicRecord(topic_id=A), *a_topic(B, "a"))
    assert made.topics["a"].id == B and list(again.deleted_topics) == [A] and again.changed_topics == {B: {0, 1}}
    with pytest.raises(AssertionError, match="the topic a exists"):
        replayed(image, r.TopicRecord(name="a", topic_id=B))
    with pytest.raises(AssertionError, match="there is no topic"):
        replayed(image, r.RemoveTopicRecord(topic_id=A), change)


def test_names_that_collide_are_known_until_none_is_left() -> None:
    image = replay(BASE, [*a_topic(A, "x.y")[:1], *a_topic(B, "x_z")[:1]])
    assert image.colliding_names == {"x_y": ("x.y",), "x_z": ("x_z",)}
    assert replayed(image, r.RemoveTopicRecord(topic_id=B))[1].colliding_names == {"x_y": ("x.y",)}


def test_brokers_are_fenced_unfenced_and_told_of_only_what_changed() -> None:
    def broker(*records: StoredRecord) -> tuple[bool, bool, tuple[UUID, ...], tuple[UUID, ...] | None]:
        delta, image = replayed(BASE, *records)
        found = image.brokers[1]
        assert delta.changed_brokers == {1: found}
        return found.fenced, found.in_controlled_shutdown, found.log_dirs, found.cordoned_log_dirs

    def change(**fields: Any) -> r.BrokerRegistrationChangeRecord:
        return r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, **fields)

    here = BASE.brokers[1].log_dirs
    assert broker(r.FenceBrokerRecord(id=1, epoch=7)) == (True, False, here, None)
    assert broker(r.FenceBrokerRecord(id=1, epoch=7), r.UnfenceBrokerRecord(id=1, epoch=7)) == (False, False, here, None)
    assert broker(change(fenced=1)) == (True, False, here, None)
    assert broker(change(fenced=1), change(in_controlled_shutdown=1)) == (True, True, here, None)
    assert broker(change(fenced=1), change(fenced=-1)) == (False, False, here, None)
    assert broker(change(log_dirs=[B])) == (False, False, (B,), None)
    assert broker(change(cordoned_log_dirs=[B]), change(fenced=1)) == (True, False, here, (B,))
    assert broker(change(cordoned_log_dirs=[B]), change(cordoned_log_dirs=[])) == (False, False, here, ())
    with pytest.raises(AssertionError, match="broker 1 is at epoch 7, not 6"):
        replayed(BASE, r.FenceBrokerRecord(id=1, epoch=6))
    assert replayed(BASE, r.UnregisterBrokerRecord(broker_id=1, broker_epoch=7))[0].changed_brokers == {1: None}


def test_configs_features_and_quotas_go_with_their_last_value() -> None:
    resource = Resource(ResourceType.TOPIC, "a")
    delta, image = replayed(BASE, a_config("flush.ms", "5"), a_config("retention.ms", "6"), a_config("flush.ms", None))
    assert image.configs == {resource: {"retention.ms": "6"}} and delta.changed_configs == {resource: {"flush.ms", "retention.ms"}}
    assert replayed(image, a_config("retention.ms", None))[1].configs == {}
    delta, image = replayed(BASE, r.FeatureLevelRecord(name="f", feature_level=3))
    assert image.features["f"] == 3 and delta.changed_features == {"f"}
    delta, image = replayed(image, r.FeatureLevelRecord(name="f", feature_level=0))
    assert "f" not in image.features and delta.changed_features == {"f"}

    def quota(value: float, *, remove: bool = False) -> r.ClientQuotaRecord:
        entity = [r.EntityData(entity_type="user", entity_name="u"), r.EntityData(entity_type="client-id", entity_name=None)]
        return r.ClientQuotaRecord(entity=entity, key="rate", value=value, remove=remove)

    entity = (("client-id", None), ("user", "u"))
    delta, image = replayed(BASE, quota(5.0))
    assert image.quotas == {entity: {"rate": 5.0}} and delta.changed_quotas == {entity}
    assert replayed(image, quota(0.0, remove=True))[1].quotas == {}


def test_eligible_replicas_are_cleared_of_one_topic_or_of_all() -> None:
    image = replay(
        an_image(1, 2),
        [
            *a_topic(A, "a", eligible_leader_replicas=[2]),
            *a_topic(B, "b", last_known_elr=[1]),
            *a_topic(UUID(int=3), "c"),
        ],
    )
    delta, one = replayed(image, r.ClearElrRecord(topic_name="a"))
    assert delta.changed_topics == {A: {0, 1}} and all(not each.elr for each in one.topics["a"].partitions)
    assert one.topics["b"] == image.topics["b"]
    delta, every = replayed(image, r.ClearElrRecord(topic_name=""))
    assert delta.changed_topics == {A: {0, 1}, B: {0, 1}}
    assert all(not each.elr and not each.last_known_elr for topic in every.topics.values() for each in topic.partitions)


def test_a_partition_change_merges_what_it_says() -> None:
    def after(**fields: Any) -> Any:
        return replayed(BASE, r.PartitionChangeRecord(partition_id=1, topic_id=A, **fields))[1].topics["a"].partitions[1]

    before = BASE.topics["a"].partitions[1]
    assert after(isr=[2]) == before._replace(isr=(2,), partition_epoch=1)
    assert after(leader=2) == before._replace(leader=2, leader_epoch=1, partition_epoch=1)
    assert after(leader=1) == before._replace(leader_epoch=1, partition_epoch=1), "the same leader begins another epoch"
    assert after(leader_recovery_state=1).leader_recovery_state == 1
    assert after(replicas=[2, 3]).directories == (DIRECTORIES[1], DIRECTORY_MIGRATING)
    assert after(replicas=[2, 3], directories=[A, B]).directories == (A, B)
    assert after(directories=[A, B]).directories == (A, B)
    with pytest.raises(AssertionError, match="2 replicas in 1 directories"):
        after(directories=[A])


def test_what_lies_between_two_images_is_all_that_differs() -> None:
    changes: list[StoredRecord] = [
        r.PartitionChangeRecord(partition_id=1, topic_id=A, leader=2),
        *a_topic(B, "b"),
        a_config("flush.ms", "5"),
        r.FeatureLevelRecord(name="f", feature_level=3),
        r.ClientQuotaRecord(entity=[r.EntityData(entity_type="user", entity_name="u")], key="rate", value=1.0, remove=False),
        r.AccessControlEntryRecord(
            id=A, resource_type=2, resource_name="a", pattern_type=3, principal="User:u", host="*", operation=2, permission_type=3
        ),
        r.UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096),
        r.DelegationTokenRecord(
            owner="o", requester="o", renewers=[], issue_timestamp=1, max_timestamp=2, expiration_timestamp=2, token_id="t"
        ),
        r.FenceBrokerRecord(id=2, epoch=7),
    ]
    replay, after = replayed(BASE, *changes)
    between = Delta.between(BASE, after)
    assert between.applied is after
    assert between.changed_topics == replay.changed_topics == {A: {1}, B: {0, 1}}
    for name in ("brokers", "configs", "features", "quotas", "acls", "scram", "tokens"):
        told = getattr(between, f"changed_{name}")
        assert told and told == getattr(replay, f"changed_{name}"), name
    back = Delta.between(after, BASE)
    assert list(back.deleted_topics) == [B] and back.changed_topics == {A: {1}}
    removed, _ = replayed(
        after,
        r.RemoveAccessControlEntryRecord(id=A),
        r.RemoveUserScramCredentialRecord(name="u", mechanism=1),
        r.RemoveDelegationTokenRecord(token_id="t"),
    )
    assert (removed.changed_acls, removed.changed_scram, removed.changed_tokens) == ({A}, {("u", 1)}, {"t"})
