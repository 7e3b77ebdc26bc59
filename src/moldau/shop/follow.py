"""● A topic followed without a group: from given offsets to the end that it has now, and then on."""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from moldau import Consumer, TopicPartition
from moldau.clients.records import ConsumerRecord

POLL_S: Final = 0.5


class Positions(Exception):
    """The topic ends before the positions that were kept of it: it was made anew."""


class Batch(NamedTuple):
    records: Sequence[ConsumerRecord]
    positions: Mapping[TopicPartition, int]
    """The positions of the next records; they pass the markers of transactions, which are no records."""
    is_at_end: bool
    """All records that were there when the following began have come."""


async def resume(consumer: Consumer, topics: Sequence[str]) -> None:
    """Begin to read every partition where its group committed, else at its beginning.  Errors: ClientError."""
    partitions = [TopicPartition(topic, number) for topic in topics for number in await consumer.partitions_for(topic)]
    committed = await consumer.committed(partitions)
    begins = await consumer.beginning_offsets(partitions)
    await consumer.assign({one: begins[one] if (found := committed.get(one)) is None else found.offset for one in partitions})


class Follower:
    """Follows the committed records of a topic."""

    def __init__(self, servers: str, topic: str, security: Mapping[str, str], positions: Mapping[int, int]) -> None:
        options = {**security, "isolation.level": "read_committed", "enable.auto.commit": "false", "fetch.max.wait.ms": "100"}
        self._consumer = Consumer(servers, {**options, "auto.offset.reset": "earliest"})
        self._topic = topic
        self._known = positions
        self.partitions: Sequence[int] = ()
        self._ends: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Self:
        """Errors: Positions, ClientError."""
        self.partitions = await self._consumer.partitions_for(self._topic)
        all_of_them = [TopicPartition(self._topic, number) for number in self.partitions]
        begins = await self._consumer.beginning_offsets(all_of_them)
        self._ends = await self._consumer.end_offsets(all_of_them)
        for one, end in self._ends.items():
            if self._known.get(one.partition, 0) > end:
                raise Positions(f"{one.topic}-{one.partition} ends at {end}, and {self._known[one.partition]} were read before")
        await self._consumer.assign({one: max(self._known.get(one.partition, 0), begins[one]) for one in all_of_them})
        return self

    async def batches(self) -> AsyncIterator[Batch]:
        """Batches for ever.  Errors: ClientError."""
        while True:
            polled = await self._consumer.poll(POLL_S)
            positions = self._consumer.positions
            is_at_end = all(positions.get(one, 0) >= end for one, end in self._ends.items())
            yield Batch([record for records in polled for record in records], positions, is_at_end)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._consumer.close()
