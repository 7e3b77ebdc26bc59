"""● Creates the internal topics of streams groups: one heartbeat reports missing topics, later heartbeats find them.

    heartbeat ─▶ missing topics ─▶ CreateTopics at the controller, once ─▶ metadata ─▶ a later heartbeat gives tasks out
                                       └─ refused: told with heartbeats for a while, then tried again

Source: DefaultAutoTopicCreationManager.createStreamsInternalTopics (KIP-1071).  Used by the handler of StreamsGroupHeartbeat.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from moldau.background import in_background
from moldau.clock import Clock
from moldau.coordinator.group.streams.internal_topics import SHOWN_AT_MOST as ERRORS_SHOWN_AT_MOST
from moldau.coordinator.group.streams.internal_topics import InternalTopic, Status
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

LOG: Final = logging.getLogger(__name__)

CREATION_TIMEOUT_MS: Final = 30_000
REMEMBERED_AT_MOST: Final = 1000
"""The most refusals that are remembered; beyond that the oldest is forgotten."""
BROKER_DEFAULT: Final = -1

Create = Callable[[CreateTopicsRequest], Awaitable[CreateTopicsResponse]]


class _Refusal(NamedTuple):
    text: str
    until_ms: int


class StreamsTopics:
    """See the module."""

    def __init__(self, create: Create, clock: Clock) -> None:
        self._create: Final = create
        self._clock: Final = clock
        self._creating: Final[dict[str, asyncio.Task[None]]] = {}
        """The creations under way by topic; several may be of one request."""
        self._refusals: Final[dict[str, _Refusal]] = {}

    def close(self) -> None:
        for task in set(self._creating.values()):
            task.cancel()

    def create(self, missing: Sequence[InternalTopic], response: StreamsGroupHeartbeatResponse, remembered_ms: int) -> None:
        """Create the topics that are not being created already.

        `response` then carries the reason of the last failure, for `remembered_ms` after it.
        """
        now_ms = self._clock.monotonic_ms()
        refusals = {}
        wanted = []
        for topic in missing:
            refusal = self._refusals.get(topic.name)
            if refusal is not None and now_ms < refusal.until_ms:
                refusals[topic.name] = refusal.text
            elif topic.name not in self._creating:
                self._refusals.pop(topic.name, None)
                wanted.append(topic)
        if wanted:
            names = [topic.name for topic in wanted]
            task = in_background(self._created(wanted, remembered_ms))
            self._creating.update(dict.fromkeys(names, task))
            task.add_done_callback(lambda _: [self._creating.pop(name) for name in names])
        if refusals:
            _tell(response, refusals)

    async def _created(self, topics: Sequence[InternalTopic], remembered_ms: int) -> None:
        try:
            response = await self._create(CreateTopicsRequest(topics=[_creatable(each) for each in topics], timeout_ms=CREATION_TIMEOUT_MS))
        except KafkaError as error:
            failed = dict.fromkeys([topic.name for topic in topics], error.detail)
        else:
            failed = {
                topic.name: topic.error_message or ErrorCode.of(topic.error_code).text
                for topic in response.topics
                if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)  # another broker may have been asked, too
            }
        until_ms = self._clock.monotonic_ms() + remembered_ms
        for name, text in failed.items():
            LOG.warning("The internal topic %s could not be created: %s", name, text)
            self._refusals[name] = _Refusal(text, until_ms)
            while len(self._refusals) > REMEMBERED_AT_MOST:
                del self._refusals[next(iter(self._refusals))]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or BROKER_DEFAULT,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )


def _tell(response: StreamsGroupHeartbeatResponse, refusals: dict[str, str]) -> None:
    shown = ", ".join(f"{name} ({text})" for name, text in list(refusals.items())[:ERRORS_SHOWN_AT_MOST])
    more = len(refusals) - ERRORS_SHOWN_AT_MOST
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; Creation failed: {shown}{f' and {more} more' if more > 0 else ''}."
