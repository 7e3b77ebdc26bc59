"""● Where share partitions keep their state: asks the share coordinator of each partition, as if it were one place.

Takes and returns the protocol's own messages, in any number of topics and partitions: a broker that leads share partitions reads and
writes with it, the group coordinator begins, sums up and deletes.  Everything asked is decided in the order of the calls.  A coordinator
that is not found or still loads is asked again for a while; whoever asks first has its topic created.

Source: DefaultStatePersister, PersisterStateManager, ShareCoordinatorService.  Used as `coordinators.share_persister`.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from moldau.coordinator.outcome import Outcome, Token
from moldau.coordinator.share.machine import SharePartitionKey, ShareStateMachine
from moldau.errors import ErrorCode
from moldau.protocol.messages import delete_share_group_state as delete
from moldau.protocol.messages import initialize_share_group_state as initialize
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import read_share_group_state_summary as summary
from moldau.protocol.messages import write_share_group_state as write
from moldau.server.coordinator_topic import CoordinatorTopic, answered
from moldau.server.later import Later

ATTEMPTS: Final = 10
FIRST_PAUSE_S: Final = 0.05
LAST_PAUSE_S: Final = 1.0
"""Pauses double up to it: with all attempts about five seconds, longer than a coordinator takes to load."""
WORTH_ANOTHER: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

R = TypeVar("R", initialize.PartitionResult, write.PartitionResult, read.PartitionResult, summary.PartitionResult, delete.PartitionResult)
Decide = Callable[[ShareStateMachine, Token, SharePartitionKey, Any, int], Outcome]


class SharePersister:
    """See the module.

    Errors are those of `ShareStateMachine`, on the partition that they are about, and NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    `attempts` 1 passes these two on at once, as a request that came over the network wants it.
    """

    def __init__(self, states: CoordinatorTopic[ShareStateMachine], create_topic: Callable[[], None]) -> None:
        self._states: Final = states
        self._create_topic: Final = create_topic

    async def initialize(
        self, request: initialize.InitializeShareGroupStateRequest, *, attempts: int = ATTEMPTS
    ) -> initialize.InitializeShareGroupStateResponse:
        """Begins states; one that is there begins anew, unless its state epoch is higher."""
        found = await self._ask(
            request.group_id,
            request.topics,
            lambda machine, token, key, asked, now_ms: machine.initialize(token, key, asked, now_ms),
            lambda partition: initialize.PartitionResult(partition=partition),
            attempts,
        )
        return initialize.InitializeShareGroupStateResponse(
            results=[initialize.InitializeStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
        )

    async def write(self, request: write.WriteShareGroupStateRequest, *, attempts: int = ATTEMPTS) -> write.WriteShareGroupStateResponse:
        """Adds to states what leaders have decided; answered once it cannot be lost any more."""
        found = await self._ask(
            request.group_id,
            request.topics,
            lambda machine, token, key, asked, now_ms: machine.write(token, key, asked, now_ms),
            lambda partition: write.PartitionResult(partition=partition),
            attempts,
        )
        return write.WriteShareGroupStateResponse(
            results=[write.WriteStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
        )

    async def read(self, request: read.ReadShareGroupStateRequest, *, attempts: int = ATTEMPTS) -> read.ReadShareGroupStateResponse:
        """What a new leader begins with; leaders of older epochs are fenced from then on."""
        found = await self._ask(
            request.group_id,
            request.topics,
            lambda machine, token, key, asked, now_ms: machine.read(token, key, asked, now_ms),
            lambda partition: read.PartitionResult(partition=partition, state_epoch=0, start_offset=0, state_batches=[]),
            attempts,
        )
        return read.ReadShareGroupStateResponse(
            results=[read.ReadStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
        )

    async def read_summary(
        self, request: summary.ReadShareGroupStateSummaryRequest, *, attempts: int = ATTEMPTS
    ) -> summary.ReadShareGroupStateSummaryResponse:
        """Start offsets and counts, without fencing anybody."""
        found = await self._ask(
            request.group_id,
            request.topics,
            lambda machine, token, key, asked, now_ms: machine.read_summary(token, key),
            lambda partition: summary.PartitionResult(partition=partition, state_epoch=0, leader_epoch=0, start_offset=0),
            attempts,
        )
        return summary.ReadShareGroupStateSummaryResponse(
            results=[summary.ReadStateSummaryResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
        )

    async def delete(
        self, request: delete.DeleteShareGroupStateRequest, *, attempts: int = ATTEMPTS
    ) -> delete.DeleteShareGroupStateResponse:
        """Forgets states; those that are not there count as deleted."""
        found = await self._ask(
            request.group_id,
            request.topics,
            lambda machine, token, key, asked, now_ms: machine.delete(token, key),
            lambda partition: delete.PartitionResult(partition=partition),
            attempts,
        )
        return delete.DeleteShareGroupStateResponse(
            results=[delete.DeleteStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
        )

    # -- all five alike -------------------------------------------------------------------------------------------------------

    async def _ask(
        self, group_id: str, topics: Sequence[Any], decide: Decide, empty: Callable[[int], R], attempts: int
    ) -> list[tuple[UUID, list[R]]]:
        """Results by topic, in the order asked.  Without a group, or with a topic without partitions, there are none, as in Kafka."""
        if not group_id or not all(topic.partitions for topic in topics):
            return []
        asked = {SharePartitionKey(group_id, topic.topic_id, one.partition): one for topic in topics for one in topic.partitions}
        results: dict[SharePartitionKey, R] = {}
        open_keys = list(asked)
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, attempts + 1):
            answers = [self._ask_one(key, asked[key], decide, empty) for key in open_keys]
            for key, answer in zip(open_keys, answers, strict=True):
                results[key] = await answered(answer)
            open_keys = [key for key in open_keys if results[key].error_code in WORTH_ANOTHER]
            if not open_keys or attempt == attempts:
                break
            self._create_topic()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        by_topic: dict[UUID, list[R]] = {}
        for key, result in results.items():
            by_topic.setdefault(key.topic_id, []).append(result)
        return list(by_topic.items())

    def _ask_one(self, key: SharePartitionKey, asked: Any, decide: Decide, empty: Callable[[int], R]) -> Later[R] | R:
        def refused(code: ErrorCode) -> R:
            result = empty(key.partition)
            result.error_code, result.error_message = code, code.text
            return result

        return self._states.ask(str(key), partial(_decided, decide, key, asked), refused=refused)


def _decided(decide: Decide, key: SharePartitionKey, asked: Any, machine: ShareStateMachine, token: Token, now_ms: int) -> Outcome:
    return decide(machine, token, key, asked, now_ms)
