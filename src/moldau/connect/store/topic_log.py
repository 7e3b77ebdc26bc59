"""● A topic that is read whole, followed and written to: each log of a worker in a group.  Source: KafkaBasedLog, TopicAdmin."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from moldau.clients.admin import Admin, NewTopic
from moldau.clients.cluster import Cluster
from moldau.clients.consumer import Consumer
from moldau.clients.producer import Delivery, Producer
from moldau.connect.errors import ConnectError
from moldau.connect.store.configs import KeyValue
from moldau.connect.store.log import Replay
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)
POLL_S: Final = 1.0


async def ensure_topic(admin: Admin, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
    """Errors: KafkaError."""
    new = NewTopic(name, partitions, replication_factor, configs=dict(configs))
    for answer in (await admin.topics.create([new])).values():
        if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ConnectError(f"topic {name} cannot be created: {answer}") from answer


class TopicLog:
    """Records are replayed from `start` on, as they come.  `read_to_end` waits for those that are there."""

    def __init__(self, cluster: Cluster, producer: Producer, topic: str, replay: Replay) -> None:
        self.topic = topic
        self._cluster = cluster
        self._producer = producer
        self._replay = replay
        self._task: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        self._failure: Exception | None = None

    async def start(self) -> None:
        self._consumer = Consumer(
            self._cluster, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed", fetch_max_wait_ms=500
        )
        self._ends = Consumer(self._cluster, enable_auto_commit=False)
        self._partitions = [TopicPartition(self.topic, index) for index in await self._consumer.partitions_for(self.topic)]
        await self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=f"follow {self.topic}")

    async def _follow(self) -> None:
        while True:
            try:
                for records in await self._consumer.poll(POLL_S):
                    for record in records:
                        self._replay(record.offset, record.key, record.value)
            except (KafkaError, OSError) as error:
                LOG.warning("topic %s: %s", self.topic, error)
                await asyncio.sleep(POLL_S)
            except Exception as error:
                self._failure = error
                self._progress.set()
                raise
            self._progress.set()

    async def read_to_end(self) -> None:
        """Wait until everything that is in the topic now has been replayed.

        The end includes open transactions: records committed behind one cannot be read before it ends, and would otherwise be missed.
        """
        ends = await self._ends.end_offsets(self._partitions)
        while True:
            if self._failure is not None:
                raise ConnectError(f"topic {self.topic} cannot be followed: {self._failure}") from self._failure
            positions = self._consumer.positions
            if all(positions.get(one, 0) >= end for one, end in ends.items()):
                return
            self._progress.clear()
            await self._progress.wait()

    def post(self, record: KeyValue) -> None:
        """Send a record without waiting for it."""
        sent = self._producer.send(self.topic, record[1], key=record[0])
        sent.add_done_callback(self._posted)

    def _posted(self, done: Delivery) -> None:
        if not done.cancelled() and done.exception() is not None:
            LOG.warning("topic %s could not be written: %s", self.topic, done.exception())

    async def write(self, records: Sequence[KeyValue]) -> None:
        """Returns when the records are in the topic, in this order.  Errors: KafkaError."""
        sent = [self._producer.send(self.topic, value, key=key) for key, value in records]
        for one in sent:
            await one

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task
            await self._consumer.close()
            await self._ends.close()
