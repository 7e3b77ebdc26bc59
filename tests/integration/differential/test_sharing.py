"""One dialogue of two members of a share group, held with Apache Kafka and with us: every answer the same, but for ids and sentences."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.protocol.messages import share_acknowledge as ack
from moldau.protocol.messages import share_fetch as fetch
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.batch import batches
from moldau.protocol.records.builder import NewRecord, build_batch
from proof.kafka.differential import Address, Differential, RawClient, differences
from proof.shares.member import ShareMember, configure_group

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

UNKNOWN_ID = UUID("12345678-1234-4234-8234-123456789abc")
IGNORED = {"responses.partitions.records", "responses.partitions.error_message"} | {
    "responses.partitions.acknowledge_error_message",
    "responses.partitions.current_leader",
}
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Said = tuple[int, int, list[int]]
Step = tuple[str, Callable[["Side"], Any]]


class Side:
    """One of the two brokers, with a topic of nine records in three batches and two members that have joined."""

    def __init__(self, address: Address, topic: str) -> None:
        client = RawClient(address)
        created: Any = client.ask(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])], timeout_ms=10_000
            ),
            7,
        )
        self.topic_id = created.topics[0].topic_id
        group_id = "g-" + topic
        configure_group(address, group_id, share_auto_offset_reset="earliest")
        now_ms = int(time.time() * 1000)
        for size in (3, 4, 2):
            data = build_batch([NewRecord(now_ms, None, b"%d" % number) for number in range(size)])
            part = PartitionProduceData(index=0, records=memoryview(data))
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[part])])
            settle(lambda request=request: client.ask(request, 9).responses[0].partition_responses[0].error_code == 0)  # type: ignore[misc]
        client.close()
        self.members = [ShareMember(address, group_id, topic) for _ in range(2)]
        for member in self.members:
            member.join()

    def fetch(self, number: int, epoch: int, *said: Said, index: int = 0, topic_id: UUID | None = None, **more: Any) -> Any:
        member = self.members[number]
        partition = fetch.FetchPartition(
            partition_index=index,
            acknowledgement_batches=[
                fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in said
            ],
        )
        options: dict[str, Any] = {"max_wait_ms": 1_000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500} | more
        request = fetch.ShareFetchRequest(
            group_id=member.group_id,
            member_id=options.pop("member_id", member.member_id),
            share_session_epoch=epoch,
            topics=[fetch.FetchTopic(topic_id=topic_id or self.topic_id, partitions=[partition])],
            forgotten_topics_data=[],
            **options,
        )
        return member._client.ask(request, 2)

    def acknowledge(self, number: int, epoch: int, *said: Said, index: int = 0, topic_id: UUID | None = None, **more: Any) -> Any:
        member = self.members[number]
        partition = ack.AcknowledgePartition(
            partition_index=index,
            acknowledgement_batches=[
                ack.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in said
            ],
        )
        request = ack.ShareAcknowledgeRequest(
            group_id=member.group_id,
            member_id=more.pop("member_id", member.member_id),
            share_session_epoch=epoch,
            topics=[ack.AcknowledgeTopic(topic_id=topic_id or self.topic_id, partitions=[partition])],
            **more,
        )
        return member._client.ask(request, 2)


def settle(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


NOTHING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
STEPS: list[Step] = [
    ("a final epoch without a session", lambda side: side.fetch(0, -1)),
    ("acknowledge without a session", lambda side: side.acknowledge(0, 1, (0, 0, [ACCEPT]))),
    ("acknowledge with epoch 0", lambda side: side.acknowledge(0, 0, (0, 0, [ACCEPT]))),
    ("acknowledge in the first fetch", lambda side: side.fetch(0, 0, (0, 0, [ACCEPT]))),
    ("no member", lambda side: side.fetch(0, 0, member_id="")),
    ("a member id too long", lambda side: side.acknowledge(0, 1, member_id="m" * 37)),
    ("the first fetch, whole batches", lambda side: side.fetch(0, 0, max_records=2)),
    ("another member, a strict limit", lambda side: side.fetch(1, 0, max_records=2, share_acquire_mode=1)),
    ("the rest of a batch", lambda side: side.fetch(1, 1, max_records=1, share_acquire_mode=1)),
    ("nothing was asked for", lambda side: side.fetch(0, 1, max_records=0)),
    ("a wrong epoch", lambda side: side.fetch(0, 7)),
    ("another's records", lambda side: side.acknowledge(0, 2, (3, 4, [ACCEPT]))),
    ("records that nobody has", lambda side: side.acknowledge(0, 3, (6, 6, [ACCEPT]))),
    ("records past the end", lambda side: side.acknowledge(0, 4, (2, 50, [ACCEPT]))),
    ("records far past the end", lambda side: side.acknowledge(0, 5, (50, 51, [ACCEPT]))),
    ("an unknown type", lambda side: side.acknowledge(0, 6, (0, 0, [7]))),
    ("too few types", lambda side: side.acknowledge(0, 7, (0, 2, [ACCEPT, ACCEPT]))),
    ("no type", lambda side: side.acknowledge(0, 8, (0, 2, []))),
    ("the wrong way round", lambda side: side.acknowledge(0, 9, (2, 0, [ACCEPT]))),
    ("renewing without saying so", lambda side: side.acknowledge(0, 10, (0, 0, [RENEW]))),
    ("renewing", lambda side: side.acknowledge(0, 11, (0, 2, [RENEW]), is_renew_ack=True)),
    ("renewing in a fetch", lambda side: side.fetch(0, 12, (0, 0, [RENEW]), is_renew_ack=True, **NOTHING)),
    ("renewing in a fetch that fetches", lambda side: side.fetch(0, 13, (0, 0, [RENEW]), is_renew_ack=True)),
    ("an unknown topic", lambda side: side.acknowledge(0, 13, (0, 0, [ACCEPT]), topic_id=UNKNOWN_ID)),
    ("an unknown partition", lambda side: side.acknowledge(0, 14, (0, 0, [ACCEPT]), index=5)),
    ("one of each", lambda side: side.acknowledge(0, 15, (0, 2, [ACCEPT, RELEASE, REJECT]))),
    ("the released record comes again", lambda side: side.fetch(0, 16, max_records=1)),
    ("done is done", lambda side: side.acknowledge(0, 17, (0, 0, [ACCEPT]))),
    ("all of it or nothing", lambda side: side.acknowledge(0, 18, (1, 1, [ACCEPT]), (2, 2, [ACCEPT]))),
    ("a gap", lambda side: side.acknowledge(0, 19, (1, 1, [GAP]))),
    ("the last batches", lambda side: side.fetch(0, 20)),
    ("nothing is left", lambda side: side.fetch(0, 21, max_wait_ms=200)),
    ("an unknown partition is fetched", lambda side: side.fetch(0, 22, index=9, max_wait_ms=200)),
    ("the final epoch acknowledges", lambda side: side.fetch(0, -1, (6, 6, [ACCEPT]))),
    ("what the member held is free", lambda side: side.fetch(1, 2)),
    ("released by the one who held it first", lambda side: side.acknowledge(1, 3, (3, 5, [RELEASE]))),
    ("and again", lambda side: side.fetch(1, 4)),
]


@pytest.fixture(scope="module")
def sides(both: Differential) -> tuple[Side, Side]:
    return Side(both.ours.address, "shared"), Side(both.theirs.address, "shared")


def test_a_dialogue(sides: tuple[Side, Side]) -> None:
    wrong = []
    for name, step in STEPS:
        ours, theirs = step(sides[0]), step(sides[1])
        for answer in (ours, theirs):
            for topic in answer.responses:
                topic.topic_id = UNKNOWN_ID
        found = list(differences(ours, theirs, ignoring=IGNORED))
        if isinstance(ours, fetch.ShareFetchResponse) and isinstance(theirs, fetch.ShareFetchResponse) and offsets(ours) != offsets(theirs):
            found.append(f"  records: ours {offsets(ours)}, theirs {offsets(theirs)}")
        wrong += [f"{name}:", *found] if found else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("is_record_limit", [False, True])
def test_what_is_delivered_in_vain_comes_in_the_same_portions(both: Differential, is_record_limit: bool) -> None:
    """Three batches are released over and over, until the last record is given up: the same records come together from both brokers."""
    topic = f"poison-{is_record_limit}"
    ours, theirs = (in_vain(Side(client.address, topic), is_record_limit=is_record_limit) for client in (both.ours, both.theirs))
    assert ours == theirs
    assert len(ours) > 10


def in_vain(side: Side, *, is_record_limit: bool) -> list[list[tuple[int, int, int]]]:
    """The records that each fetch acquired; all of them are released."""
    told: list[list[tuple[int, int, int]]] = []
    epoch = 0
    for number in range(60):
        options = {"max_records": 4, "share_acquire_mode": int(is_record_limit), "max_wait_ms": 300 if epoch else 5_000}
        response = side.fetch(0, epoch, **options)
        assert response.error_code == 0
        acquired = [
            (one.first_offset, one.last_offset, one.delivery_count)
            for each in response.responses
            for part in each.partitions
            for one in part.acquired_records
        ]
        told.append(acquired)
        if not acquired and number:
            break
        epoch += 1
        if acquired:
            said = [(first, last, [RELEASE]) for first, last, _ in acquired]
            answer = side.acknowledge(0, epoch, *said)
            assert answer.responses[0].partitions[0].error_code == 0
            epoch += 1
    return told


def offsets(response: fetch.ShareFetchResponse) -> list[tuple[int, int]]:
    """The first and the last offset of each record batch."""
    parts = [memoryview(bytes(one.records)) for topic in response.responses for one in topic.partitions]  # type: ignore[arg-type]
    return [(header.base_offset, header.last_offset) for view in parts for _, header in batches(view)]
