"""Dead letters: their content, their destination, and what happens when they cannot be written."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from moldau.protocol.records.batch import batches, records_of
from moldau.replication.share.decision import DeadRange, DeathCause
from moldau.server.peers.brokers import Brokers, NoBrokers
from moldau.server.share.dead_letters import DeadLetters, LettersTopic
from moldau.storage.config import LogConfig
from moldau.testing.loop import SimLoop
from moldau.types import NO_LEADER, FileSlice, TopicPartition

GROUP = {"errors.deadletterqueue.topic.name": "dlq.t"}
COPYING = {**GROUP, "errors.deadletterqueue.copy.record.enable": True}
DEAD = [DeadRange(1, 2, 1, DeathCause.REJECTED), DeadRange(4, 4, 5, DeathCause.DELIVERIES_EXHAUSTED)]


FAR = {"errors.deadletterqueue.group.enable": "true"}
FAR_ID = UUID(int=77)


class FarLeaders:
    """Other brokers, which lead the partitions that the test says, and answer with a code."""

    def __init__(self, leaders: Mapping[TopicPartition, int], code: ErrorCode | OSError = ErrorCode.NONE) -> None:
        self.leaders = leaders
        self.code = code
        self.asked: list[tuple[int, Any]] = []

    def leader_of(self, where: TopicPartition) -> int:
        return self.leaders.get(where, NO_LEADER)

    async def ask(self, broker_id: int, request: Any) -> Any:
        self.asked.append((broker_id, request))
        if isinstance(self.code, OSError):
            raise self.code
        (topic,) = request.topic_data
        partitions = [PartitionProduceResponse(index=each.index, error_code=self.code, base_offset=0) for each in topic.partition_data]
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)])


class Undertaker:
    def __init__(self, harness: Any, values: Mapping[str, Any], brokers: Brokers | None = None, **options: bool) -> None:
        brokers = brokers or NoBrokers()
        self.harness = harness
        self.created: list[tuple[str, dict[str, str]]] = []
        broker = harness.broker
        config = type(broker.shares._config)(**options)

        def topic_of(topic: str) -> LettersTopic | None:
            hosted = next((one for one in broker.replicas if one.topic_partition.topic == topic), None)
            config = hosted.log.config if hosted is not None else LogConfig().override(FAR)
            count = sum(known[0] == topic for known in harness.cluster.known)
            return LettersTopic(FAR_ID, count, config) if count else None

        async def create(topic: str, count: int, factor: int, configs: dict[str, str]) -> None:
            self.created.append((topic, configs))
            harness.lead(topic, errors_deadletterqueue_group_enable="true")

        self.letters = DeadLetters(
            config=config,
            replicas=broker.replicas,
            clock=harness.clock,
            files=harness.files,
            group_values=lambda group_id: values,
            topic_of=topic_of,
            create_topic=create,
            brokers=brokers,
        )

    def bury(self, source: Any, dead: list[DeadRange] = DEAD) -> None:
        async def flushing() -> None:
            task = asyncio.create_task(self.letters.bury("g", source, dead))
            while not task.done():
                await asyncio.sleep(0)
                self.harness.flush()
            await task

        SimLoop().run_until_complete(flushing())


def letters_in(partition: Any) -> list[Any]:
    data = partition.log.read(0, 1 << 20)
    assert isinstance(data.records, FileSlice)
    view = memoryview(data.records.read())
    return [record for at, header in batches(view) for record in records_of(view[at : at + header.size])]


def headers_of(letter: Any) -> dict[str, str]:
    return {key: bytes(value).decode() for key, value in letter.headers}


@pytest.fixture
def source(harness: Any, batch_of: Callable[..., memoryview]) -> Any:
    partition = harness.lead("t")
    for values in ((b"a", b"b"), (b"c", b"d", b"e")):
        partition.append_from_client(batch_of(*values), acks=1, now_ms=harness.clock.now_ms())
    return partition


def test_a_letter_says_where_it_comes_from_and_why(harness: Any, source: Any) -> None:
    target = harness.lead("dlq.t", errors_deadletterqueue_group_enable="true")
    Undertaker(harness, GROUP).bury(source)
    letters = letters_in(target)
    assert [headers_of(letter)["__dlq.errors.offset"] for letter in letters] == ["1", "2", "4"]
    assert headers_of(letters[2]) == {
        "__dlq.errors.topic": "t",
        "__dlq.errors.partition": "0",
        "__dlq.errors.offset": "4",
        "__dlq.errors.group": "g",
        "__dlq.errors.delivery.count": "5",
        "__dlq.errors.message": "Offset delivery count exceeded the threshold.",
    }
    assert [letter.value for letter in letters] == [None, None, None]


def test_records_are_copied_when_the_group_wants_it(harness: Any, source: Any) -> None:
    target = harness.lead("dlq.t", errors_deadletterqueue_group_enable="true")
    Undertaker(harness, COPYING).bury(source)
    assert [bytes(letter.value) for letter in letters_in(target)] == [b"b", b"c", b"e"]


def test_a_record_that_is_gone_has_a_letter_too(harness: Any, source: Any) -> None:
    target = harness.lead("dlq.t", errors_deadletterqueue_group_enable="true")
    source.log.delete_records_before(3)
    Undertaker(harness, COPYING).bury(source)
    assert [letter.value and bytes(letter.value) for letter in letters_in(target)] == [None, None, b"e"]


def test_letters_come_in_batches_that_the_topic_takes(harness: Any, source: Any, batch_of: Any) -> None:
    source.append_from_client(batch_of(b"x" * 2000, b"y"), acks=1, now_ms=harness.clock.now_ms())
    target = harness.lead("dlq.t", errors_deadletterqueue_group_enable="true", max_message_bytes="500")
    Undertaker(harness, COPYING).bury(source, [DeadRange(3, 6, 1, DeathCause.REJECTED)])
    assert [letter.value and bytes(letter.value) for letter in letters_in(target)] == [b"d", b"e", None, b"y"]


@pytest.mark.parametrize("topic", ["t2", "dlq.none", "dlq.plain"])
def test_a_topic_that_takes_no_letters_does_not_hold_the_group_up(
    harness: Any, source: Any, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain = harness.lead("dlq.plain")
    Undertaker(harness, {"errors.deadletterqueue.topic.name": topic}).bury(source)
    assert plain.log.log_end_offset == 0
    assert "3 record(s) of t-0 are done without a dead letter" in caplog.text


def test_a_topic_can_be_made_when_it_is_needed(harness: Any, source: Any) -> None:
    undertaker = Undertaker(harness, GROUP, may_create_dead_letter_topics=True)
    undertaker.bury(source)
    assert undertaker.created == [("dlq.t", {"errors.deadletterqueue.group.enable": "true"})]
    assert len(letters_in(harness.broker.replicas.hosted[("dlq.t", 0)])) == 3


def test_what_cannot_be_written_now_is_told(harness: Any, source: Any) -> None:
    target = harness.lead("dlq.t", errors_deadletterqueue_group_enable="true")
    target.retire()
    with pytest.raises(KafkaError):
        Undertaker(harness, GROUP).bury(source)


def test_letters_go_to_the_leader_of_their_partition_wherever_it_is(harness: Any, source: Any) -> None:
    harness.cluster.known.update({("dlq.t", 0), ("dlq.t", 1)})
    far = FarLeaders({TopicPartition("dlq.t", 1): 3})
    Undertaker(harness, COPYING, far).bury(source)
    ((broker_id, request),) = far.asked
    assert (broker_id, request.acks) == (3, -1), "partition 0 has no leader, and partition 1 keeps the letters safe"
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    assert (topic.name, topic.topic_id, data.index) == ("dlq.t", FAR_ID, 1)
    values = [bytes(record.value) for at, header in batches(data.records) for record in records_of(data.records[at : at + header.size])]
    assert values == [b"b", b"c", b"e"]


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ConnectionResetError("gone")])
def test_a_leader_elsewhere_that_does_not_take_letters_is_told(harness: Any, source: Any, code: ErrorCode | OSError) -> None:
    harness.cluster.known.add(("dlq.t", 0))
    with pytest.raises(KafkaError, match="dead letter"):
        Undertaker(harness, GROUP, FarLeaders({TopicPartition("dlq.t", 0): 3}, code)).bury(source)


def test_letters_wait_while_no_partition_has_a_leader(harness: Any, source: Any) -> None:
    harness.cluster.known.add(("dlq.t", 0))
    with pytest.raises(KafkaError, match=r"No partition of dead letter topic dlq\.t has a leader"):
        Undertaker(harness, GROUP, FarLeaders({})).bury(source)
