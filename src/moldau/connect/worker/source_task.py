"""● A source task: poll, transform, convert, produce; then commit the offsets.

Without exactly.once.source.support, offsets are written every offset.flush.interval.ms, after every record before them is in its topic: at
least once.  With it, the records of a poll and their offset are one transaction of the task's own transactional id, which fences earlier
runs of the task: once.

Source: AbstractWorkerSourceTask, ExactlyOnceWorkerSourceTask (KIP-618).
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from moldau.clients.admin import Admin
from moldau.clients.producer import Producer
from moldau.connect.connectors.connector import Connector, SourceTask
from moldau.connect.data import Record
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.store.configs import KeyValue
from moldau.connect.store.offsets import canonical, offset_record
from moldau.connect.worker.failures import Failed, Stage
from moldau.connect.worker.task import RETRY_S, START_WITHIN_S, TaskRun
from moldau.connect.worker.topic_creation import TopicCreation
from moldau.errors import KafkaError

LOG: Final = logging.getLogger(__name__)
LOOK_S: Final = 0.2

Produced = tuple[str, int | None, bytes | None, bytes | None, int | None, list[tuple[str, bytes | None]]]


class _Offsets:
    def __init__(self, run: "SourceRun") -> None:
        self._run = run

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._run.around.offsets.offset(self._run.task.connector, partition)


class SourceRun(TaskRun):
    kind: Connector

    async def work(self) -> None:
        options = self.around.options
        self._writes_once = options.writes_once
        self._pending: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._known_topics: set[str] = set()
        self._topics = TopicCreation.of(self.connector) if options["topic.creation.enable"] else None
        own = options.client("producer", self.connector)
        if self._writes_once:
            own["transactional.id"] = f"{options['group.id']}-{self.task}"
        own.setdefault("client.id", f"connector-producer-{self.task}")
        task = self.kind.task()
        assert isinstance(task, SourceTask)
        # The start of a producer with a transactional id ends the transaction of the run before.
        async with Producer(self.around.cluster, own) as self._producer:
            try:
                await self.around.offset_log.read_to_end()
                await self.patiently(lambda: task.start(self.config, _Offsets(self)), START_WITHIN_S)
                self.is_up()
                await self._loop(task)
            finally:
                await task.stop()

    async def _loop(self, task: SourceTask) -> None:
        loop = asyncio.get_running_loop()
        flush_s = self.around.options["offset.flush.interval.ms"] / 1000
        flushed_at = loop.time()
        while not self.is_stopping:
            if self.is_paused:
                await self._commit(task)
                await self.wait(LOOK_S)
                continue
            try:
                records = await task.poll()
            except RetriableError as error:
                LOG.warning("task %s: %s; it is tried again", self.task, error)
                await self.wait(RETRY_S)
                continue
            if records:
                await self._send(task, records)
            if not self._writes_once and loop.time() - flushed_at >= flush_s:
                await self._commit(task)
                flushed_at = loop.time()
        await self._commit(task)

    async def _send(self, task: SourceTask, records: Sequence[Record]) -> None:
        if not self._writes_once:
            await self._produce(records)
            return
        async with self._producer.transaction():
            await self._produce(records)
            for record in self._taken():
                self._producer.send(self.around.offset_log.topic, record[1], key=record[0])
        await self._tell_committed(task)

    async def _tell_committed(self, task: SourceTask) -> None:
        """Tell the source.  The records are safe, so a source that cannot be told now is told with the next ones."""
        try:
            await task.commit()
        except ConnectError as error:
            LOG.warning("task %s: the source could not be told of its offset: %s", self.task, error)

    async def _produce(self, records: Sequence[Record]) -> None:
        for record in records:
            produced = await self.tried(partial(self._converted, record))
            if produced is not None:
                topic, partition, key, value, timestamp, headers = produced
                await self._ensure(topic)
                sent = self._producer.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp, headers=headers)
                sent.add_done_callback(partial(self._delivered, topic))
                await self._producer.drain()
            if record.source_partition is not None and record.source_offset is not None:
                self._pending[canonical(record.source_partition)] = record.source_partition, record.source_offset
        self._raise_failure()

    _failure: BaseException | None = None

    def _delivered(self, topic: str, done: "asyncio.Future[Any]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and self._failure is None:
            failed = Failed(Stage.KAFKA_PRODUCE, "moldau.clients.producer.Producer", ConnectError(f"topic {topic}: {error}"))
            if self.tolerance.tolerates and not self._writes_once:
                LOG.error("%s", self.tolerance.line(self.task, failed, None))
            else:
                self._failure = failed.error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise ConnectError(f"a record could not be written: {self._failure}") from self._failure

    async def _ensure(self, topic: str) -> None:
        if topic in self._known_topics:
            return
        if self._topics is not None:
            await self._topics.ensure(Admin(self.around.cluster), topic)
        self._known_topics.add(topic)
        self.around.uses_topic(self.task, topic)

    def _converted(self, given: Record) -> Produced | None:
        record = self.transformed(given)
        if isinstance(record, Failed):
            self.passed_over(record, given)
            return None
        if record is None:
            return None
        stage, converter = Stage.KEY_CONVERTER, self.keys
        try:
            key = self.keys.to_bytes(record.topic, record.key_schema, record.key)
            stage, converter = Stage.VALUE_CONVERTER, self.values
            value = self.values.to_bytes(record.topic, record.value_schema, record.value)
            stage, converter = Stage.HEADER_CONVERTER, self.headers
            headers = [(one.key, self.headers.to_bytes(record.topic, one.schema, one.value)) for one in record.headers]
        except Exception as error:
            if self.is_for_later(error):
                raise
            self.passed_over(self.converting(stage, converter, error), given)
            return None
        return record.topic, record.partition, key, value, record.timestamp, headers

    def _taken(self) -> list[KeyValue]:
        pending, self._pending = self._pending, {}
        return [offset_record(self.task.connector, partition, offset) for partition, offset in pending.values()]

    async def _commit(self, task: SourceTask) -> None:
        """Wait for the records, write the offsets, then tell the source.  Errors: ConnectError, KafkaError."""
        if self._writes_once or not self._pending:
            return
        await self._producer.flush()
        self._raise_failure()
        try:
            await self.around.offset_log.write(self._taken())
        except KafkaError as error:
            raise ConnectError(f"offsets could not be committed: {error}") from error
        await self._tell_committed(task)
