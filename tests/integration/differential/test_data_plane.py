"""The data plane's answers beside Apache Kafka's, with good and bad inputs.  Each case names the fields that may differ."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.wire import Request
from proof.kafka.differential import Differential, RawClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

NOW_MS = int(time.time() * 1000)
UNKNOWN_ID = UUID("12345678-1234-4234-8234-123456789abc")
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "tiny": {"max.message.bytes": "200"},
    "compact": {"cleanup.policy": "compact"},
    "kept": {"cleanup.policy": ""},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "strict": {"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "1000"},
    "gzipped": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "minisr": {"min.insync.replicas": "2"},
    "idempotent": {},
    "differs": {},
}

SAID = {"responses.partition_responses.error_message", "responses.partition_responses.record_errors.batch_index_error_message"}
"""Sentences for people, which are our own."""
STAMPS = {"responses.partition_responses.log_append_time_ms", "topics.partitions.timestamp"}


class Case(NamedTuple):
    """`version`: one, or several that are all asked.  `known`: fields that differ on purpose."""

    request: Request[Any]
    version: int | Sequence[int]
    known: Sequence[str] = ()


def batch(*values: bytes | None, key: bytes | None = None, timestamp: int = NOW_MS, **options: Any) -> bytearray:
    return build_batch([NewRecord(timestamp, key, value) for value in values], **options)


def broken(change: Callable[[bytearray], object], *values: bytes, **options: Any) -> bytearray:
    data = batch(*(values or (b"value",)), **options)
    change(data)
    return data


def at(position: int, raw: bytes) -> Callable[[bytearray], object]:
    return lambda data: data.__setitem__(slice(position, position + len(raw)), raw)


def resealed(change: Callable[[bytearray], object], **options: Any) -> bytearray:
    """A changed batch with a CRC that fits again: only a look at its fields shows the fault."""
    import crc32c

    data = broken(change, **options)
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


def produce(
    data: bytes | bytearray | None, *, topic: str = "plain", index: int = 0, acks: int = 1, transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=data)])],
    )


def sequenced(sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 77_000) -> ProduceRequest:
    values = [b"value"] * count
    return produce(batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence), topic="idempotent")


def fetch(
    offset: int, *, topic: str = "plain", index: int = 0, epoch: int = -1, last_epoch: int = -1, isolation: int = 0, **more: Any
) -> FetchRequest:
    wanted = FetchPartition(
        partition=index, fetch_offset=offset, current_leader_epoch=epoch, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        **({"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | more),
    )


def offsets(timestamp: int, *, topic: str = "plain", index: int = 0, epoch: int = -1, **more: Any) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])], **({"replica_id": -1} | more))


def epoch_end(epoch: int, *, topic: str = "plain", index: int = 0, current: int = -1, replica_id: int = -1) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])


def delete_before(offset: int, *, topic: str = "plain", index: int = 0) -> DeleteRecordsRequest:
    asked = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=5000)


def init(transactional_id: str | None, *, producer_id: int = -1, epoch: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )


def producers_of(topic: str, *indexes: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(indexes))])


PRODUCE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
FETCH = list(range(4, 13))

PRODUCED_TWICE = produce(batch(b"one", b"two", b"three"), topic="kept")
PRODUCED_TWICE.topic_data += produce(batch(b"four"), topic="kept").topic_data
FETCHED_TWICE = fetch(0, topic="kept")
FETCHED_TWICE.topics += fetch(2, topic="kept").topics
CASES: dict[str, Case] = {
    # writing
    "produce in every version": Case(produce(batch(b"one", b"two")), PRODUCE),
    "produce, acks all": Case(produce(batch(b"one"), acks=-1), PRODUCE),
    "produce, acks 2": Case(produce(batch(b"one"), acks=2), PRODUCE),
    "produce, acks -2": Case(produce(batch(b"one"), acks=-2), 9),
    "produce, acks 5, to an unknown partition": Case(produce(batch(b"one"), acks=5, index=7), PRODUCE),
    "produce nothing, acks 5": Case(produce(b"", acks=5), PRODUCE, [*SAID]),
    "produce two batches, acks 5": Case(produce(batch(b"one") + batch(b"two"), acks=5), PRODUCE, [*SAID]),
    "produce magic 3, acks 5": Case(produce(broken(at(16, b"\3")), acks=5), PRODUCE, [*SAID]),
    "produce to a partition twice": Case(PRODUCED_TWICE, PRODUCE),
    "the end of what was produced twice": Case(offsets(-1, topic="kept"), 7),
    "fetch a partition twice": Case(FETCHED_TWICE, FETCH, ["responses.partitions.records"]),
    "fetch a topic without a name": Case(fetch(0, topic=""), FETCH),
    "fetch with an epoch of -2": Case(fetch(0, epoch=-2), FETCH),
    "the end with an epoch of -2": Case(offsets(-1, epoch=-2), list(range(4, 12))),
    "the end of an epoch with an epoch of -2": Case(epoch_end(0, current=-2), [2, 3, 4]),
    "produce to an unknown topic": Case(produce(batch(b"one"), topic="nosuch"), PRODUCE),
    "produce to an unknown partition": Case(produce(batch(b"one"), index=7), PRODUCE),
    "produce to a negative partition": Case(produce(batch(b"one"), index=-1), 9),
    "produce to a bad name": Case(produce(batch(b"one"), topic="no such/topic"), 9),
    "produce by an unknown id": Case(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[
        TopicProduceData(topic_id=UNKNOWN_ID, partition_data=[PartitionProduceData(index=0, records=batch(b"one"))])]), 13),
    "produce nothing": Case(produce(b""), PRODUCE, [*SAID]),
    "produce no topics": Case(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[]), PRODUCE),
    "produce with a timestamp of the broker": Case(produce(batch(b"one"), topic="stamped"), PRODUCE, [*STAMPS]),
    "produce too large": Case(produce(batch(b"x" * 300), topic="tiny"), PRODUCE, [*SAID]),
    "produce without a key to a compacted topic": Case(produce(batch(b"one", b"two", b"three"), topic="compact"), PRODUCE, [*SAID]),
    "produce with a key to a compacted topic": Case(produce(batch(b"one", key=b"k"), topic="compact"), PRODUCE),
    "produce from the future": Case(produce(batch(b"one", timestamp=NOW_MS + 10**7), topic="strict"), PRODUCE, [*SAID]),
    "produce from the past": Case(produce(batch(b"one", timestamp=NOW_MS - 10**7), topic="strict"), PRODUCE, [*SAID]),
    "produce without a timestamp": Case(produce(batch(b"one", timestamp=-1), topic="plain"), 9, [*SAID]),
    "produce to too few replicas": Case(produce(batch(b"one"), topic="minisr", acks=-1), 9),
    "produce, recompressed": Case(produce(batch(b"one" * 100), topic="gzipped"), 9),
    "produce gzip": Case(produce(batch(b"one" * 100, codec=Codec.GZIP)), PRODUCE),
    "produce snappy": Case(produce(batch(b"one" * 100, codec=Codec.SNAPPY)), PRODUCE),
    "produce lz4": Case(produce(batch(b"one" * 100, codec=Codec.LZ4)), PRODUCE),
    "produce zstd": Case(produce(batch(b"one" * 100, codec=Codec.ZSTD)), PRODUCE, [*SAID]),
    # batches that lie
    "a base offset that is not 0": Case(produce(broken(at(0, b"\0\0\0\0\0\0\0\5"))), PRODUCE, [*SAID]),
    "a bad crc": Case(produce(broken(at(30, b"\xff\xff"))), PRODUCE, [*SAID]),
    "magic 1": Case(produce(broken(at(16, b"\1"))), PRODUCE, [*SAID]),
    "magic 3": Case(produce(broken(at(16, b"\3"))), PRODUCE, [*SAID]),
    "a torn batch": Case(produce(batch(b"value")[:-3]), PRODUCE, [*SAID]),
    "half a header": Case(produce(batch(b"value")[:40]), 9, [*SAID]),
    "two batches": Case(produce(batch(b"one") + batch(b"two")), PRODUCE, [*SAID]),
    "a batch length of 0": Case(produce(broken(at(8, b"\0\0\0\0"))), 9, [*SAID]),
    "a negative batch length": Case(produce(broken(at(8, b"\xff\xff\xff\xff"))), 9, [*SAID]),
    "a record count that is too high": Case(produce(resealed(at(57, b"\0\0\0\2"))), PRODUCE, [*SAID]),
    "two thousand million records, declared twice": Case(
        produce(resealed(lambda data: (at(57, b"\x7f\xff\xff\xff")(data), at(23, b"\x7f\xff\xff\xfe")(data)))), 9, [*SAID]
    ),
    "a record count of 0": Case(produce(resealed(at(57, b"\0\0\0\0"))), 9, [*SAID]),
    "a negative record count": Case(produce(resealed(at(57, b"\xff\xff\xff\xff"))), 9, [*SAID]),
    "a last offset delta that is too high": Case(produce(resealed(at(23, b"\0\0\0\4"))), 9, [*SAID]),
    "a negative last offset delta": Case(produce(resealed(at(23, b"\xff\xff\xff\xff"))), 9, [*SAID]),
    "a control batch": Case(produce(resealed(at(22, b"\x20"))), 9, [*SAID]),
    "a transactional batch without a transactional id": Case(
        produce(batch(b"one", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)), PRODUCE, [*SAID]),
    "a transactional batch without a producer": Case(
        produce(resealed(at(22, b"\x10")), transactional_id="t"), 9, [*SAID]),
    # sequences
    "an unknown producer begins anywhere": Case(sequenced(5), 9),
    "the next in sequence": Case(sequenced(6, count=3), 9),
    "a duplicate": Case(sequenced(6, count=3), PRODUCE),
    "a gap": Case(sequenced(20), PRODUCE, [*SAID]),
    "an old one": Case(sequenced(5), 9, [*SAID]),
    "a new epoch that does not begin at 0": Case(sequenced(9, epoch=1), 9, [*SAID]),
    "a new epoch": Case(sequenced(0, epoch=1), 9),
    "an old epoch": Case(sequenced(1, epoch=0), PRODUCE, [*SAID]),
    "a negative epoch": Case(sequenced(0, epoch=-1), 9, [*SAID]),
    "a negative sequence": Case(sequenced(-1), 9, [*SAID]),
    "six batches": Case(sequenced(1, epoch=1), 9),
    "six batches, 2": Case(sequenced(2, epoch=1), 9),
    "six batches, 3": Case(sequenced(3, epoch=1), 9),
    "six batches, 4": Case(sequenced(4, epoch=1), 9),
    "six batches, 5": Case(sequenced(5, epoch=1), 9),
    "a duplicate of the first of the last five": Case(sequenced(1, epoch=1), 9),
    "a duplicate of what came before them": Case(sequenced(0, epoch=1), 9, [*SAID]),
    "who wrote": Case(producers_of("idempotent", 0), 0),
    "who wrote to what is not": Case(producers_of("nosuch", 0), 0, ["topics.partitions.error_message"]),
    "who wrote to a partition that is not": Case(producers_of("idempotent", 9, 0), 0, ["topics.partitions.error_message"]),
    "who wrote to a bad name": Case(producers_of("no such/topic", 0), 0, ["topics.partitions.error_message"]),
    # reading
    "fetch from the start": Case(fetch(0, topic="idempotent"), FETCH),
    "fetch from the middle": Case(fetch(3, topic="idempotent"), FETCH),
    "fetch at the end": Case(fetch(14, topic="idempotent"), FETCH),
    "fetch beyond the end": Case(fetch(99_999), FETCH),
    "fetch before the start": Case(fetch(-5), FETCH),
    "fetch, read committed": Case(fetch(0, topic="idempotent", isolation=1), FETCH),
    "fetch, read committed, at the end": Case(fetch(14, topic="idempotent", isolation=1), FETCH),
    "fetch an unknown topic": Case(fetch(0, topic="nosuch"), FETCH),
    "fetch an unknown partition": Case(fetch(0, index=7), FETCH),
    "fetch a negative partition": Case(fetch(0, index=-7), 12),
    "fetch an unknown id": Case(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[
        FetchTopic(topic_id=UNKNOWN_ID, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])
    ]), range(13, 19)),
    "fetch with an older epoch": Case(fetch(0, epoch=-2), 12),
    "fetch with a newer epoch": Case(fetch(0, epoch=9), [9, 10, 11, 12]),
    "fetch with the epoch": Case(fetch(0, topic="idempotent", epoch=0), [9, 10, 11, 12]),
    "fetch after the epoch": Case(fetch(3, topic="idempotent", last_epoch=0), 12),
    "fetch after a newer epoch": Case(fetch(3, topic="idempotent", last_epoch=5), 12),
    "fetch after the epoch, beyond the end": Case(fetch(99, topic="idempotent", last_epoch=0), 12),
    "fetch zstd with an old client": Case(fetch(0, topic="zstd"), FETCH),
    "fetch as a follower that is none": Case(fetch(0, replica_id=9), 11),
    "fetch as this very broker": Case(fetch(0, replica_id=1), 11),
    "fetch nothing": Case(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[]), FETCH),
    "fetch one byte": Case(fetch(0, topic="idempotent", max_bytes=1), 12),
    "fetch no byte": Case(fetch(0, topic="idempotent", max_bytes=0), 12),
    "fetch with a session that is not": Case(fetch(0, session_id=123456, session_epoch=4), [7, 8, 9, 10, 11, 12]),
    "fetch, closing a session that is not": Case(fetch(0, topic="idempotent", session_id=123456, session_epoch=-1), 12),
    "forget without a session": Case(
        fetch(0, topic="idempotent", forgotten_topics_data=[ForgottenTopic(topic="plain", partitions=[0])]), 12),
    # where things are
    "latest": Case(offsets(-1), range(1, 12)),
    "latest, read committed": Case(offsets(-1, isolation_level=1), range(2, 12)),
    "latest for a debugger": Case(offsets(-1, replica_id=-2), range(1, 12)),
    "latest for a follower": Case(offsets(-1, replica_id=9), range(1, 12)),
    "earliest": Case(offsets(-2), range(1, 12)),
    "the largest timestamp": Case(offsets(-3), range(1, 12)),
    "the largest timestamp of nothing": Case(offsets(-3, topic="minisr", index=1), range(7, 12)),
    "earliest local": Case(offsets(-4), range(1, 12)),
    "latest tiered": Case(offsets(-5), range(1, 12)),
    "earliest pending upload": Case(offsets(-6), range(1, 12)),
    "a special timestamp that is not": Case(offsets(-7), range(1, 12)),
    "the first": Case(offsets(0), range(1, 12)),
    "a timestamp": Case(offsets(NOW_MS), range(1, 12)),
    "a timestamp to come": Case(offsets(NOW_MS + 10**9), range(1, 12)),
    "latest of what is not": Case(offsets(-1, topic="nosuch"), range(1, 12)),
    "latest of a partition that is not": Case(offsets(-1, index=9), range(1, 12)),
    "latest with a newer epoch": Case(offsets(-1, epoch=7), range(4, 12)),
    "latest with the epoch": Case(offsets(-1, epoch=0), range(4, 12)),
    "latest of one partition twice": Case(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="plain", partitions=[
        ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2)]), range(1, 12)),
    "latest of no partition": Case(ListOffsetsRequest(replica_id=-1, topics=[]), range(1, 12)),
    # epochs
    "the end of the epoch": Case(epoch_end(0), [2, 3, 4]),
    "the end of a newer epoch": Case(epoch_end(5), [2, 3, 4]),
    "the end of epoch -1": Case(epoch_end(-1), [2, 3, 4]),
    "the end of an epoch, fenced": Case(epoch_end(0, current=5), [2, 3, 4]),
    "the end of an epoch of what is not": Case(epoch_end(0, topic="nosuch"), [2, 3, 4]),
    "the end of an epoch of a partition that is not": Case(epoch_end(0, index=8), [2, 3, 4]),
    "the end of an epoch of nothing": Case(epoch_end(0, topic="minisr", index=1), [2, 3, 4]),
    # deleting
    "delete before 2": Case(delete_before(2), [0, 1, 2]),
    "delete before 1": Case(delete_before(1), [0, 1, 2]),
    "delete beyond the end": Case(delete_before(99_999), [0, 1, 2]),
    "delete before -2": Case(delete_before(-2), [0, 1, 2]),
    "delete from what is not": Case(delete_before(1, topic="nosuch"), [0, 1, 2]),
    "delete from a partition that is not": Case(delete_before(1, index=7), [0, 1, 2]),
    "delete from a compacted topic": Case(delete_before(1, topic="compact"), [0, 1, 2]),
    "delete from a topic that is kept": Case(delete_before(0, topic="kept"), [0, 1, 2]),
    "delete everything": Case(delete_before(-1), [0, 1, 2]),
    "fetch what was deleted": Case(fetch(0), FETCH),
    "earliest after deleting": Case(offsets(-2), range(1, 12)),
    "the first after deleting": Case(offsets(0), range(1, 12)),
    "the largest timestamp after deleting": Case(offsets(-3), range(7, 12)),
    # producer ids
    "half a producer id": Case(init(None, producer_id=5), [3, 4, 5]),
    "an epoch alone": Case(init(None, epoch=5), [3, 4, 5]),
    "an empty transactional id": Case(init(""), range(6)),
}  # fmt: skip


@pytest.fixture(scope="module")
def data_plane(both: Differential) -> Differential:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    both.both(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    for client in (both.ours, both.theirs):
        _wait_for_leaders(client)
    return both


def _wait_for_leaders(client: RawClient) -> None:
    """A log may be made a moment after its topic: until then Kafka answers NOT_LEADER_OR_FOLLOWER."""
    deadline = time.monotonic() + 30
    wanted = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(2)])
        for name in TOPICS
    ]
    while time.monotonic() < deadline:
        answer: Any = client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=wanted), 12)
        if all(found.error_code == 0 for topic in answer.responses for found in topic.partitions):
            return
        time.sleep(0.1)
    raise AssertionError("the topics have no leaders")


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_the_same(data_plane: Differential, name: str) -> None:
    """The cases run in the order above: later ones see what earlier ones did."""
    case = CASES[name]
    found: dict[str, list[int]] = {}
    for version in [case.version] if isinstance(case.version, int) else case.version:
        try:
            data_plane.ask(case.request, version, ignoring=case.known)
        except AssertionError as differs:
            found.setdefault(str(differs).split("\n", 1)[1], []).append(version)
    assert not found, "\n".join(f"{text}    in versions {versions}" for text, versions in found.items())


DIFFERENT_ON_PURPOSE = {
    "a batch and a torn one": (batch(b"one") + batch(b"two")[:-2], 87, 0, "Kafka drops the second in silence"),
    "an unknown codec": (resealed(at(22, b"\7")), 76, -1, "Kafka takes it for a fault of its own"),
}


@pytest.mark.parametrize("name", DIFFERENT_ON_PURPOSE)
def test_the_answers_differ_on_purpose(data_plane: Differential, name: str) -> None:
    data, ours, theirs, _ = DIFFERENT_ON_PURPOSE[name]
    answers = data_plane.both(produce(data, topic="differs"), 9)
    assert [answer.responses[0].partition_responses[0].error_code for answer in answers] == [ours, theirs]


def test_a_timestamp_type_of_the_broker_is_taken_away_in_silence(data_plane: Differential) -> None:
    answers = data_plane.both(produce(resealed(at(22, b"\x08")), topic="differs"), 9)
    assert [answer.responses[0].partition_responses[0].error_code for answer in answers] == [0, 0]


@pytest.mark.parametrize("version", range(6))
def test_producer_ids(data_plane: Differential, version: int) -> None:
    """Kafka has no producer id at hand between two blocks and says so; a client asks again."""

    def patient(client: RawClient) -> Any:
        while True:
            answer: Any = client.ask(init(None), version)
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            time.sleep(0.05)

    ours, theirs = patient(data_plane.ours), patient(data_plane.theirs)
    assert (ours.error_code, ours.producer_epoch) == (theirs.error_code, theirs.producer_epoch) == (0, 0)
    assert ours.producer_id >= 0


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs(data_plane: Differential, version: int) -> None:
    wanted = [DescribableLogDirTopic(topic="nosuch", partitions=[0]), DescribableLogDirTopic(topic="idempotent", partitions=[0, 1, 9])]
    told = []
    for answer in data_plane.both(DescribeLogDirsRequest(topics=wanted), version):
        (folder,) = answer.results
        assert folder.log_dir
        assert (folder.total_bytes > folder.usable_bytes > 0) is (version >= 4)
        partitions = {
            (topic.name, each.partition_index): (each.partition_size, each.offset_lag, each.is_future_key)
            for topic in folder.topics
            for each in topic.partitions
        }
        told.append((answer.error_code, folder.error_code, folder.is_cordoned, partitions))
    assert told[0] == told[1]


def test_topic_ids(data_plane: Differential) -> None:
    """Each broker makes topic ids of its own, so each is asked by its own."""
    answers = []
    for client in (data_plane.ours, data_plane.theirs):
        metadata: Any = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="idempotent")]), 12)
        topic_id = metadata.topics[0].topic_id
        data = [PartitionProduceData(index=0, records=batch(b"by id"))]
        produced: Any = client.ask(
            ProduceRequest(acks=1, timeout_ms=5000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=data)]), 13
        )
        wanted = [FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)]
        fetched: Any = client.ask(
            FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic_id=topic_id, partitions=wanted)]), 18
        )
        assert produced.responses[0].topic_id == fetched.responses[0].topic_id == topic_id
        answers.append((produced.responses[0].partition_responses, fetched.responses[0].partitions))
    assert answers[0] == answers[1]


def test_sessions(data_plane: Differential) -> None:
    """A dialogue: what an incremental answer leaves out, and how a session ends."""
    dialogues = []
    for client in (data_plane.ours, data_plane.theirs):
        said: list[Any] = []

        def ask(request: FetchRequest, client: RawClient = client, said: list[Any] = said) -> Any:
            answer: Any = client.ask(request, 12)
            said.append((answer.error_code, answer.session_id > 0, answer.responses))
            return answer

        session_id = ask(fetch(0, topic="gzipped", index=1, session_epoch=0)).session_id
        quiet = {"session_id": session_id, "topics": []}
        ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=1, **quiet))
        client.ask(produce(batch(b"news"), topic="plain", index=1), 9)
        ask(fetch(0, topic="plain", index=1, session_id=session_id, session_epoch=2))
        ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=3, **quiet))
        ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=3, **quiet))
        forgotten = [ForgottenTopic(topic="plain", partitions=[1])]
        ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=4, forgotten_topics_data=forgotten, **quiet))
        ask(fetch(7, topic="gzipped", index=1, session_id=session_id, session_epoch=5))
        ask(fetch(0, topic="gzipped", index=1, session_id=session_id, session_epoch=6))
        ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, **quiet))
        ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=7, **quiet))
        dialogues.append(said)
    assert dialogues[0] == dialogues[1]


@pytest.mark.parametrize("topic", ["nosuch", "tiny"])
def test_acks_0_that_fails_closes_the_connection(data_plane: Differential, topic: str) -> None:
    data_plane.ask(produce(batch(b"x" * 300), topic=topic, acks=0), 9)
