"""● The records of a consumer one by one.

A poll takes whole batches; the stream hands their records out without another await until they are used up, a partition was sought or given
up, or the group is about to change.  How far it has come is put together only when somebody asks: at a commit, and at the end.

Guarantee: a record that was taken and not handed out goes back to its partition when the stream ends, so that the next stream or poll
begins with it, and no commit covers it.  Called by `work`.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, NamedTuple

from moldau.clients.consumer.member import Member, MemberState
from moldau.clients.consumer.positions import UNKNOWN, Position, Positions
from moldau.clients.records import ConsumerRecord, Records
from moldau.types import TopicPartition

NO_RECORDS: Final[tuple[ConsumerRecord, ...]] = ()


class Taken(NamedTuple):
    """Records that a poll took, and the position that they were taken from.  A position of another version has been sought elsewhere."""

    position: Position
    version: int
    records: Records

    @property
    def is_current(self) -> bool:
        return self.position.version == self.version


class RecordStream:
    """An asynchronous iterator; see the module.

    `take`: polls, and returns nothing once the consumer is closed.  `member_of`: the place in the group, if there is one.  `upkeep`: lets
    the member do what it has to do.  `on_end`: called once with `done()`, when the stream ends.
    """

    def __init__(
        self,
        positions: Positions,
        take: Callable[[], Awaitable[list[Records] | None]],
        member_of: Callable[[], Member | None],
        upkeep: Callable[[], Awaitable[None]],
        on_end: Callable[[Mapping[TopicPartition, tuple[int, int]]], None],
    ) -> None:
        self._positions = positions
        self._take = take
        self._member_of = member_of
        self._upkeep = upkeep
        self._on_end = on_end
        self._ahead: deque[Taken] = deque()
        self._finished: list[tuple[Taken, ConsumerRecord]] = []
        """What was handed out of the last poll's records: whole batches, each with its last record."""
        self._current: Taken | None = None
        self._position = Position(TopicPartition("", UNKNOWN))
        self._version = self._position.version
        self._records: Iterator[ConsumerRecord] = iter(NO_RECORDS)
        self._last: ConsumerRecord | None = None
        self._is_last_done = False
        self._is_ended = False

    def __aiter__(self) -> "RecordStream":
        return self

    async def __anext__(self) -> ConsumerRecord:  # hot: 0.3 µs
        member = self._member_of()
        if member is None:
            if self._position.version == self._version:
                for record in self._records:
                    self._last = record
                    return record
        elif (at_hand := self.at_hand()) is not None:
            return at_hand
        return await self._next()

    def at_hand(self) -> ConsumerRecord | None:
        """The next record if nothing has to be awaited for it.

        A blocking client calls this from the thread that iterates, while the loop may be at work on anything but a poll.
        """
        member = self._member_of()
        if member is not None:
            member.polled()
            if member.state is not MemberState.STABLE:
                return None
        if self._position.version == self._version:
            for record in self._records:
                self._last = record
                return record
        return None

    async def _next(self) -> ConsumerRecord:
        """Errors: those of a poll, after which the stream is over; StopAsyncIteration."""
        self._is_last_done = True
        try:
            while not self._is_ended:
                member = self._member_of()
                if member is not None:
                    member.polled()
                    if member.state is not MemberState.STABLE:
                        await self._upkeep()
                for record in self._records if self._position.version == self._version else NO_RECORDS:
                    self._last, self._is_last_done = record, False
                    return record
                if not self._ahead:
                    taken = await self._take()
                    if taken is None:
                        break
                    self._finish()
                    self._finished.clear()
                    by_partition = self._positions.by_partition
                    for records in taken:
                        position = by_partition[records.topic_partition]
                        self._ahead.append(Taken(position, position.version, records))
                    continue
                self._begin(self._ahead.popleft())
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopAsyncIteration

    def _finish(self) -> None:
        if self._current is not None and self._last is not None:
            self._finished.append((self._current, self._last))
        self._current, self._last = None, None

    def _begin(self, taken: Taken) -> None:
        self._finish()
        if taken.is_current:
            self._records = iter(taken.records)
            self._current = taken
            self._position, self._version, _ = taken

    # ------------------------------------------------------------ how far

    def done(self) -> dict[TopicPartition, tuple[int, int]]:
        """The offset and leader epoch up to which the records are done, for the partitions of which records were taken by the last poll."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for taken in reversed(self._ahead):
            if taken.is_current:
                found[taken.position.topic_partition] = taken.records.columns.offset(0), UNKNOWN
        for taken, record in self._finished:
            if taken.is_current:
                found[taken.position.topic_partition] = record.offset + 1, record.leader_epoch
        current, last = self._current, self._last
        if current is not None and current.is_current:
            one = current.position.topic_partition
            if last is None:
                found[one] = current.records.columns.offset(0), UNKNOWN
            else:
                found[one] = last.offset + self._is_last_done, last.leader_epoch
        return found

    def close(self) -> None:
        """End the stream, and give back what was taken and not handed out."""
        if self._is_ended:
            return
        self._is_ended = True
        done = self.done()
        while self._ahead:
            taken = self._ahead.pop()
            if taken.is_current:
                taken.position.give_back(taken.records)
        current, last = self._current, self._last
        if current is not None and current.is_current:
            rest = current.records if last is None else current.records.after(last.offset)
            if rest is not None:
                current.position.give_back(rest)
        self._records = iter(NO_RECORDS)
        self._on_end(done)

    async def aclose(self) -> None:
        """`close`, for `contextlib.aclosing`."""
        self.close()

    def __del__(self) -> None:
        self.close()
