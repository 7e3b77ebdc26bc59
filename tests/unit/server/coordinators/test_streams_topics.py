"""Internal topics of streams groups are asked for once, told of while they are refused, and tried again later."""

import asyncio
from collections.abc import Sequence

from moldau.coordinator.group.streams.answers import refusal
from moldau.coordinator.group.streams.internal_topics import InternalTopic, Status
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.streams_group_heartbeat import Status as Told
from moldau.server.coordinators.streams_topics import StreamsTopics
from moldau.testing.loop import SimLoop

WORDS = InternalTopic("words", 3, 0, (("cleanup.policy", "delete"),))
COUNTS = InternalTopic("counts", 3, 2, ())


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Controller:
    def __init__(self) -> None:
        self.asked: list[CreateTopicsRequest] = []
        self.codes: dict[str, ErrorCode] = {}
        self.may_answer = asyncio.Event()
        self.failure: KafkaError | None = None

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        self.asked.append(request)
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        results = [CreatableTopicResult(name=topic.name, error_code=self.codes.get(topic.name, ErrorCode.NONE)) for topic in request.topics]
        return CreateTopicsResponse(topics=results)


def told(topics: StreamsTopics, missing: Sequence[InternalTopic]) -> str:
    response = refusal(ErrorCode.NONE, "")
    response.status = [Told(status_code=Status.MISSING_INTERNAL_TOPICS, status_detail="missing")]
    topics.create(missing, response, remembered_ms=10_000)
    return response.status[0].status_detail


async def turns() -> None:
    """Gives the loop more turns than it can need."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_topics_are_asked_for_once() -> None:
    async def scenario() -> None:
        controller = Controller()
        topics = StreamsTopics(controller.create_topics, HandClock())
        assert told(topics, [WORDS, COUNTS]) == "missing"
        assert told(topics, [WORDS, COUNTS]) == "missing"
        await asyncio.sleep(0)
        (request,) = controller.asked
        assert [(one.name, one.num_partitions, one.replication_factor) for one in request.topics] == [("words", 3, -1), ("counts", 3, 2)]
        assert [(config.name, config.value) for config in request.topics[0].configs] == [("cleanup.policy", "delete")]
        controller.may_answer.set()
        await turns()
        told(topics, [WORDS])
        await asyncio.sleep(0)
        assert len(controller.asked) == 2, "the topic was created and is gone again"
        topics.close()

    SimLoop().run_until_complete(scenario())


def test_refusals_are_told_for_a_while_and_tried_again() -> None:
    async def scenario() -> None:
        controller, clock = Controller(), HandClock()
        controller.may_answer.set()
        controller.codes = {"words": ErrorCode.INVALID_REPLICATION_FACTOR, "counts": ErrorCode.TOPIC_ALREADY_EXISTS}
        topics = StreamsTopics(controller.create_topics, clock)
        told(topics, [WORDS, COUNTS])
        await turns()
        assert told(topics, [WORDS]) == f"missing; Creation failed: words ({ErrorCode.INVALID_REPLICATION_FACTOR.text})."
        assert len(controller.asked) == 1
        clock.ms += 10_001
        assert told(topics, [WORDS]) == "missing"
        await turns()
        assert len(controller.asked) == 2
        clock.ms += 10_001
        controller.failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody answers")
        told(topics, [WORDS, COUNTS])
        await turns()
        assert told(topics, [WORDS, COUNTS]) == "missing; Creation failed: words (nobody answers), counts (nobody answers)."

    SimLoop().run_until_complete(scenario())
