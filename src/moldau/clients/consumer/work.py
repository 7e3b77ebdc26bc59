"""● The consumer at work: this module keeps the promises of `Consumer`.

`fetcher` ● fetches records, `positions` ◇ says what is handed out next, `member` ● is the consumer's place in a group.
"""

import asyncio
import contextvars
import inspect
import logging
import re
import ssl
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Any, Final

from moldau.clients.cluster import Cluster
from moldau.clients.connecting import Given, cluster_of, mapping_of
from moldau.clients.consumer.classic import ClassicMember
from moldau.clients.consumer.commits import Commits
from moldau.clients.consumer.fetcher import Fetcher
from moldau.clients.consumer.heartbeat import HeartbeatMember
from moldau.clients.consumer.interceptors import consumed
from moldau.clients.consumer.iteration import RecordStream
from moldau.clients.consumer.listing import OffsetListing
from moldau.clients.consumer.member import Member, MemberState, RebalanceListener
from moldau.clients.consumer.offsets import Committed, Identity, Offsets
from moldau.clients.consumer.options import EARLIEST, LATEST, ConsumerOptions
from moldau.clients.consumer.positions import Position, Positions, lag_of
from moldau.clients.coordinators import Coordinators
from moldau.clients.errors import AuthenticationError, ClientError, FatalError, RetriableError, error_of
from moldau.clients.forking import refusal, watch
from moldau.clients.group_metadata import GroupMetadata
from moldau.clients.options import OptionError, parse_options
from moldau.clients.records import Records
from moldau.clients.topics import Topics
from moldau.clock import Clock, SystemClock
from moldau.errors import ErrorCode
from moldau.net.sasl import Credentials
from moldau.net.transport import Network
from moldau.types import INTERNAL_TOPICS, TopicPartition

LOG: Final = logging.getLogger(__name__)

Pattern = str | re.Pattern[str] | Callable[[str], bool]
WHILE_NOTHING_HAPPENS_S: Final = 1.0
"""A poll that waits looks after its place in the group at least this often, in seconds."""
_STEP: Final[contextvars.ContextVar[tuple[int, int] | None]] = contextvars.ContextVar("step", default=None)
"""The consumer and the number of its step in which the running code is called."""
LEAST_WAIT_S: Final = 1e-6
"""A timer for less may be due at once, and its time never over."""


class ConsumerWork:
    """The work of one consumer; see `Consumer` for the promises of its methods.  Errors: OptionError."""

    def __init__(
        self,
        servers: str | Sequence[str] | Cluster | None,
        options: Given | ConsumerOptions | None,
        given: Mapping[str, Any],
        *,
        ssl_context: ssl.SSLContext | None,
        sasl: Credentials | None,
        network: Network | None,
        clock: Clock | None,
        random: Random | None,
    ) -> None:
        self.options: Final = (
            options if isinstance(options, ConsumerOptions) else parse_options(ConsumerOptions, {**mapping_of(options), **given})
        )
        for name in self.options.without_meaning:
            LOG.warning("%s has no effect with group.protocol=%s", name.replace("_", "."), self.options.group_protocol.lower())
        self._owns_cluster = not isinstance(servers, Cluster)
        self.cluster: Final = (
            servers
            if isinstance(servers, Cluster)
            else cluster_of(servers, self.options, ssl_context=ssl_context, sasl=sasl, network=network)
        )
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()
        self._positions = Positions()
        self._fetcher: Fetcher | None = None
        self._member: Member | None = None
        self._stepping: asyncio.Task[None] | None = None
        self._step_number = 0
        self._commit_cluster: Cluster | None = None
        self._listener = RebalanceListener()
        self._picks: Callable[[str], bool] | None = None
        self._subscribed: list[str] = []
        self._has_assigned = False
        """Whether `assign` was called, be it with no partition: a share of the work may be empty."""
        self._commits = Commits(self.options, self._positions, self._clock)
        self._stream: Callable[[], RecordStream | None] = _no_stream
        self._is_closed = False
        self._is_leaving = False
        self._is_of_parent = False

    # ------------------------------------------------------------ what to read

    def subscribe(
        self,
        topics: Sequence[str] | str | None = None,
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        if self.options.group_id is None:
            raise OptionError("subscribe needs a group.id; without a group, assign partitions")
        if (topics is None) == (pattern is None):
            raise OptionError("subscribe needs either topics or a pattern")
        if pattern is not None:
            matches = pattern if callable(pattern) else re.compile(pattern).fullmatch
            excludes = self.options.exclude_internal_topics
            self._picks = lambda topic: bool(matches(topic)) and not (excludes and topic in INTERNAL_TOPICS)
        else:
            self._picks = None
            named = {topics} if isinstance(topics, str) else set(topics or ())
            if wrong := named - set(filter(_is_text, named)):
                raise OptionError(f"a topic's name cannot be {wrong.pop()!r}: give str")
            self._subscribed = sorted(named)
        if listener is not None:
            self._listener = listener
        if self._fetcher is not None:
            self._follow_subscription()
            if self._member is not None:
                self._member.subscription_changed()

    async def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        if self._subscribed or self._picks is not None:
            raise OptionError("this consumer has subscribed: unsubscribe first")
        self.start()
        offsets = dict(partitions) if isinstance(partitions, Mapping) else {}
        listed = list(partitions)
        for one in listed:
            if not isinstance(one, TopicPartition):
                raise TypeError(f"{one!r} is no TopicPartition: assign takes a list of them, or a mapping of them to offsets")
        for one in listed:
            self._topics.use(one.topic)
        new = [one for one in listed if one not in self._positions and one not in offsets]
        found = await self._commits.find(new)
        self._positions.assign(listed)
        self._has_assigned = True
        for one, offset in offsets.items():
            self._seek(one, offset)
        self._commits.begin(found)
        self._fetch_on()

    async def unsubscribe(self) -> None:
        if self._is_of_parent:
            raise refusal()
        await self._leave()
        self._subscribed, self._picks, self._has_assigned = [], None, False
        self._positions.assign([])

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._positions.partitions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, for the partitions whose position is known."""
        return {one: offset for one, (offset, _) in self._positions.offsets().items()}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self._position_of(one).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self._position_of(one).is_paused = False
        self._fetch_on()
        self.news()

    @property
    def paused(self) -> list[TopicPartition]:
        return [one for one in self._positions.partitions if self._positions[one].is_paused]

    # ------------------------------------------------------------ where

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        if offset < 0:
            raise ValueError(f"{topic_partition} cannot be read from offset {offset}")
        self._position_of(topic_partition)
        self._seek(topic_partition, offset)
        self._fetch_on()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._seek_all(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._seek_all(partitions, LATEST)

    def seek_to_time(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        if timestamp_ms < 0:
            raise ValueError(f"{timestamp_ms} is not a time in milliseconds since 1970")
        self._seek_all(partitions, timestamp_ms)

    def _seek_all(self, partitions: Iterable[TopicPartition] | None, target: int) -> None:
        for one in self._positions.partitions if partitions is None else partitions:
            self._position_of(one).seek(None, reset_to=target)
            self._commits.not_done(one)
        self._fetch_on()

    def _seek(self, one: TopicPartition, offset: int) -> None:
        if offset < 0:
            self._positions[one].seek(None, reset_to=offset)
        else:
            self._positions[one].seek(offset)
        self._commits.not_done(one)

    async def position(self, topic_partition: TopicPartition, *, timeout_s: float | None = None) -> int:
        position = self._position_of(topic_partition)
        await self._until(lambda: position.offset is not None, timeout_s, f"the position of {topic_partition}")
        assert position.offset is not None
        return position.offset

    def lag(self, topic_partition: TopicPartition) -> int | None:
        return lag_of(self._position_of(topic_partition), reads_committed=self.options.reads_committed)

    async def offsets_at(self, targets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of each target: a time in milliseconds, EARLIEST or LATEST.  -1: there is none.  Errors: ClientError."""
        self.start()
        assert self._fetcher is not None
        return await OffsetListing(self.cluster, self.options, self._fetcher).find(targets)

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic.  Errors: ClientError."""
        self.start()
        self._topics.use(topic)
        await self._until(lambda: self._knows(topic), None, f"the partitions of {topic}")
        return self.cluster.view.partitions_of(topic)

    # ------------------------------------------------------------ reading

    async def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> list[Records]:
        self._start_to_read()
        if self._stream() is not None:
            raise FatalError(ErrorCode.INVALID_REQUEST, "this consumer is being iterated over: poll or iterate, not both")
        return await self._poll(timeout_s, max_records)

    async def _poll(self, timeout_s: float, max_records: int | None) -> list[Records]:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        self._commits.handed_out = self._positions.offsets()
        self._commits.undone.clear()
        limit = self.options.max_poll_records if max_records is None else max_records
        # Others have their turn, whatever is at hand: requests leave, answers come in.  Not after records were taken, where a caller who is
        # cancelled would lose them.
        await asyncio.sleep(0)
        while True:
            self._news.clear()
            await self._upkeep()
            assert self._fetcher is not None
            if self._fetcher.failures:
                raise self._fetcher.failures.popleft()
            found = self._positions.take(limit)
            self._fetch_on()
            if found:
                return consumed(self.options.interceptors, found)
            if self._is_closed:
                raise FatalError(ErrorCode.INVALID_REQUEST, "the consumer was closed while a poll waited")
            left_s = until - loop.time()
            if left_s < LEAST_WAIT_S:
                return []
            try:
                async with asyncio.timeout(min(left_s, WHILE_NOTHING_HAPPENS_S)):
                    await self._news.wait()
            except TimeoutError:
                continue

    def take_back(self, found: Sequence[Records]) -> None:
        """Take back what the last poll returned, unless its partitions were sought or given up since then."""
        for records in reversed(found):
            position = self._positions.by_partition.get(records.topic_partition)
            if position is not None and position.offset is not None and position.offset >= records.next_offset:
                position.give_back(records)

    def iterate(self) -> RecordStream:
        self._start_to_read()
        if self._stream() is not None:
            raise FatalError(ErrorCode.INVALID_REQUEST, "this consumer is being iterated over already")
        stream = RecordStream(self._positions, self._take_for_stream, lambda: self._member, self._upkeep, self._stream_ended)
        self._stream = weakref.ref(stream)
        self._commits.done_of_stream = self._done_of_stream
        return stream

    def _done_of_stream(self) -> Mapping[TopicPartition, tuple[int, int]]:
        stream = self._stream()
        return {} if stream is None else stream.done()

    async def _take_for_stream(self) -> list[Records] | None:
        while not self._is_closed:
            try:
                if found := await self._poll(WHILE_NOTHING_HAPPENS_S, self.options.max_poll_records):
                    return found
            except FatalError:
                if not self._is_closed:
                    raise
        return None

    def _stream_ended(self, done: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._commits.handed_out.update(done)
        self._commits.undone.update(done)
        self._commits.done_of_stream = dict
        self._stream = _no_stream

    async def _upkeep(self) -> None:
        if self._member is not None:
            self._member.polled()
            await self._step(self._member)
        self._commits.commit_when_due()

    async def _step(self, member: Member) -> None:
        """Let the member do what it has to do.

        A poll that is cancelled meanwhile leaves no rebalance half done: the next poll waits for the same step.
        """
        if self._is_in_step():
            raise FatalError(ErrorCode.INVALID_REQUEST, "a rebalance listener cannot poll: poll waits for it")
        if self._stepping is None:
            self._step_number += 1
            context = contextvars.copy_context()
            context.run(_STEP.set, (id(self), self._step_number))
            self._stepping = asyncio.get_running_loop().create_task(member.step(), context=context)
        stepping = self._stepping
        await asyncio.wait((stepping,))
        if self._stepping is stepping:
            self._stepping = None
        stepping.result()

    def _is_in_step(self) -> bool:
        """Whether a rebalance listener calls, or a task or thread that it waits for."""
        return self._stepping is not None and not self._stepping.done() and _STEP.get() == (id(self), self._step_number)

    # ------------------------------------------------------------ offsets

    async def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        self.start()
        if offsets is None:
            done = {**self._positions.offsets(), **(self._commits.done() if self._stream() is not None else {})}
            offsets = {one: Committed(offset, leader_epoch=epoch) for one, (offset, epoch) in done.items()}
        await self._commits.commit(offsets)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        self.start()
        return await self._commits.committed(partitions)

    def group_metadata(self) -> GroupMetadata:
        identity = self._identity()
        if self.options.group_id is None:
            raise FatalError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group: give it a group_id")
        return GroupMetadata(self.options.group_id, identity.epoch, identity.member_id, identity.group_instance_id)

    def _identity(self) -> Identity:
        return self._member.identity() if self._member is not None else Identity()

    # ------------------------------------------------------------ Owner, to the member

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions.by_partition)

    def subscribed(self) -> list[str]:
        if self._picks is None:
            return self._subscribed
        try:
            return sorted(topic for topic in self.cluster.view.topics if self._picks(topic))
        except Exception as error:
            if self._fetcher is not None and not any(type(one) is type(error) for one in self._fetcher.failures):
                self._fetcher.failures.append(error)  # the next poll raises it
            return list(self._picked)

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        listed = sorted(partitions)
        await self._commits.commit_at_the_end()
        try:
            await _call(self._listener.on_revoked(listed))
        finally:
            self._drop(listed)

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        listed = sorted(partitions)
        self._drop(listed)
        if listed:
            await _call(self._listener.on_lost(listed))

    async def assign_more(self, partitions: Iterable[TopicPartition]) -> None:
        listed = sorted(partitions)
        for one in listed:
            self._topics.use(one.topic)
        # First, since it may fail: a partition that was assigned without its offset would be read from where the reset policy says.
        found = await self._commits.find(listed)
        self._positions.assign([*self._positions.by_partition, *listed])
        self._commits.begin(found)
        await _call(self._listener.on_assigned(listed))
        self._fetch_on()

    def news(self) -> None:
        self._news.set()

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self._positions.assign([one for one in self._positions.by_partition if one not in gone])
        self._commits.forget(gone)

    # ------------------------------------------------------------ life

    def _start_to_read(self) -> None:
        """Errors: FatalError, for a listener that is told of the end, too."""
        self._check_open()
        self.start()
        if not self._subscribed and self._picks is None and not self._has_assigned:
            raise ClientError(ErrorCode.INVALID_REQUEST, "this consumer reads nothing: subscribe to topics, or assign partitions, first")

    def _check_open(self) -> None:
        if self._is_closed:
            raise refusal() if self._is_of_parent else FatalError(ErrorCode.INVALID_REQUEST, "the consumer is closed")

    def forked(self) -> None:
        self._is_closed = self._is_of_parent = True

    def start(self) -> None:
        """Start the parts that need no answer from a broker.  Errors: FatalError."""
        if not self._is_leaving:
            self._check_open()
        if self._fetcher is not None:
            return
        self.cluster.check_loop()
        watch(self)
        self._news = asyncio.Event()
        options = self.options
        self._topics = Topics(
            self.cluster,
            max_age_ms=options.metadata_max_age_ms,
            backoff_ms=options.retry_backoff_ms,
            on_change=self._on_metadata,
            creates_topics=options.allow_auto_create_topics,
        )
        self._fetcher = Fetcher(self.cluster, options, self._positions, self._topics, self._clock, self.news)
        group_id = options.group_id
        road = None
        if group_id is not None:
            # Over connections of its own: brokers answer in order, and a commit must not wait for a fetch that waits for records.
            self._commit_cluster = self.cluster.sibling()
            road = Offsets(self._commit_cluster, Coordinators(self._commit_cluster), group_id, self._identity, options.retry_backoff_ms)
        self._commits.start(road)
        self._follow_subscription()

    def _follow_subscription(self) -> None:
        if self._picks is not None:
            self._topics.use_all()
        for topic in self._subscribed:
            self._topics.use(topic)
        if (self._subscribed or self._picks is not None) and self._member is None:
            if self.options.speaks_consumer_protocol:
                self._member = HeartbeatMember(self.cluster, self.options, _Owner(self), self._random)
            else:
                self._member = ClassicMember(self.cluster, self.options, _Owner(self))

    def _on_metadata(self) -> None:
        assert self._fetcher is not None
        refusal, failures = self._topics.failure, self._fetcher.failures
        if isinstance(refusal, AuthenticationError) and not any(isinstance(one, AuthenticationError) for one in failures):
            failures.append(refusal)
        picked = self.subscribed()
        if self._picks is not None and picked != self._picked:
            self._picked = picked
            if self._member is not None:
                self._member.subscription_changed()
        for topic in {*self._subscribed, *(one.topic for one in self._positions.by_partition)}:
            code = self.cluster.view.error_of(topic)
            if code is not None and code is not ErrorCode.NONE and not code.retriable:
                failure = error_of(code, f"topic {topic}: {code.text}")
                if not any(str(one) == str(failure) for one in failures):
                    failures.append(failure)
        self._fetcher.wake()
        self.news()

    _picked: Sequence[str] = ()

    def _fetch_on(self) -> None:
        if self._fetcher is not None:
            self._fetcher.wake()

    def _position_of(self, one: TopicPartition) -> Position:
        if one not in self._positions:
            raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{one} is not assigned to this consumer")
        return self._positions[one]

    def _knows(self, topic: str) -> bool:
        """Wait until the topic is known.  Errors: ClientError."""
        code = self.cluster.view.error_of(topic)
        if code is not None and not code.retriable and code is not ErrorCode.NONE:
            raise error_of(code, f"topic {topic}: {code.text}")
        if code is not ErrorCode.NONE:
            self._topics.refresh_soon()
        return code is ErrorCode.NONE

    async def _until(self, condition: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        within_s = self.options.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(within_s):
                while True:
                    self._news.clear()
                    if self._fetcher is not None and self._fetcher.failures:
                        raise self._fetcher.failures.popleft()
                    if condition():
                        return
                    await self._news.wait()
        except TimeoutError:
            raise RetriableError(ErrorCode.REQUEST_TIMED_OUT, f"{what} could not be found out in {within_s:g} s") from None

    async def _leave(self) -> None:
        if self._stepping is not None and not self._is_in_step():
            await asyncio.wait((self._stepping,))
            self._stepping = None
        member, self._member = self._member, None
        await self._commits.settled()
        if member is None:
            return
        try:
            if self.owned and member.state in (MemberState.STABLE, MemberState.REBALANCING, MemberState.JOINING):
                self._member = member  # the commit still goes out under the present member id
                await self.revoke(self.owned)
            elif self.owned:
                await self.lose(self.owned)
        finally:
            self._member = None
            await member.leave()

    async def close(self, *, timeout_s: float | None = None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        member = self._member
        try:
            await self._close(timeout_s)
        finally:
            if member is not None:
                member.stop()
            if self._fetcher is not None:
                self.news()  # a poll that waits ends
            if self._commit_cluster is not None:
                self._commit_cluster.close()
            if self._owns_cluster:
                self.cluster.close()

    async def _close(self, timeout_s: float | None) -> None:
        if self._fetcher is not None:
            done = self._commits.done() if self._stream() is not None else self._commits.confirmed(self._commits.undone)
            self._commits.handed_out = {**self._positions.offsets(), **done}
            self._is_leaving = True  # a listener that hears of the revocation may still commit
            try:
                async with asyncio.timeout(self.options.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s):
                    if self._member is None:
                        await self._commits.commit_at_the_end()
                    await self._leave()
            except TimeoutError:
                LOG.warning("the consumer is closed before its group has answered")
            finally:
                self._is_leaving = False
                await self._topics.close()
                await self._fetcher.close()

    def metrics(self) -> dict[str, float]:
        fetcher = self._fetcher
        return {
            "consumer.fetch.manager.bytes.consumed.total": fetcher.byte_count if fetcher else 0,
            "consumer.fetch.manager.records.consumed.total": fetcher.record_count if fetcher else 0,
            "consumer.fetch.manager.fetch.total": fetcher.request_count if fetcher else 0,
            "consumer.fetch.manager.records.lag.max": max((self.lag(one) or 0 for one in self._positions.partitions), default=0),
            "consumer.coordinator.assigned.partitions": len(self._positions.by_partition),
        }


def _is_text(found: object) -> bool:
    return isinstance(found, str)


def _no_stream() -> RecordStream | None:
    return None


class _Owner:
    """The consumer, as its member sees it."""

    def __init__(self, consumer: ConsumerWork) -> None:
        self._consumer = consumer
        self.revoke = consumer.revoke
        self.lose = consumer.lose
        self.assign = consumer.assign_more
        self.subscribed = consumer.subscribed
        self.news = consumer.news

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._consumer.owned


async def _call(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result
