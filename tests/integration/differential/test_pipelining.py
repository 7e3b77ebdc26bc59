"""A connection that sends requests without waiting for the answers sees the same from Apache Kafka and from us."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.wire import Request
from proof.kafka.differential import Differential, RawClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

PARKED_MS = 700
PATIENT_MS = 30_000
READY_WITHIN_S = 30.0


class Pair:
    """Two connections to one broker, and a topic of their own without records."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.pipelining, self.other = RawClient(client.address), RawClient(client.address)
        self.topic = topic
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        answer: Any = self.other.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5)
        assert answer.topics[0].error_code == 0, answer
        deadline = time.monotonic() + READY_WITHIN_S
        while self.ends(self.other) is None:  # Kafka acknowledges a topic before it can be written to
            assert time.monotonic() < deadline, f"{topic} has no leader"
        self.ends(self.pipelining)  # connects: its requests come before later ones of the other connection

    def find_coordinator(self) -> None:
        """Waits until the coordinator knows of offsets: then it is up and has loaded its partition."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            self.other.ask(FindCoordinatorRequest(key=self.topic, key_type=0), 3)
            answer: Any = self.other.ask(OffsetFetchRequest(group_id=self.topic, topics=None), 7)
            if answer.error_code == 0:
                return
        raise AssertionError("there is no coordinator")

    def ends(self, client: RawClient) -> int | None:
        answer: Any = client.ask(self.how_far(), 6)
        (partition,) = answer.topics[0].partitions
        return None if partition.error_code else partition.offset

    def fetch(self, max_wait_ms: int) -> FetchRequest:
        """A fetch that is answered when there is a record, or after `max_wait_ms`."""
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self.topic, partitions=[wanted])
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])

    def produce(self) -> ProduceRequest:
        data = PartitionProduceData(index=0, records=memoryview(build_batch([NewRecord(1, None, b"value")])))
        return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=self.topic, partition_data=[data])])

    def how_far(self) -> ListOffsetsRequest:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self.topic, partitions=[partition])])

    def behind_a_fetch(self, request: Request[Any], version: int, *meanwhile: tuple[Request[Any], int]) -> tuple[Any, Any]:
        """The answers to a fetch and to the request behind it.

        The other connection sends `meanwhile` while the fetch waits, and the fetch waits for as long as that takes.
        """
        self.pipelining.send((self.fetch(PATIENT_MS if meanwhile else PARKED_MS), 11), (request, version))
        for step, its_version in meanwhile:
            self.other.ask(step, its_version)
        return self.pipelining.receive(FetchRequest, 11), self.pipelining.receive(type(request), version)


@pytest.fixture(params=["ours", "theirs"])
def pair(both: Differential, request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = Pair(getattr(both, request.param), f"pipelined-{request.node.originalname}".replace("_", "-"))
    yield pair
    pair.pipelining.close()
    pair.other.close()


def records_in(fetched: Any) -> bytes:
    (partition,) = fetched.responses[0].partitions
    return bytes(partition.records or b"")


def test_a_produce_behind_a_fetch_is_not_in_its_answer(pair: Pair) -> None:
    fetched, produced = pair.behind_a_fetch(pair.produce(), 9)
    assert not records_in(fetched)
    assert produced.responses[0].partition_responses[0].base_offset == 0


def test_metadata_behind_a_fetch_knows_what_was_there_before_its_records(pair: Pair) -> None:
    topic = CreatableTopic(name=f"{pair.topic}-more", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    create = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    fetched, told = pair.behind_a_fetch(MetadataRequest(topics=None), 9, (create, 5), (pair.produce(), 9))
    assert records_in(fetched)
    assert topic.name in {each.name for each in told.topics}


def test_committed_offsets_asked_for_behind_a_fetch_are_those_of_its_records(pair: Pair) -> None:
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id=pair.topic, member_id="", topics=[OffsetCommitRequestTopic(name=pair.topic, partitions=[committed])]
    )
    fetch_offsets = OffsetFetchRequest(group_id=pair.topic, topics=[OffsetFetchRequestTopic(name=pair.topic, partition_indexes=[0])])
    pair.find_coordinator()
    answer: Any = pair.other.ask(commit, 8)
    assert answer.topics[0].partitions[0].error_code == 0
    committed.committed_offset = 2
    fetched, told = pair.behind_a_fetch(fetch_offsets, 7, (commit, 8), (pair.produce(), 9))
    assert records_in(fetched)
    assert told.topics[0].partitions[0].committed_offset == 2


def test_a_log_is_not_shorter_than_what_was_fetched_before(pair: Pair) -> None:
    fetched, told = pair.behind_a_fetch(pair.how_far(), 6, (pair.produce(), 9))
    assert records_in(fetched)
    assert told.topics[0].partitions[0].offset == 1
