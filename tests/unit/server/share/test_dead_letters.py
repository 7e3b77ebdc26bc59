"""Dead letters: what they say, where they go, and what happens when they cannot be written."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from moldau.errors import KafkaError
from moldau.protocol.records.batch import batches, records_of
from moldau.replication.share.decision import DeadRange, DeathCause
from moldau.server.share.dead_letters import DeadLetters
from moldau.types import FileSlice

GROUP = {"errors.deadletterqueue.topic.name": "dlq.t"}
COPYING = {**GROUP, "errors.deadletterqueue.copy.record.enable": True}
DEAD = [DeadRange(1, 2, 1, DeathCause.REJECTED), DeadRange(4, 4, 5, DeathCause.DELIVERIES_EXHAUSTED)]


class Undertaker:
    def __init__(self, harness: Any, values: Mapping[str, Any], **options: bool) -> None:
        self.harness = harness
        self.created: list[tuple[str, dict[str, str]]] = []
        broker = harness.broker
        config = type(broker.shares._config)(**options)

        def partition_count(topic: str) -> int:
            return sum(known[0] == topic for known in harness.cluster.known)

        async def create(topic: str, count: int, factor: int, configs: dict[str, str]) -> None:
            self.created.append((topic, configs))
            harness.lead(topic, errors_deadletterqueue_group_enable="true")

        self.letters = DeadLetters(
            config=config,
            replicas=broker.replicas,
            clock=harness.clock,
            files=harness.files,
            group_values=lambda group_id: values,
            partition_count=partition_count,
            create_topic=create,
        )

    def bury(self, source: Any, dead: list[DeadRange] = DEAD) -> None:
        async def flushing() -> None:
            task = asyncio.create_task(self.letters.bury("g", source, dead))
            while not task.done():
                await asyncio.sleep(0)
                self.harness.flush()
            await task

        asyncio.run(flushing())


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
