"""● Reads the partitions that it was assigned, from the offsets that it was given.

    consumer = Consumer(cluster)
    await consumer.assign({TopicPartition("topic", 0): EARLIEST})
    records = await consumer.poll(wait_s=1.0)

One fetch per leader is on its way at a time; what has arrived waits for the next `poll`.  Guarantee: records of one partition come in
order, each once, and `position` is where the next poll goes on.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from moldau.clients.admin import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Admin
from moldau.clients.cluster import RETRY_AFTER_S, STALE_METADATA, Cluster, Unreachable
from moldau.clients.fetched import ConsumedRecord, Fetched, read_fetched
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from moldau.types import TopicPartition

__all__ = ["EARLIEST", "LATEST", "ConsumedRecord", "Consumer", "ConsumerOptions"]

NO_SESSION: Final = -1


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """`reset`: where to go on when an offset is gone, EARLIEST or LATEST; None raises OFFSET_OUT_OF_RANGE."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_partition_bytes: int = 1024 * 1024
    read_committed: bool = False
    check_crc: bool = True
    reset: int | None = LATEST


class Consumer:
    def __init__(self, cluster: Cluster, options: ConsumerOptions = ConsumerOptions()) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster)
        self._options = options
        self._positions: dict[TopicPartition, int] = {}
        self._fetching: dict[TopicPartition, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrived: deque[tuple[TopicPartition, Fetched]] = deque()
        self._failures: deque[Exception] = deque()
        self._something = asyncio.Event()
        self._generation = 0

    @property
    def assignment(self) -> Mapping[TopicPartition, int]:
        """Each partition with the offset to read next."""
        return self._positions

    def position(self, topic_partition: TopicPartition) -> int:
        return self._positions[topic_partition]

    async def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """These and no others: offsets, or EARLIEST, LATEST.  Errors: KafkaError when one of those cannot be found out."""
        positions = {one: offset for one, offset in partitions.items() if offset >= 0}
        positions.update(await self._resolve({one: target for one, target in partitions.items() if target < 0}))
        self._positions = positions
        self._generation += 1
        self._arrived.clear()
        self._fetching.clear()
        unknown = {one.topic for one in positions} - self._cluster.view.topics.keys()
        if unknown:
            await self._cluster.refresh(sorted(unknown))

    async def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        await self.assign({**self._positions, topic_partition: offset})

    async def poll(self, *, wait_s: float = 1.0) -> list[ConsumedRecord]:
        """What has arrived, else what arrives within `wait_s`; empty when nothing does.

        Errors: KafkaError; CorruptBatch.  After an error the position is where it was.
        """
        self._fetch_what_is_idle()
        if not self._arrived and not self._failures:
            self._something.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._something.wait()
            except TimeoutError:
                return []
        if self._failures:
            raise self._failures.popleft()
        records: list[ConsumedRecord] = []
        while self._arrived:
            topic_partition, fetched = self._arrived.popleft()
            self._positions[topic_partition] = fetched.next_offset
            self._fetching.pop(topic_partition, None)
            records += fetched.records
        self._fetch_what_is_idle()
        return records

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # ------------------------------------------------------------ fetching

    def _fetch_what_is_idle(self) -> None:
        """A fetch for each leader with partitions that nobody fetches now."""
        groups: dict[int | None, dict[TopicPartition, int]] = defaultdict(dict)
        for one, offset in self._positions.items():
            if one not in self._fetching:
                leader = self._cluster.view.leader_of(one)
                groups[leader.node_id if leader else None][one] = offset
        busy = set(self._fetching.values())
        for node_id, offsets in groups.items():
            if node_id is not None and node_id in busy:
                continue
            self._fetching.update(dict.fromkeys(offsets, -1 if node_id is None else node_id))
            task = asyncio.get_running_loop().create_task(self._guarded(node_id, offsets, self._generation))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _guarded(self, node_id: int | None, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        try:
            await (self._pause_and_refresh(offsets) if node_id is None else self._fetch(node_id, offsets))
        except (OSError, Unreachable):
            await self._pause_and_refresh(offsets)
        except Exception as error:
            self._failures.append(error)
        if generation == self._generation:
            done = {one for one, _ in self._arrived}
            for one in offsets:
                if one not in done:
                    self._fetching.pop(one, None)
        self._something.set()

    async def _fetch(self, node_id: int, offsets: Mapping[TopicPartition, int]) -> None:
        generation = self._generation
        response = await self._cluster.send(self._request_for(offsets), node_id=node_id, extra_s=self._options.max_wait_ms / 1000)
        if generation != self._generation:
            return
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        moved: dict[TopicPartition, int] = {}
        for topic in response.responses:
            name = topic.topic or self._cluster.view.names.get(topic.topic_id, "")
            for answer in topic.partitions:
                one = TopicPartition(name, answer.partition_index)
                if one in offsets and not await self._take(one, answer, offsets[one]):
                    moved[one] = offsets[one]
        if moved:
            await self._pause_and_refresh(moved)

    async def _take(self, one: TopicPartition, answer: PartitionData, offset: int) -> bool:
        """Whether there is nothing more to do about this answer; False: ask for the leader anew."""
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            options = self._options
            fetched = read_fetched(one, answer, offset, read_committed=options.read_committed, check_crc=options.check_crc)
            if fetched.records or fetched.next_offset > offset:
                self._arrived.append((one, fetched))
            return True
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._options.reset is not None:
            self._positions.update(await self._resolve({one: self._options.reset}))
            return True
        if code in STALE_METADATA:
            return False
        raise KafkaError(code, f"{one} at offset {offset}: {code.text}")

    def _request_for(self, offsets: Mapping[TopicPartition, int]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = defaultdict(list)
        for one, offset in offsets.items():
            topics[one.topic].append(
                FetchPartition(partition=one.partition, fetch_offset=offset, partition_max_bytes=self._options.max_partition_bytes)
            )
        return FetchRequest(
            max_wait_ms=self._options.max_wait_ms,
            min_bytes=self._options.min_bytes,
            max_bytes=self._options.max_bytes,
            isolation_level=READ_COMMITTED if self._options.read_committed else READ_UNCOMMITTED,
            session_epoch=NO_SESSION,
            topics=[
                FetchTopic(topic=topic, topic_id=self._cluster.view.topic_id_of(topic), partitions=partitions)
                for topic, partitions in topics.items()
            ],
        )

    async def _pause_and_refresh(self, partitions: Mapping[TopicPartition, int]) -> None:
        await asyncio.sleep(RETRY_AFTER_S)
        try:
            view = await self._cluster.refresh(sorted({one.topic for one in partitions}))
        except (OSError, Unreachable):
            return  # tried again by the next poll
        for one in partitions:
            code = view.error_of(one.topic)
            if code is not None and not code.retriable and code is not ErrorCode.NONE:
                raise KafkaError(code, f"topic {one.topic}: {code.text}")

    async def _resolve(self, targets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not targets:
            return {}
        isolation = READ_COMMITTED if self._options.read_committed else READ_UNCOMMITTED
        found = await self._admin.list_offsets(targets, isolation_level=isolation)
        offsets = {}
        for one, answer in found.items():
            if isinstance(answer, KafkaError):
                raise KafkaError(answer.code, f"{one}: {answer.detail}")
            offsets[one] = answer.offset
        return offsets
