"""● A consumer that shares its topics with the other members of a group.

    async with GroupConsumer(cluster, "group", ["topic"]) as consumer:
        records = await consumer.poll(wait_s=1.0)

Guarantee: at least once.  What `poll` handed out counts as done at the next `poll`, at a rebalance, or when the consumer closes; then its
offsets are committed, unless `auto_commit` is off.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.consumer import LATEST, ConsumedRecord, Consumer, ConsumerOptions
from moldau.clients.membership import Membership, MembershipOptions, MemberState, Topics
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupConsumerOptions:
    consumer: ConsumerOptions = field(default_factory=ConsumerOptions)
    membership: MembershipOptions = field(default_factory=MembershipOptions)
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000


class GroupConsumer:
    """`topics`: names, or what picks them from the topics that there are.  `on_assigned` is told of every new assignment."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str] | Topics,
        options: GroupConsumerOptions = GroupConsumerOptions(),
        on_assigned: Callable[[list[TopicPartition]], None] = lambda _: None,
    ) -> None:
        named: Topics = topics if callable(topics) else lambda _: topics
        self._consumer = Consumer(cluster, options.consumer)
        self._member = Membership(cluster, group_id, named, options.membership)
        self._options = options
        self._on_assigned = on_assigned
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due = 0.0

    @property
    def assignment(self) -> list[TopicPartition]:
        return sorted(self._consumer.assignment)

    async def poll(self, *, wait_s: float = 1.0) -> list[ConsumedRecord]:
        """As `Consumer.poll`; joins, and joins again, as the group needs it.  Errors: KafkaError; CorruptBatch."""
        self._done = dict(self._consumer.assignment)
        if self._member.state is not MemberState.STABLE:
            await self._rejoin()
        self._member.polled()
        if self._options.auto_commit and asyncio.get_running_loop().time() >= self._commit_due:
            await self._commit_quietly()
        if not self._consumer.assignment:
            await asyncio.sleep(min(wait_s, self._options.membership.heartbeat_interval_ms / 1000))
            return []
        return await self._consumer.poll(wait_s=wait_s)

    async def give_back(self, records: Sequence[ConsumedRecord]) -> None:
        """The last records of a poll were not used after all: whoever reads their partitions next gets them again."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        await self._consumer.assign({**self._consumer.assignment, **first})

    async def commit(self) -> None:
        """Everything handed out by polls before the last one, and by the last one too.  Errors: KafkaError."""
        self._done = dict(self._consumer.assignment)
        await self._commit()

    async def close(self) -> None:
        self._done = dict(self._consumer.assignment)
        if self._options.auto_commit and self._member.state in (MemberState.STABLE, MemberState.REBALANCING):
            await self._commit_quietly()
        await self._member.leave()
        await self._consumer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _rejoin(self) -> None:
        if self._options.auto_commit and self._member.state is MemberState.REBALANCING:
            await self._commit_quietly()
        await self._consumer.assign({})
        partitions = await self._member.join()
        reset = self._options.consumer.reset
        committed = await self._member.committed(partitions)
        missing = [one for one in partitions if one not in committed]
        if missing and reset is None:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{missing[0]} has no committed offset, and there is no rule where to begin")
        await self._consumer.assign(committed | dict.fromkeys(missing, LATEST if reset is None else reset))
        self._done, self._committed = dict(self._consumer.assignment), committed
        self._commit_due = asyncio.get_running_loop().time() + self._options.auto_commit_interval_ms / 1000
        self._on_assigned(sorted(partitions))

    async def _commit_quietly(self) -> None:
        """A commit that fails is done again, here or by the partition's next owner: records come twice then, none is lost."""
        with suppress(KafkaError, OSError, Unreachable):
            await self._commit()

    async def _commit(self) -> None:
        self._commit_due = asyncio.get_running_loop().time() + self._options.auto_commit_interval_ms / 1000
        changed = {one: offset for one, offset in self._done.items() if self._committed.get(one) != offset}
        await self._member.commit(changed)
        self._committed.update(changed)
