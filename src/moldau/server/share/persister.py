"""● The store of share partitions' states: it asks the share coordinator of each partition.

Takes and returns the protocol's own messages, in any number of topics and partitions: a broker that leads share partitions reads and
writes with it, the group coordinator begins, sums up and deletes.  Requests about one partition are decided in the order of the calls,
unless a call names more than `AT_ONCE` partitions.  A coordinator that is not found or still loads is asked again for a while; the first
request has the topic created.

Source: DefaultStatePersister, PersisterStateManager, ShareCoordinatorService.  Used as `coordinators.share_persister`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from moldau.coordinator.outcome import Outcome, Token
from moldau.coordinator.share.machine import SharePartitionKey, ShareStateMachine
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from moldau.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from moldau.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from moldau.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from moldau.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from moldau.protocol.wire import AnyResponse, Request
from moldau.server.coordinators.topic import CoordinatorTopic, answered
from moldau.server.peers.brokers import Brokers, by_leader
from moldau.types import SHARE_TOPIC, TopicPartition

LOG: Final = logging.getLogger(__name__)

ATTEMPTS: Final = 10
FIRST_PAUSE_S: Final = 0.05
LAST_PAUSE_S: Final = 1.0
"""The longest pause; pauses double up to it.  All attempts together take about five seconds, longer than a coordinator takes to load."""
AT_ONCE: Final = 500
"""The most partitions of one turn of the loop."""
WORTH_ANOTHER: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

Decide = Callable[[ShareStateMachine, Token, SharePartitionKey, Any, int], Outcome]
DECISIONS: Final[Mapping[type[Request[Any]], Decide]] = {
    InitializeShareGroupStateRequest: ShareStateMachine.initialize,
    WriteShareGroupStateRequest: ShareStateMachine.write,
    ReadShareGroupStateRequest: ShareStateMachine.read,
    ReadShareGroupStateSummaryRequest: lambda machine, token, key, asked, now_ms: machine.read_summary(token, key),
    DeleteShareGroupStateRequest: lambda machine, token, key, asked, now_ms: machine.delete(token, key),
}
"""The decision about a partition's state for each request."""


class SharePersister:
    """See the module.

    Errors are those of `ShareStateMachine`, on the partition that they are about, and NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """

    def __init__(
        self, states: CoordinatorTopic[ShareStateMachine], brokers: Brokers, local_id: int, create_topic: Callable[[], None]
    ) -> None:
        self._states: Final = states
        self._brokers: Final = brokers
        self._local_id: Final = local_id
        self._create_topic: Final = create_topic

    async def ask(self, request: Request[AnyResponse], *, attempts: int = ATTEMPTS) -> AnyResponse:
        """Send one of `DECISIONS`.  Returns results by topic, in the order of the request.

        With `attempts` 1 retriable errors are passed on at once, as for a request that came over the network.
        Without a group, or with a topic without partitions, there are no results, as in Kafka.  Only a request that
        begins states is carried out without that topic.  Many partitions are asked about `AT_ONCE` at a time.
        """
        declared: Any = type(request)
        group_id, topics = request.group_id, request.topics  # type: ignore[attr-defined]
        if declared is InitializeShareGroupStateRequest:
            topics = [topic for topic in topics if topic.partitions]
        by_topic: dict[UUID, Any] = {}
        response: Any = declared(group_id=group_id, topics=[]).refused(ErrorCode.NONE)
        if group_id and all(topic.partitions for topic in topics):
            for part in _parts(topics):
                told = await self._ask_part(declared(group_id=group_id, topics=part), attempts)
                for topic in told.results:
                    known = by_topic.setdefault(topic.topic_id, topic)
                    if known is not topic:
                        known.partitions += topic.partitions
                await asyncio.sleep(0)
        response.results = list(by_topic.values())
        return response  # type: ignore[no-any-return]

    async def _ask_part(self, request: Request[AnyResponse], attempts: int) -> Any:
        group_id, topics = request.group_id, request.topics  # type: ignore[attr-defined]
        response: Any = request.refused(ErrorCode.NONE)
        decide = DECISIONS[type(request)]
        asked = {SharePartitionKey(group_id, topic.topic_id, one.partition): one for topic in topics for one in topic.partitions}
        blank = {SharePartitionKey(group_id, topic.topic_id, one.partition): one for topic in response.results for one in topic.partitions}
        results: dict[SharePartitionKey, Any] = {}
        open_keys = list(asked)
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, attempts + 1):
            here, elsewhere = by_leader(open_keys, self._leader_of, self._local_id) if attempts > 1 else (open_keys, {})
            answers = [self._ask_one(key, partial(_decided, decide, key, asked[key]), blank[key]) for key in here]
            distant = [
                asyncio.ensure_future(self._ask_broker(each, request, {key: asked[key] for key in elsewhere[each]})) for each in elsewhere
            ]
            for key, answer in zip(here, answers, strict=True):
                results[key] = await answered(answer)
            for told in await asyncio.gather(*distant):
                results |= told
            for key in open_keys:
                if key not in results:
                    results[key] = _refused(blank[key], ErrorCode.NOT_COORDINATOR)
            open_keys = [key for key in open_keys if results[key].error_code in WORTH_ANOTHER]
            if not open_keys or attempt == attempts:
                break
            self._create_topic()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        by_topic: dict[UUID, list[Any]] = {}
        for key, result in results.items():
            by_topic.setdefault(key.topic_id, []).append(result)
        once = {topic.topic_id: topic for topic in response.results}
        for topic_id, found in by_topic.items():
            once[topic_id].partitions = found
        response.results = list(once.values())
        return response

    def _ask_one(self, key: SharePartitionKey, decided: Callable[[ShareStateMachine, Token, int], Outcome], blank: Any) -> Later[Any] | Any:
        return self._states.ask(str(key), decided, refused=partial(_refused, blank))

    def _leader_of(self, key: SharePartitionKey) -> int:
        """The broker that leads its coordinator's partition."""
        return self._brokers.leader_of(TopicPartition(SHARE_TOPIC, self._states.partition_for(str(key))))

    async def _ask_broker(
        self, broker_id: int, request: Request[Any], asked: Mapping[SharePartitionKey, Any]
    ) -> dict[SharePartitionKey, Any]:
        """Ask a coordinator on another broker.  Returns nothing if it cannot be reached."""
        declared: Any = type(request)
        group_id, topics = request.group_id, request.topics  # type: ignore[attr-defined]
        by_topic: dict[UUID, list[Any]] = {}
        for key, one in asked.items():
            by_topic.setdefault(key.topic_id, []).append(one)
        parts = [type(topics[0])(topic_id=topic_id, partitions=ones) for topic_id, ones in by_topic.items()]
        try:
            response = await self._brokers.ask(broker_id, declared(group_id=group_id, topics=parts))
        except (OSError, KafkaError) as error:
            LOG.info("the share coordinator on broker %d does not answer: %s", broker_id, error)
            return {}
        return {SharePartitionKey(group_id, topic.topic_id, one.partition): one for topic in response.results for one in topic.partitions}


def _parts(topics: Sequence[Any]) -> Iterator[list[Any]]:
    """Topics with at most `AT_ONCE` partitions together, in their order."""
    part: list[Any] = []
    room = AT_ONCE
    for topic in topics:
        begin = 0
        while begin < len(topic.partitions):
            taken = topic.partitions[begin : begin + room]
            part.append(type(topic)(topic_id=topic.topic_id, partitions=taken))
            begin += len(taken)
            room -= len(taken)
            if room == 0:
                yield part
                part, room = [], AT_ONCE
    if part:
        yield part


def _refused(blank: Any, code: ErrorCode) -> Any:
    blank.error_code, blank.error_message = code, code.text
    return blank


def _decided(decide: Decide, key: SharePartitionKey, asked: Any, machine: ShareStateMachine, token: Token, now_ms: int) -> Outcome:
    return decide(machine, token, key, asked, now_ms)
