"""● Sends leaders' proposals for in-sync sets to the controller, many partitions in one request, one request at a time.

    Partition.proposal ─▶ AlterPartition ─▶ committed │ refused │ asked again

Until the answer comes the partition counts the larger of both sets (`partition.maximal_isr`), and it asks for nothing else.
Source: AlterPartitionManager; KIP-497, 841, 903.  Made by `replication.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Final, TypeAlias
from uuid import UUID

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from moldau.replication.isr import IsrProposal
from moldau.replication.partition import Partition

LOG: Final = logging.getLogger(__name__)

RETRY_MS: Final = 50
"""The pause in milliseconds after a refused request, or before a partition is asked for again."""
PARTITIONS_AT_ONCE: Final = 1000
"""The most partitions in one request: the controller decides a request in one turn of its loop."""
UNKNOWN_EPOCH: Final = -1

Key: TypeAlias = tuple[UUID, int]
AlterPartition: TypeAlias = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
"""A function that asks the active controller, wherever it is.  Errors: KafkaError, OSError."""


class IsrSender:
    """See the module.  `start` once, `stop` once."""

    def __init__(self, alter_partition: AlterPartition, clock: Clock, *, local_id: int, broker_epoch: Callable[[], int]) -> None:
        self._alter_partition: Final = alter_partition
        self._clock: Final = clock
        self._local_id: Final = local_id
        self._broker_epoch: Final = broker_epoch
        self._waiting: dict[Key, Partition] = {}
        self._news: Final = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition) -> None:
        """Send `partition.proposal` with the next request."""
        self._waiting[_key_of(partition)] = partition
        self._news.set()

    def start(self) -> None:
        self._task = in_background(self._run(), name="in-sync sets")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                try:
                    is_well = await self._send()
                except (KafkaError, OSError) as error:
                    LOG.info("the controller does not take in-sync sets now, and is asked again: %s", error)
                    is_well = False
                except Exception:
                    LOG.exception("a mistake of ours, while in-sync sets are altered")
                    is_well = False
                if not is_well:
                    await asyncio.sleep(RETRY_MS / 1000)

    async def _send(self) -> bool:
        """Send one request.  False when something is to be asked again.  Errors: KafkaError, OSError."""
        batch = [self._waiting.pop(key) for key in list(islice(self._waiting, PARTITIONS_AT_ONCE))]
        sent = {_key_of(partition): (partition, partition.proposal) for partition in batch if partition.proposal is not None}
        again = dict.fromkeys(sent)
        try:
            if sent:
                response = await self._alter_partition(self._request(sent.values()))
                if response.error_code:
                    raise KafkaError(ErrorCode.of(response.error_code))
                again = self._take(response, sent)
        finally:
            for key in again:
                self._waiting.setdefault(key, sent[key][0])
        return not again

    def _request(self, proposed: Iterable[tuple[Partition, IsrProposal]]) -> AlterPartitionRequest:
        topics: dict[UUID, AlterPartitionRequestTopicData] = {}
        for partition, proposal in proposed:
            isr = [BrokerState(broker_id=each, broker_epoch=self._epoch_of(partition, each)) for each in proposal.isr]
            topic = topics.setdefault(partition.topic_id, AlterPartitionRequestTopicData(topic_id=partition.topic_id, partitions=[]))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr_with_epochs=isr,
                )
            )
        return AlterPartitionRequest(broker_id=self._local_id, broker_epoch=self._broker_epoch(), topics=list(topics.values()))

    def _epoch_of(self, partition: Partition, broker_id: int) -> int:
        """The broker epoch with which a follower fetched (KIP-903).  If it is another one now, the controller refuses."""
        if broker_id == self._local_id:
            return self._broker_epoch()
        state = partition.followers.get(broker_id)
        return UNKNOWN_EPOCH if state is None else state.broker_epoch

    def _take(self, response: AlterPartitionResponse, sent: dict[Key, tuple[Partition, IsrProposal]]) -> dict[Key, None]:
        """Take the response.  Returns the partitions to ask for again."""
        unanswered = dict.fromkeys(sent)
        for topic in response.topics:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition_index
                if key not in unanswered:
                    continue
                partition, proposal = sent[key]
                code = ErrorCode.of(answer.error_code)
                if code is ErrorCode.NONE:
                    partition.isr_committed(
                        proposal,
                        leader_epoch=answer.leader_epoch,
                        partition_epoch=answer.partition_epoch,
                        isr=tuple(answer.isr),
                        now_ms=self._clock.monotonic_ms(),
                    )
                elif partition.isr_refused(proposal, code):
                    LOG.warning(
                        "%s: the controller refuses in-sync replicas %s, and is asked again: %s", partition, proposal.isr, code.name
                    )
                    continue
                else:
                    LOG.info("%s: the controller refuses in-sync replicas %s: %s", partition, proposal.isr, code.name)
                del unanswered[key]
        return unanswered


def _key_of(partition: Partition) -> Key:
    return partition.topic_id, partition.topic_partition.partition
