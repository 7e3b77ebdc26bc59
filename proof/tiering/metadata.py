"""● `__remote_log_metadata` of a simulated cluster: one sequence of records, which each broker replays at its own pace.

A writer learns the fate of its record once it has replayed the record.  At times the write fails although the record is there.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.wire import StoredRecord
from moldau.replication.partition import Partition
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import TopicIdPartition, where_of


class SharedMetadata:
    """The committed records, for as long as the cluster lives."""

    def __init__(self) -> None:
        self.records: Final[list[StoredRecord]] = []
        self.failure_chance = 0.0
        self.leader_id = 1
        """The broker that has to delete the segments of deleted topics."""

    def replayed(self, where: TopicIdPartition) -> RemoteLog:
        """The remote log after a replay of all records."""
        remote = RemoteLog(where)
        for record in self.records:
            if where_of(record) == where:
                remote.replay(record)
        return remote


class MetadataView:
    """One broker's view for one life: a `SegmentMetadata`."""

    def __init__(self, shared: SharedMetadata, broker_id: int, choice: random.Random) -> None:
        self.remote_logs: Final[dict[TopicIdPartition, RemoteLog]] = {}
        self._shared: Final = shared
        self._broker_id: Final = broker_id
        self._choice: Final = choice
        self._taken: Final[list[bool]] = []
        self._grown: Final = asyncio.Event()
        self._replaying: asyncio.Task[None] | None = None

    def start(self, *, is_known: Callable[[], bool]) -> None:
        self._replaying = asyncio.get_running_loop().create_task(self._replay())

    def close(self) -> None:
        if self._replaying is not None:
            self._replaying.cancel()

    def hosted(self, partition: Partition) -> None: ...

    def gone(self, number: int) -> None: ...

    async def loaded(self, where: TopicIdPartition) -> RemoteLog:
        await self._until(len(self._shared.records))
        return self.of(where)

    def of(self, where: TopicIdPartition) -> RemoteLog:
        return self.remote_logs.setdefault(where, RemoteLog(where))

    def led(self) -> Iterator[RemoteLog]:
        if self._shared.leader_id == self._broker_id:
            yield from list(self.remote_logs.values())

    async def append(self, record: StoredRecord) -> bool:
        """Write a record, and wait until it is replayed.  Errors: KafkaError."""
        await asyncio.sleep(self._choice.random() * 0.02)
        outcome = self._choice.random()
        if outcome < self._shared.failure_chance / 2:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nothing was written")
        number = len(self._shared.records)
        self._shared.records.append(record)
        if outcome < self._shared.failure_chance:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody knows")
        await self._until(number + 1)
        return self._taken[number]

    async def _until(self, count: int) -> None:
        while len(self._taken) < count:
            self._grown.clear()
            await self._grown.wait()

    async def _replay(self) -> None:
        while True:
            await asyncio.sleep(self._choice.random() * (0.3 if self._choice.random() < 0.05 else 0.03))
            for record in self._shared.records[len(self._taken) :]:
                self._taken.append(self.of(where_of(record)).replay(record))
            self._grown.set()
