"""● Reads the records that transactions commit, while they are written and when all is calm, and looks for hanging transactions."""

import asyncio
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.checker import HighWatermark
from moldau.testing.clock import EPOCH_MS
from moldau.types import ZERO_UUID, TopicPartition
from proof.cluster.workload import Notes
from proof.transactions.history import Sight, TransactionHistory
from proof.transactions.reading import (
    COMMITTED,
    FETCH_VERSION,
    OF_NO_TRANSACTION,
    OFFSET_FETCH_VERSION,
    RETRY_S,
    TransactionClient,
    code_of_fetch,
    code_of_offsets,
    committed_records,
    fetch_request,
    offsets_request,
    raise_for,
)

BATCH_RECORDS: Final = 50
LATEST: Final = -1
PRODUCE_VERSION: Final = 12
GROUP, TRANSACTION = 0, 1
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Auditor(TransactionClient):
    """Reads committed records while they are written."""

    def begin(self, history: TransactionHistory, outputs: list[TopicPartition]) -> None:
        self._history = history
        self._outputs = outputs
        self._positions = dict.fromkeys(outputs, 0)

    async def run(self, until_s: float, notes: Notes) -> None:
        while self._loop.time() < until_s:
            dice = self.choice.random()
            try:
                if dice < 0.1:
                    await self._send(self.choice.choice(self._outputs), [OF_NO_TRANSACTION], acks=self.choice.choice((1, -1)))
                elif dice < 0.2:
                    again = self.choice.choice(self._outputs)
                    self._positions[again] = self.choice.randint(0, self._positions[again])
                else:
                    await self._poll(notes)
            except (OSError, KafkaError):
                pass
            await asyncio.sleep(self.choice.expovariate(3.0))

    async def _poll(self, notes: Notes) -> None:
        asked_s, life = self._loop.time(), notes.broker_life
        request = fetch_request(list(self._positions.items()), max_bytes=self.choice.choice((1, 500, 1 << 20)))
        response = await self.ask(request, FETCH_VERSION)
        for topic in response.responses:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic, one.partition_index)
                if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._positions[partition] = 0  # a power failure took records behind the last committed one
                if one.error_code:
                    notes.count_error("fetch", one.error_code)
                    continue
                start_offset = self._positions[partition]
                end_offset, records = committed_records(one, start_offset)
                if end_offset > one.last_stable_offset:
                    notes.violations.append(f"{partition}: {end_offset - 1} was read, the last stable offset is {one.last_stable_offset}")
                now_s = self._loop.time()
                sight = Sight(partition, start_offset, end_offset, tuple(records), one.last_stable_offset, asked_s, now_s)
                self._history.sights.append(sight)
                self._positions[partition] = end_offset
                if life == notes.broker_life:
                    key = f"the last stable part of {partition}"
                    notes.history.watermarks.append(HighWatermark(key, life, one.last_stable_offset, asked_s * 1000, now_s * 1000))
        notes.done["audit"] += 1

    async def _send(self, partition: TopicPartition, values: list[int], *, acks: int) -> None:
        """Send records outside of any transaction.  Errors: OSError, KafkaError."""
        batch = build_batch([NewRecord(EPOCH_MS, None, value.to_bytes(8, "big")) for value in values])
        data = PartitionProduceData(index=partition.partition, records=memoryview(batch))
        request = ProduceRequest(acks=acks, timeout_ms=2_000, topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])])
        response = await self.ask(request, PRODUCE_VERSION)
        raise_for(response.responses[0].partition_responses[0].error_code)

    # before and after

    async def create(self, topics: dict[str, int], groups: list[str], transactional_ids: list[str]) -> None:
        """Create topics with these numbers of partitions, and look coordinators up.  Errors: OSError, KafkaError."""
        wanted = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
            for name, count in topics.items()
        ]
        created = await self.ask(CreateTopicsRequest(topics=wanted, timeout_ms=5_000))
        for each in created.topics:
            if each.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise_for(each.error_code)
        for kind, names in ((GROUP, groups), (TRANSACTION, transactional_ids)):
            found = await self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=names))
            for one in found.coordinators:
                raise_for(one.error_code)

    async def fill(self, source: TopicPartition, count: int) -> None:
        """Fill a partition with values that equal their offsets.  Errors: OSError, KafkaError."""
        for first in range(await self.end(source), count, BATCH_RECORDS):
            await self._send(source, list(range(first, first + BATCH_RECORDS)), acks=-1)

    async def end(self, partition: TopicPartition, *, isolation_level: int = 0) -> int:
        """Errors: OSError, KafkaError."""
        asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST)
        topic = ListOffsetsTopic(name=partition.topic, partitions=[asked])
        response = await self.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic]))
        answered = response.topics[0].partitions[0]
        raise_for(answered.error_code)
        return answered.offset

    async def what_hangs(self, groups: list[str]) -> list[str]:
        """Errors: OSError, KafkaError."""
        hanging = []
        for partition in self._outputs:
            stable, end = await self.end(partition, isolation_level=COMMITTED), await self.end(partition)
            if stable < end:
                hanging.append(f"{partition} can be read to {stable}, its end is {end}")
        listed = await self.ask(ListTransactionsRequest(state_filters=list(OPEN_STATES), producer_id_filters=[]))
        raise_for(listed.error_code)
        hanging += [f"{one.transactional_id} is in {one.transaction_state}" for one in listed.transaction_states]
        for group in groups:
            try:
                await self.committed(group)
            except (OSError, KafkaError) as error:
                hanging.append(f"where {group} stands: {error}")
        return hanging

    async def committed(self, group: str) -> int | None:
        """Errors: OSError, KafkaError."""
        response = await self.ask(offsets_request(group), OFFSET_FETCH_VERSION)
        raise_for(code_of_offsets(response))
        return next((one.committed_offset for topic in response.groups[0].topics for one in topic.partitions), None)

    async def read_all(self, partition: TopicPartition) -> list[tuple[int, int]]:
        """Errors: OSError, KafkaError."""
        found: list[tuple[int, int]] = []
        position, end = 0, await self.end(partition)
        while position < end:
            response = await self.ask(fetch_request([(partition, position)], max_bytes=1 << 20), FETCH_VERSION)
            raise_for(code_of_fetch(response))
            before = position
            position, records = committed_records(response.responses[0].partitions[0], position)
            found += records
            if position == before:
                await asyncio.sleep(RETRY_S)
        return found

    async def delete(self, topics: list[str]) -> None:
        """Errors: OSError, KafkaError."""
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in topics]
        response = await self.ask(DeleteTopicsRequest(topics=states, timeout_ms=5_000))
        for each in response.responses:
            if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise_for(each.error_code)
