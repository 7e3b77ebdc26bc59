"""An image is the same whether it is made record by record, in batches, from its own snapshot or through bytes."""

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from moldau.metadata.delta import Delta, replay
from moldau.metadata.image import EMPTY, MetadataImage, Resource, encode_record
from moldau.metadata.records import (
    METADATA_RECORDS,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from moldau.protocol.wire import StoredRecord
from proof.cluster.images import a_broker

LEVEL = 30
NAMES = st.sampled_from(["orders", "a.b", "a_b", "a_c", "payments", "x"])
KEYS = st.sampled_from(["retention.ms", "segment.bytes", "cleanup.policy"])
BROKERS = st.integers(1, 4)
IDS = st.integers(1, 6).map(lambda number: UUID(int=number))


class ImageMachine(RuleBasedStateMachine):
    """One image grows record by record; the others are made of the same records in other ways."""

    topics = Bundle("topics")

    @initialize()
    def start(self) -> None:
        self.batch: list[StoredRecord] = []
        self.committed = EMPTY
        self.image = EMPTY
        self.names: dict[str, UUID] = {}
        self.partitions: dict[UUID, int] = {}
        self.next_id = 100
        self.offset = -1
        self.write(FeatureLevelRecord(name="metadata.version", feature_level=LEVEL))

    def write(self, record: StoredRecord) -> None:
        """A record goes through bytes, as a log stores it."""
        self.offset += 1
        stored = METADATA_RECORDS.decode(encode_record(record, LEVEL))
        assert stored == record
        self.batch.append(record)
        self.image = replay(self.image, [stored], offset=self.offset)

    @rule(target=topics, name=NAMES, count=st.integers(1, 4), broker=BROKERS)
    def create(self, name: str, count: int, broker: int) -> UUID:
        if name in self.names:
            return self.names[name]
        self.next_id += 1
        topic_id = self.names[name] = UUID(int=self.next_id)
        self.partitions[topic_id] = count
        self.write(TopicRecord(name=name, topic_id=topic_id))
        for number in range(count):
            self.write(a_partition(topic_id, number, broker))
        return topic_id

    @rule(topic_id=topics, broker=BROKERS)
    def grow(self, topic_id: UUID, broker: int) -> None:
        if topic_id in self.partitions:
            self.write(a_partition(topic_id, self.partitions[topic_id], broker))
            self.partitions[topic_id] += 1

    @rule(topic_id=topics, leader=st.sampled_from([-2, -1, 1, 2]), isr=st.none() | st.lists(BROKERS, unique=True), data=st.data())
    def change(self, topic_id: UUID, leader: int, isr: list[int] | None, data: st.DataObject) -> None:
        if topic_id not in self.partitions:
            return
        number = data.draw(st.integers(0, self.partitions[topic_id] - 1))
        topic = self.image.topic(topic_id)
        assert topic is not None
        before = topic.partitions[number]
        self.write(PartitionChangeRecord(partition_id=number, topic_id=topic_id, leader=leader, isr=isr))
        topic = self.image.topic(topic_id)
        assert topic is not None
        after = topic.partitions[number]
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch == before.leader_epoch + (leader != -2)
        assert after.leader == (before.leader if leader == -2 else leader)
        assert after.isr == (before.isr if isr is None else tuple(isr))

    @rule(topic_id=consumes(topics))
    def delete(self, topic_id: UUID) -> None:
        if self.partitions.pop(topic_id, None) is not None:
            self.names = {name: one for name, one in self.names.items() if one != topic_id}
            self.write(RemoveTopicRecord(topic_id=topic_id))

    @rule(broker=BROKERS, fenced=st.booleans())
    def register(self, broker: int, fenced: bool) -> None:
        self.write(a_broker(broker, fenced=fenced, epoch=self.offset + 1))
        assert self.image.broker_epoch(broker) == self.offset

    @rule(broker=BROKERS, fenced=st.sampled_from([-1, 0, 1]), stops=st.sampled_from([0, 1]))
    def change_broker(self, broker: int, fenced: int, stops: int) -> None:
        before = self.image.brokers.get(broker)
        if before is not None:
            record = BrokerRegistrationChangeRecord(
                broker_id=broker, broker_epoch=before.epoch, fenced=fenced, in_controlled_shutdown=stops
            )
            self.write(record)
            assert self.image.brokers[broker].fenced == (before.fenced if fenced == 0 else fenced == 1)

    @rule(broker=BROKERS)
    def unregister(self, broker: int) -> None:
        known = self.image.brokers.get(broker)
        if known is not None:
            self.write(UnregisterBrokerRecord(broker_id=broker, broker_epoch=known.epoch))

    @rule(name=NAMES, key=KEYS, value=st.none() | st.text("01", max_size=3))
    def configure(self, name: str, key: str, value: str | None) -> None:
        self.write(ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))
        assert self.image.topic_config(name).get(key) == value

    @rule(user=NAMES, value=st.floats(1, 9), remove=st.booleans())
    def limit(self, user: str, value: float, remove: bool) -> None:
        entity = [EntityData(entity_type="user", entity_name=user), EntityData(entity_type="client-id", entity_name=None)]
        self.write(ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove))
        held = self.image.quotas.get((("client-id", None), ("user", user)), {})
        assert held == ({} if remove else {"producer_byte_rate": value})

    @rule(one=IDS, exists=st.booleans())
    def allow(self, one: UUID, exists: bool) -> None:
        if exists:
            self.write(
                AccessControlEntryRecord(
                    id=one, resource_type=2, resource_name="x", pattern_type=3, principal="User:a", host="*", operation=3, permission_type=3
                )
            )
        elif one in self.image.acls:
            self.write(RemoveAccessControlEntryRecord(id=one))
        assert (one in self.image.acls) == exists

    @rule(user=NAMES, exists=st.booleans())
    def credential(self, user: str, exists: bool) -> None:
        if exists:
            self.write(UserScramCredentialRecord(name=user, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096))
        elif (user, 1) in self.image.scram:
            self.write(RemoveUserScramCredentialRecord(name=user, mechanism=1))

    @rule(token=NAMES, exists=st.booleans())
    def token(self, token: str, exists: bool) -> None:
        if exists:
            self.write(
                DelegationTokenRecord(
                    owner="User:a",
                    requester="User:a",
                    renewers=["User:b"],
                    issue_timestamp=1,
                    max_timestamp=3,
                    expiration_timestamp=2,
                    token_id=token,
                )
            )
        elif token in self.image.delegation_tokens:
            self.write(RemoveDelegationTokenRecord(token_id=token))

    @rule(count=st.integers(1, 2000))
    def hand_out_ids(self, count: int) -> None:
        before = self.image.next_producer_id
        self.write(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=before + count))
        assert self.image.next_producer_id == before + count

    @rule(name=st.sampled_from(["group.version", "transaction.version"]), level=st.integers(0, 2))
    def finalize(self, name: str, level: int) -> None:
        self.write(FeatureLevelRecord(name=name, feature_level=level))
        assert self.image.features.get(name, 0) == level

    @rule()
    def commit(self) -> None:
        """The batch so far becomes one delta: the image is the same, and the delta tells what changed."""
        self.write(NoOpRecord())
        delta = Delta(self.committed)
        for record in self.batch:
            delta.replay(record)
        whole = delta.apply(offset=self.offset)
        assert whole == self.image
        told = Delta.between(self.committed, whole)
        assert told.deleted_topics.keys() == delta.deleted_topics.keys()
        assert told.changed_topics.keys() <= delta.changed_topics.keys()
        assert told.changed_brokers.items() <= delta.changed_brokers.items()
        assert told.changed_configs.keys() <= delta.changed_configs.keys()
        self.committed, self.batch = whole, []

    @invariant()
    def a_snapshot_is_the_same_image(self) -> None:
        again = replay(EMPTY, [METADATA_RECORDS.decode(data) for data in self.image.encoded()], offset=self.image.offset)
        assert again == self.image

    @invariant()
    def topics_are_found_both_ways(self) -> None:
        image: MetadataImage = self.image
        assert {name: topic.id for name, topic in image.topics.items()} == self.names
        assert {topic_id: len(topic.partitions) for topic_id in self.partitions if (topic := image.topic(topic_id))} == self.partitions
        assert dict(image.topic_names) == {topic_id: name for name, topic_id in self.names.items()}
        collisions = {name.replace(".", "_") for name in self.names if set(name) & set("._")}
        assert image.colliding_names.keys() == collisions
        assert Resource(2, "nobody") not in image.configs


def a_partition(topic_id: UUID, number: int, broker: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=[broker],
        isr=[broker],
        removing_replicas=[],
        adding_replicas=[],
        leader=broker,
        leader_epoch=0,
        partition_epoch=0,
        directories=[UUID(int=500)],
    )


TestImage = ImageMachine.TestCase
TestImage.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
