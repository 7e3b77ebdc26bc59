"""● Dead letters of share groups (KIP-1191): records that were rejected, or delivered too often, are copied to a topic of their own.

    decided ─▶ appended to the dead letter topic ─▶ acknowledged there ─▶ the state is written ─▶ the consumer is answered

So no record is done before its dead letter is safe.  After a crash in between a letter may come twice, but none is missing.  Letters of
source partition p go to partition p modulo the number of partitions, or to the next that has a leader, wherever that is.  A letter's
headers name its source; with errors.deadletterqueue.copy.record.enable it has key and value of the record.

A topic that may not take dead letters (missing, another prefix, not enabled) does not hold the group up: the broker logs it, and the
records are done without a letter.  A topic that cannot take them now does: the decision is undone, and tried again.

Source: KIP-1191; Kafka has it since 4.4.  Called by `partitions.py` before it writes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import ALL_IN_SYNC, Partition
from moldau.replication.share.config import SharePartitionConfig
from moldau.replication.share.decision import DeadRange
from moldau.replication.waits import ProduceWait
from moldau.server.coordinators.log import Slot
from moldau.server.peers.brokers import Brokers
from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.validator import AppendFailure
from moldau.types import NO_LEADER, FileSlice, TopicPartition

LOG: Final = logging.getLogger(__name__)

PREFIX: Final = "__dlq.errors."
READ_BYTES: Final = 1 << 20
"""The bytes of the source that are read at a time; a larger single batch comes whole."""
PATIENCE_MS: Final = 30_000
"""The milliseconds after which letters count as not written."""
Source = tuple[bytes | None, bytes | None]
CreateTopic = Callable[[str, int, int, dict[str, str]], Awaitable[None]]


@dataclass(frozen=True)
class LettersTopic:
    """The metadata of a topic for dead letters."""

    topic_id: UUID
    partition_count: int
    config: LogConfig


class DeadLetters:
    """See the module."""

    def __init__(
        self,
        *,
        config: SharePartitionConfig,
        replicas: ReplicaManager,
        clock: Clock,
        files: Files,
        group_values: Callable[[str], Mapping[str, Any]],
        topic_of: Callable[[str], LettersTopic | None],
        create_topic: CreateTopic,
        brokers: Brokers,
    ) -> None:
        self._config: Final = config
        self._replicas: Final = replicas
        self._clock: Final = clock
        self._files: Final = files
        self._group_values: Final = group_values
        self._topic_of: Final = topic_of
        self._create_topic: Final = create_topic
        self._brokers: Final = brokers

    async def bury(self, group_id: str, partition: Partition, dead: Sequence[DeadRange]) -> None:
        """Write letters; returns when they are safe, or when there is no place for them.

        Errors: KafkaError: the decision is to be undone.
        """
        values = self._group_values(group_id)
        topic = values.get("errors.deadletterqueue.topic.name", self._config.dead_letter_topic)
        refusal = await self._refusal(topic)
        if refusal is not None:
            count = sum(one.last_offset - one.first_offset + 1 for one in dead)
            LOG.error(
                "%d record(s) of %s are done without a dead letter: share group %s names topic %s, %s",
                count,
                partition.topic_partition,
                group_id,
                topic,
                refusal,
            )
            return
        copies: dict[int, Source] = {}
        if values.get("errors.deadletterqueue.copy.record.enable", self._config.has_copies_in_dead_letters):
            copies = await self._copies(partition, dead)
        found = self._topic_of(topic)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Dead letter topic {topic} is not known here yet")
        letters = list(letters_of(group_id, partition, dead, copies, self._clock.now_ms()))
        for batch in packed(letters, found.config.max_message_bytes):
            await self._send(topic, found, partition.topic_partition.partition, batch)

    async def _refusal(self, topic: str) -> str | None:
        """The reason why the topic never takes dead letters."""
        prefix = self._config.dead_letter_prefix
        if not topic.startswith(prefix):
            return f"which does not begin with errors.deadletterqueue.topic.name.prefix={prefix}"
        found = self._topic_of(topic)
        if found is None:
            if not self._config.may_create_dead_letter_topics:
                return "which is not there"
            await self._create_topic(topic, 1, -1, {"errors.deadletterqueue.group.enable": "true"})
        elif not found.config.takes_dead_letters:
            return "which has not errors.deadletterqueue.group.enable=true"
        return None

    async def _send(self, topic: str, found: LettersTopic, number: int, batch: bytearray) -> None:
        """Send to the first partition that has a leader, beginning with this number.  Errors: KafkaError."""
        for step in range(found.partition_count):
            where = TopicPartition(topic, (number + step) % found.partition_count)
            hosted = self._replicas.hosted.get(where)
            if hosted is not None and hosted.is_leader:
                return await self._append(hosted, batch)
            leader_id = self._brokers.leader_of(where)
            if leader_id not in (NO_LEADER, self._replicas.local_id):
                return await self._ask(leader_id, where, found.topic_id, batch)
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"No partition of dead letter topic {topic} has a leader")

    async def _ask(self, broker_id: int, where: TopicPartition, topic_id: UUID, batch: bytearray) -> None:
        data = TopicProduceData(
            name=where.topic,
            topic_id=topic_id,
            partition_data=[PartitionProduceData(index=where.partition, records=memoryview(batch))],
        )
        try:
            response = await self._brokers.ask(broker_id, ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=PATIENCE_MS, topic_data=[data]))
        except OSError as error:
            text = f"A dead letter could not be sent to broker {broker_id}, which leads {where}: {error}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text) from error
        code = response.responses[0].partition_responses[0].error_code
        if code:
            raise KafkaError(ErrorCode.of(code), f"A dead letter on {where} is not safe: broker {broker_id}, which leads it, refuses it")

    async def _append(self, target: Partition, batch: bytearray) -> None:
        result = target.append(batch, acks=ALL_IN_SYNC, now_ms=self._clock.now_ms(), origin=AppendOrigin.COORDINATOR)
        if isinstance(result, AppendFailure):
            raise KafkaError(result.error, f"A dead letter could not be appended to {target.topic_partition}: {result.detail}")
        safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slot = Slot()
        wait = ProduceWait(lambda: None if safe.done() else safe.set_result(None))
        if target.await_acknowledgement(result.last_offset + 1, wait, slot):
            return
        timeouts = self._replicas.timeouts
        timeouts.add(wait, self._clock.monotonic_ms() + PATIENCE_MS)
        await safe
        timeouts.discard(wait)
        if slot.error_code:
            raise KafkaError(ErrorCode.of(slot.error_code), f"A dead letter on {target.topic_partition} is not safe")

    async def _copies(self, source: Partition, dead: Sequence[DeadRange]) -> dict[int, Source]:
        """The key and value of every record that the log still has.  A thread reads and decompresses."""
        found: dict[int, Source] = {}
        for one in dead:
            position = max(one.first_offset, source.log.log_start_offset)
            while position <= one.last_offset:
                data = source.log.read(position, READ_BYTES)
                if isinstance(data, ErrorCode) or data.records is None:
                    break
                read, position_after = await self._files.run(_records_in, data.records, one._replace(first_offset=position))
                found |= read
                if position_after <= position:
                    break
                position = position_after
        return found


def _records_in(records: FileSlice, wanted: DeadRange) -> tuple[dict[int, Source], int]:
    """The wanted records of a slice, and the offset after its last whole batch."""
    view = memoryview(records.read())
    found: dict[int, Source] = {}
    position = wanted.first_offset
    for at, header in batches(view):
        position = header.last_offset + 1
        if header.is_control or header.last_offset < wanted.first_offset or header.base_offset > wanted.last_offset:
            continue
        with suppress(CorruptBatch):  # letters of unreadable records are without copies
            for record in records_of(view[at : at + header.size]):
                if wanted.first_offset <= record.offset <= wanted.last_offset:
                    found[record.offset] = (_bytes(record.key), _bytes(record.value))
    return found, position


def _bytes(view: memoryview | None) -> bytes | None:
    """The bytes, kept beyond the life of their batch."""
    return None if view is None else bytes(view)


def letters_of(
    group_id: str, source: Partition, dead: Iterable[DeadRange], copies: Mapping[int, Source], now_ms: int
) -> Iterator[NewRecord]:
    """One letter for each offset.  Source: KIP-1191, context headers."""
    for one in dead:
        for offset in range(one.first_offset, one.last_offset + 1):
            said = {
                "topic": source.topic_partition.topic,
                "partition": source.topic_partition.partition,
                "offset": offset,
                "group": group_id,
                "delivery.count": one.delivery_count,
                "message": one.cause.value,
            }
            key, value = copies.get(offset, (None, None))
            headers = [(PREFIX + name, str(what).encode("utf-8")) for name, what in said.items()]
            yield NewRecord(now_ms, key, value, headers)


def packed(letters: Sequence[NewRecord], max_bytes: int) -> Iterator[bytearray]:
    """The letters in as few batches as possible; a letter that is too large with its record goes without it."""
    batch = build_batch(letters)
    if len(batch) <= max_bytes:
        yield batch
    elif len(letters) == 1:
        yield build_batch([letters[0]._replace(key=None, value=None)])
    else:
        half = len(letters) // 2
        yield from packed(letters[:half], max_bytes)
        yield from packed(letters[half:], max_bytes)
