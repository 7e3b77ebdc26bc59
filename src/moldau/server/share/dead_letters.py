"""● Dead letters of share groups (KIP-1191): what was rejected or delivered in vain too often is copied to a topic of its own.

    decided ─▶ appended to the dead letter topic ─▶ acknowledged there ─▶ the state is written ─▶ the consumer is answered

So nothing is done before its dead letter is safe; after a crash in between a letter may come twice, none is missing.  Letters of source
partition p go to partition p modulo the number of partitions, or to the next that this broker leads.  A letter says in headers where it
comes from; with errors.deadletterqueue.copy.record.enable it has key and value of the record.

A topic that may not take dead letters (not there, another prefix, not enabled) does not hold the group up: that is told in the log, and
the records are done without.  One that cannot take them now does: what was decided goes back, and is tried again.

Source: KIP-1191; Kafka has it since 4.4.  Called by `partitions.py` before it writes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import ALL_IN_SYNC, Partition
from moldau.replication.share.config import SharePartitionConfig
from moldau.replication.share.decision import DeadRange
from moldau.replication.waits import ProduceWait
from moldau.server.coordinators.log import Slot
from moldau.storage.files import Files
from moldau.storage.producer_state import AppendOrigin
from moldau.storage.validator import AppendFailure
from moldau.types import FileSlice

LOG: Final = logging.getLogger(__name__)

PREFIX: Final = "__dlq.errors."
READ_BYTES: Final = 1 << 20
"""Of the source at a time; a single larger batch comes whole."""
PATIENCE_MS: Final = 30_000
"""How long letters may take to be acknowledged before they count as not written."""
Source = tuple[bytes | None, bytes | None]
CreateTopic = Callable[[str, int, int, dict[str, str]], Awaitable[None]]


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
        partition_count: Callable[[str], int],
        create_topic: CreateTopic,
    ) -> None:
        """`partition_count` is 0 for a topic that is not there."""
        self._config: Final = config
        self._replicas: Final = replicas
        self._clock: Final = clock
        self._files: Final = files
        self._group_values: Final = group_values
        self._partition_count: Final = partition_count
        self._create_topic: Final = create_topic

    async def bury(self, group_id: str, partition: Partition, dead: Sequence[DeadRange]) -> None:
        """Returns when the letters are safe, or when there is no place for them.  Errors: KafkaError, what was decided is to go back."""
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
        target = self._target(topic, partition.topic_partition.partition)
        letters = list(letters_of(group_id, partition, dead, copies, self._clock.now_ms()))
        for batch in packed(letters, target.log.config.max_message_bytes):
            await self._append(target, batch)

    async def _refusal(self, topic: str) -> str | None:
        """Why the topic takes no dead letters, whatever one waits for."""
        prefix = self._config.dead_letter_prefix
        if not topic.startswith(prefix):
            return f"which does not begin with errors.deadletterqueue.topic.name.prefix={prefix}"
        if not self._partition_count(topic):
            if not self._config.may_create_dead_letter_topics:
                return "which is not there"
            await self._create_topic(topic, 1, -1, {"errors.deadletterqueue.group.enable": "true"})
        hosted = next((one for one in self._replicas if one.topic_partition.topic == topic), None)
        if hosted is not None and not hosted.log.config.takes_dead_letters:
            return "which has not errors.deadletterqueue.group.enable=true"
        return None

    def _target(self, topic: str, number: int) -> Partition:
        count = self._partition_count(topic)
        for step in range(count):
            partition = self._replicas.hosted.get((topic, (number + step) % count))
            if partition is not None and partition.is_leader:
                return partition
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"No partition of dead letter topic {topic} is led here")

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
        """Key and value of every record that the log still has.  Reading and decompressing is done elsewhere."""
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
        with suppress(CorruptBatch):  # the letters of what nobody can read are without copies
            for record in records_of(view[at : at + header.size]):
                if wanted.first_offset <= record.offset <= wanted.last_offset:
                    found[record.offset] = (_bytes(record.key), _bytes(record.value))
    return found, position


def _bytes(view: memoryview | None) -> bytes | None:
    """Kept beyond the life of the batch that it is a part of."""
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
    """As few batches as fit; a letter that is too large with its record goes without."""
    batch = build_batch(letters)
    if len(batch) <= max_bytes:
        yield batch
    elif len(letters) == 1:
        yield build_batch([letters[0]._replace(key=None, value=None)])
    else:
        half = len(letters) // 2
        yield from packed(letters[:half], max_bytes)
        yield from packed(letters[half:], max_bytes)
