"""● A sink task: a member of the group `connect-NAME` that reads, converts, transforms and puts records, then commits.

Offsets are committed after the sink has flushed its records: at least once.  A sink that keeps offsets beside its data says where to go on
when partitions are opened, and so sees each record once.

Source: WorkerSinkTask.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from moldau.clients.admin import Admin, NewTopic
from moldau.clients.consumer import Consumer, RebalanceListener
from moldau.clients.producer import Producer, RecordMetadata
from moldau.clients.records import ConsumerRecord
from moldau.connect.connectors.connector import Connector, SinkTask
from moldau.connect.data import Header, Record
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.worker.failures import Failed, Stage
from moldau.connect.worker.task import START_WITHIN_S, TaskRun
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)
POLL_S: Final = 0.5
MAX_POLL_RECORDS: Final = 500


class _Listener(RebalanceListener):
    def __init__(self, run: "SinkRun") -> None:
        self._run = run

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._run.opened(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._run.revoked(partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._run.lost(partitions)


class SinkRun(TaskRun):
    kind: Connector

    async def work(self) -> None:
        options = self.around.options
        given = self.kind.task()
        assert isinstance(given, SinkTask)
        self._task = given
        self._put: dict[TopicPartition, int] = {}
        """The next offset of each partition that has put records whose offsets are not committed."""
        self._open: set[TopicPartition] = set()
        self._dead: Producer | None = None
        self._letters: list[Awaitable[RecordMetadata]] = []
        """Dead letters on their way."""
        self._consumed: dict[tuple[str, int, int], ConsumerRecord] = {}
        """The consumed records from which the records being put were made."""
        given.report = self._report
        self._dead_topic = (self.connector.get("errors.deadletterqueue.topic.name") or "").strip()
        self._tells_why = (self.connector.get("errors.deadletterqueue.context.headers.enable") or "").strip().lower() == "true"
        cluster = self.around.cluster.sibling()
        try:
            await self.patiently(lambda: given.start(self.config), START_WITHIN_S)
            own = {
                "group.id": f"connect-{self.task.connector}",
                "auto.offset.reset": "earliest",
                "client.id": f"connector-consumer-{self.task}",
                "max.poll.records": str(MAX_POLL_RECORDS),
                **options.client("consumer", self.connector),
                "enable.auto.commit": "false",
            }
            self._consumer = Consumer(cluster, own)
            await self._open_dead_letters()
            self._subscribe()
            self.is_up()
            await self._loop()
        finally:
            await self._end()
            cluster.close()

    async def _end(self) -> None:
        with suppress(KafkaError, OSError):
            if hasattr(self, "_consumer"):
                await self._consumer.close()
        if self._dead is not None:
            await self._dead.close()
        await self._task.stop()

    def _subscribe(self) -> None:
        topics = [one.strip() for one in (self.connector.get("topics") or "").split(",") if one.strip()]
        listener = _Listener(self)
        if topics:
            self._consumer.subscribe(topics, listener=listener)
        else:
            self._consumer.subscribe(pattern=re.compile(self.connector.get("topics.regex") or ""), listener=listener)

    async def _open_dead_letters(self) -> None:
        """Errors: ConnectError."""
        if not self._dead_topic:
            return
        factor = int(self.connector.get("errors.deadletterqueue.topic.replication.factor") or 3)
        async with Admin(self.around.cluster) as admin:
            for answer in (await admin.topics.create([NewTopic(self._dead_topic, 1, factor)])).values():
                if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise ConnectError(f"Could not initialize dead letter queue with topic={self._dead_topic}: {answer}") from answer
        own = {"client.id": f"connector-dlq-producer-{self.task}", **self.around.options.client("producer", self.connector)}
        self._dead = await Producer(self.around.cluster, own).start()

    # ------------------------------------------------------------ partitions

    async def opened(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        offsets = await self.patiently(lambda: self._task.open(partitions))
        for one, offset in offsets.items():
            self._consumer.seek(one, offset)
        self._open |= set(partitions)

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Flush put records before other members get the partitions."""
        leaving = self._open & set(partitions)
        if leaving:
            await self._commit()
            await self._closed(leaving)

    async def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Others have the partitions already: nothing may be committed any more."""
        await self._closed(self._open & set(partitions))

    async def _closed(self, partitions: set[TopicPartition]) -> None:
        for one in partitions:
            self._put.pop(one, None)
        self._open -= partitions
        await self._task.close(partitions)

    # ------------------------------------------------------------ records

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        flush_s = self.around.options["offset.flush.interval.ms"] / 1000
        committed_at = loop.time()
        while not self.is_stopping:
            if self.is_paused:
                await self._while_paused()
                continue
            for batch in await self._consumer.poll(POLL_S):
                self._consumed.clear()
                found = [await self.tried(partial(self._read, one)) for one in batch]
                records = [record for record in found if record is not None]
                await self._send_dead_letters()
                if records:
                    await self._put_records(records)
                    await self._send_dead_letters()
                self.around.uses_topic(self.task, batch.topic)
                self._put[batch.topic_partition] = batch.next_offset
            if loop.time() - committed_at >= flush_s:
                await self._commit()
                committed_at = loop.time()
        await self._commit()

    async def _while_paused(self) -> None:
        await self._commit()
        self._consumer.pause(self._consumer.assignment)
        while self.is_paused and not self.is_stopping:
            await self._consumer.poll(POLL_S)
            self._consumer.pause(self._consumer.assignment)
        self._consumer.resume(self._consumer.assignment)

    async def _put_records(self, records: Sequence[Record]) -> None:
        """If the task is to stop before the sink takes them, the records come again in the next task that has them."""
        await self.patiently(lambda: self._task.put(records))

    async def _commit(self) -> None:
        """Flush the sink, then commit the offsets.  Errors: ConnectError."""
        if not self._put:
            return
        try:
            offsets = await self._task.pre_commit(dict(self._put))
        except RetriableError as error:
            LOG.warning("task %s: %s; its offsets are committed later", self.task, error)
            return
        await self._send_dead_letters()
        self._put = {}
        try:
            await self._consumer.commit(dict(offsets))
        except KafkaError as error:
            LOG.warning("task %s: offsets could not be committed: %s", self.task, error)
            self._put = {**offsets, **self._put}

    def _read(self, consumed: ConsumerRecord) -> Record | None:
        """None: the record was dropped, or passed over."""
        position = (consumed.topic, consumed.partition, consumed.offset)
        stage, converter = Stage.KEY_CONVERTER, self.keys
        try:
            key_schema, key = self.keys.to_data(consumed.topic, consumed.key)
            stage, converter = Stage.VALUE_CONVERTER, self.values
            value_schema, value = self.values.to_data(consumed.topic, consumed.value)
            stage, converter = Stage.HEADER_CONVERTER, self.headers
            headers = tuple(Header(name, *self.headers.to_data(consumed.topic, one)) for name, one in consumed.headers)
        except Exception as error:
            if self.is_for_later(error):
                raise
            self._fail(self.converting(stage, converter, error), consumed)
            return None
        record = Record(
            consumed.topic, consumed.partition, key_schema, key, value_schema, value, consumed.timestamp, headers,
            offset=consumed.offset, position=position,
        )  # fmt: skip
        found = self.transformed(record)
        if isinstance(found, Failed):
            self._fail(found, consumed)
            return None
        if found is not None:
            self._consumed[position] = consumed
        return found

    def _report(self, record: Record, error: Exception) -> None:
        assert record.position is not None
        self._fail(Failed(Stage.TASK_PUT, "org.apache.kafka.connect.sink.SinkTask", error), self._consumed[record.position])

    def _fail(self, failed: Failed, consumed: ConsumerRecord) -> None:
        """Errors: ConnectError, when nothing is tolerated."""
        record = Record(consumed.topic, consumed.partition, offset=consumed.offset)
        self._letter(failed, consumed)
        self.passed_over(failed, record)

    def _letter(self, failed: Failed, consumed: ConsumerRecord) -> None:
        if self._dead is None:
            return
        told = failed.headers(self.task, consumed.topic, consumed.partition, consumed.offset) if self._tells_why else []
        headers = [*consumed.headers, *told]
        self._letters.append(self._dead.send(self._dead_topic, consumed.value, key=consumed.key, headers=headers))

    async def _send_dead_letters(self) -> None:
        """A record counts as read once its dead letter is written.  Errors: KafkaError."""
        letters, self._letters = self._letters, []
        for one in letters:
            await one
