"""● The offsets that a consumer commits: on demand, and with auto-commit every interval.

Guarantee: auto-commit never commits a record before the application has asked for the records behind it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Final

from moldau.clients.consumer import interceptors
from moldau.clients.consumer.offsets import Committed, Offsets
from moldau.clients.consumer.options import ConsumerOptions
from moldau.clients.consumer.positions import Positions
from moldau.clients.errors import FatalError
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)


class Commits:
    """The commits of one consumer.  `offsets`: the road to the coordinator; None for a consumer without a group."""

    def __init__(self, options: ConsumerOptions, positions: Positions, clock: Clock) -> None:
        self.offsets: Offsets | None = None
        self.handed_out: dict[TopicPartition, tuple[int, int]] = {}
        """The position of each partition when the last poll began: everything before it is done."""
        self.done_of_stream: Callable[[], Mapping[TopicPartition, tuple[int, int]]] = dict
        """The same for records that are handed out one by one: it tells how far that has come by now."""
        self.undone: dict[TopicPartition, tuple[int, int]] = {}
        """Where the last of those are that were handed out one by one, if nobody has asked for another one."""
        self._own: dict[TopicPartition, int] = {}
        """The last offsets that the application itself has committed."""
        self._committed: dict[TopicPartition, int] = {}
        self._due_ms = 0
        self._task: asyncio.Task[None] | None = None
        self._options = options
        self._positions = positions
        self._clock = clock

    def start(self, offsets: Offsets | None) -> None:
        self.offsets = offsets
        self._due_ms = self._clock.monotonic_ms() + self._options.auto_commit_interval_ms

    def done(self) -> dict[TopicPartition, tuple[int, int]]:
        """By partition: the offset and leader epoch up to which records are done."""
        return self.confirmed({**self.handed_out, **self.done_of_stream()})

    def confirmed(self, done: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, tuple[int, int]]:
        """The same, where the application has committed the record at hand by itself: it is done, too."""
        own = self._own
        return {one: (offset + (own.get(one) == offset + 1), epoch) for one, (offset, epoch) in done.items()}

    def not_done(self, one: TopicPartition) -> None:
        """Forget how far the records of a partition are done: it was sought, or given up."""
        self.handed_out.pop(one, None)
        self.undone.pop(one, None)
        self._own.pop(one, None)

    def with_group(self) -> Offsets:
        """The group's offsets.  Errors: FatalError for a consumer without a group."""
        if self.offsets is None:
            raise FatalError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group: give it a group_id")
        return self.offsets

    async def commit(self, offsets: Mapping[TopicPartition, int | Committed]) -> None:
        """Commit these offsets.  Errors: ClientError; TypeError, ValueError for what is no offset."""
        given = {one: offset if isinstance(offset, Committed) else Committed(offset) for one, offset in offsets.items()}
        for one, committed in given.items():
            if index(committed.offset) < 0:
                raise ValueError(f"{committed.offset} cannot be committed for {one}: the offset of the next record to read is expected")
        await self.with_group().commit(given, within_ms=self._options.default_api_timeout_ms)
        self._remember(given)
        self._own.update({one: committed.offset for one, committed in given.items()})

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        """The committed offsets of these partitions.  Errors: ClientError."""
        listed = list(partitions)
        found = await self.with_group().committed(listed, within_ms=self._options.default_api_timeout_ms)
        return {one: found.get(one) for one in listed}

    async def find(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        """The group's committed offsets of these partitions, as far as there are any, for `begin`.  Errors: ClientError."""
        if self.offsets is None or not partitions:
            return {}
        return await self.offsets.committed(partitions, within_ms=self._options.default_api_timeout_ms)

    def begin(self, found: Mapping[TopicPartition, Committed]) -> None:
        """Set positions to the group's committed offsets."""
        for one, committed in found.items():
            position = self._positions.by_partition.get(one)
            if position is not None and position.offset is None and position.reset_to is None:
                position.seek(committed.offset)
                self._committed[one] = committed.offset

    def commit_when_due(self) -> None:
        if not self._options.enable_auto_commit or self.offsets is None:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._due_ms and (self._task is None or self._task.done()):
            self._due_ms = now_ms + self._options.auto_commit_interval_ms
            self._task = asyncio.get_running_loop().create_task(self._commit_quietly())

    async def settled(self) -> None:
        """Wait until no commit is on its way."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def commit_at_the_end(self) -> None:
        """Commit for partitions that are given up, or for all."""
        await self.settled()
        if self._options.enable_auto_commit:
            await self._commit_quietly()

    async def _commit_quietly(self) -> None:
        """Commit the records that were handed out before the last poll.

        After a failure the records are handed out again, here or by the next owner.
        """
        changed = {
            one: Committed(offset, leader_epoch=epoch)
            for one, (offset, epoch) in self.done().items()
            if self._committed.get(one) != offset and one in self._positions
        }
        if not changed or self.offsets is None:
            return
        try:
            await self.offsets.commit(changed, within_ms=self._options.default_api_timeout_ms)
        except KafkaError as error:
            LOG.warning("group %s: the offsets could not be committed: %s", self._options.group_id, error)
        else:
            self._remember(changed)

    def _remember(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        self._committed.update({one: committed.offset for one, committed in offsets.items()})
        interceptors.committed(self._options.interceptors, offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self.not_done(one)
            self._committed.pop(one, None)
