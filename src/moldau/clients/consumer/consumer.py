"""● The consumer that users call.

    async with Consumer("localhost:9092", group_id="billing", topics=["orders"]) as consumer:
        async for record in consumer:                                # record by record
            …
        for records in await consumer.poll():                        # batch by batch: records.values, .keys, .offsets
            …

    async with Consumer("localhost:9092") as consumer:               # by assignment, without a group
        await consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()

Guarantee: at least once with auto-commit, and records of one partition in order.  What was handed out counts as done when the next is asked
for; then its offset may be committed.  Once a revocation has returned, nothing of those partitions is handed out.
"""

import asyncio
import inspect
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.connecting import cluster_of
from moldau.clients.consumer.classic import ClassicMember
from moldau.clients.consumer.fetcher import Fetcher
from moldau.clients.consumer.heartbeat import HeartbeatMember
from moldau.clients.consumer.member import Member, MemberState, RebalanceListener
from moldau.clients.consumer.offsets import Committed, Identity, Offsets
from moldau.clients.consumer.options import EARLIEST, LATEST, ConsumerOptions
from moldau.clients.consumer.positions import Position, Positions, lag_of
from moldau.clients.coordinators import Coordinators
from moldau.clients.errors import ClientError, ClusterUnreachable, FatalError, RetriableError, error_of
from moldau.clients.options import OptionError, parse_options
from moldau.clients.records import ConsumerRecord, Records
from moldau.clients.topics import Topics
from moldau.clock import Clock, SystemClock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.sasl import Credentials
from moldau.net.transport import Network
from moldau.types import INTERNAL_TOPICS, TopicPartition

LOG: Final = logging.getLogger(__name__)

Pattern = str | re.Pattern[str] | Callable[[str], bool]
WHILE_NOTHING_HAPPENS_S: Final = 1.0
"""A poll looks after its place in the group at least so often."""


class Consumer:
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

    `topics`, `pattern`, `listener`: as for `subscribe`.  `given`: options by keyword, in snake_case; `options`: a mapping in Kafka's
    spelling, or `ConsumerOptions`.  Errors: OptionError.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | Cluster | None = None,
        options: Mapping[str, Any] | ConsumerOptions | None = None,
        *,
        topics: Sequence[str] | str | None = None,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
        ssl_context: ssl.SSLContext | None = None,
        sasl: Credentials | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        **given: Any,
    ) -> None:
        self.options: Final = (
            options if isinstance(options, ConsumerOptions) else parse_options(ConsumerOptions, {**(options or {}), **given})
        )
        self._owns_cluster = not isinstance(servers, Cluster)
        self.cluster: Final = (
            servers
            if isinstance(servers, Cluster)
            else cluster_of(servers, self.options, ssl_context=ssl_context, sasl=sasl, network=network)
        )
        self._clock = clock or SystemClock()
        self._positions = Positions()
        self._fetcher: Fetcher | None = None
        self._member: Member | None = None
        self._offsets: Offsets | None = None
        self._listener = RebalanceListener()
        self._picks: Callable[[str], bool] | None = None
        self._subscribed: list[str] = []
        self._handed_out: dict[TopicPartition, tuple[int, int]] = {}
        """Where each partition stood when the last poll began: so far everything is done."""
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due_ms = 0
        self._committing: asyncio.Task[None] | None = None
        self._is_iterating = False
        self._is_closed = False
        if topics is not None or pattern is not None:
            self.subscribe(topics, pattern=pattern, listener=listener)

    # ------------------------------------------------------------ what to read

    def subscribe(
        self,
        topics: Sequence[str] | str | None = None,
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """These topics, or all that `pattern` picks, shared with the other members of the group.  Errors: OptionError.

        `pattern`: a regular expression for whole names, or a function that says whether a name is meant.
        """
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
            self._subscribed = sorted({topics} if isinstance(topics, str) else set(topics or ()))
        if listener is not None:
            self._listener = listener
        if self._fetcher is not None:
            self._follow_subscription()
            if self._member is not None:
                self._member.subscription_changed()

    async def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """These and no others, without sharing; with a mapping, each from an offset, or EARLIEST or LATEST.

        Those that stay go on where they are.  Without an offset: from the group's, else as auto_offset_reset says.
        Errors: ClientError, OptionError.
        """
        if self._subscribed or self._picks is not None:
            raise OptionError("this consumer has subscribed: unsubscribe first")
        self._started()
        offsets = dict(partitions) if isinstance(partitions, Mapping) else {}
        listed = list(partitions)
        for one in listed:
            self._topics.use(one.topic)
        new = [one for one in listed if one not in self._positions and one not in offsets]
        self._positions.assign(listed)
        for one, offset in offsets.items():
            self._seek(one, offset)
        await self._begin_at_committed(new)
        self._fetch_on()

    async def unsubscribe(self) -> None:
        """Nothing any more; a member leaves its group."""
        await self._leave()
        self._subscribed, self._picks = [], None
        self._positions.assign([])

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._positions.partitions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where each partition goes on, of those of which it is known by now."""
        return {one: offset for one, (offset, _) in self._positions.offsets().items()}

    @property
    def subscription(self) -> list[str]:
        return self.subscribed()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these is handed out until `resume`."""
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
        """The next record handed out is the first from this offset on."""
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
        """To the first record as new as that; to the end where there is none."""
        if timestamp_ms < 0:
            raise ValueError(f"{timestamp_ms} is not a time in milliseconds since 1970")
        self._seek_all(partitions, timestamp_ms)

    def _seek_all(self, partitions: Iterable[TopicPartition] | None, target: int) -> None:
        for one in self._positions.partitions if partitions is None else partitions:
            self._position_of(one).seek(None, reset_to=target)
            self._handed_out.pop(one, None)
        self._fetch_on()

    def _seek(self, one: TopicPartition, offset: int) -> None:
        if offset < 0:
            self._positions[one].seek(None, reset_to=offset)
        else:
            self._positions[one].seek(offset)
        self._handed_out.pop(one, None)

    async def position(self, topic_partition: TopicPartition, *, timeout_s: float | None = None) -> int:
        """The offset of the next record to be handed out.  Errors: RetriableError when it cannot be found out in time; ClientError."""
        position = self._position_of(topic_partition)
        await self._until(lambda: position.offset is not None, timeout_s, f"the position of {topic_partition}")
        assert position.offset is not None
        return position.offset

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Offsets from the position to the end, as the last fetch told it; None before."""
        return lag_of(self._position_of(topic_partition), reads_committed=self.options.reads_committed)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._list_offsets(dict.fromkeys(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Exclusive; with read_committed, where the first open transaction begins."""
        return await self._list_offsets(dict.fromkeys(partitions, LATEST))

    async def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Of the first record as new as that; None where there is none."""
        return {one: offset if offset >= 0 else None for one, offset in (await self._list_offsets(timestamps_ms)).items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """Errors: ClientError."""
        self._started()
        self._topics.use(topic)
        await self._until(lambda: self._knows(topic), None, f"the partitions of {topic}")
        return self.cluster.view.partitions_of(topic)

    # ------------------------------------------------------------ reading

    async def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> list[Records]:
        """What is at hand, else what comes within `timeout_s`; empty when nothing does.  Whole batches, unless `max_records`, or
        max_poll_records, says how many records at most.

        Errors: ClientError; CorruptBatch; whatever a rebalance listener raises.  After an error the next poll goes on.
        """
        self._started()
        if self._is_iterating:
            raise FatalError(ErrorCode.INVALID_REQUEST, "this consumer is being iterated over: poll or iterate, not both")
        return await self._poll(timeout_s, max_records)

    async def _poll(self, timeout_s: float, max_records: int | None) -> list[Records]:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        self._handed_out = self._positions.offsets()
        limit = self.options.max_poll_records if max_records is None else max_records
        while True:
            self._news.clear()
            await self._upkeep()
            assert self._fetcher is not None
            if self._fetcher.failures:
                raise self._fetcher.failures.popleft()
            found = self._positions.take(limit)
            self._fetch_on()
            if found:
                return found
            left_s = until - loop.time()
            if left_s <= 0:
                return []
            try:
                async with asyncio.timeout(min(left_s, WHILE_NOTHING_HAPPENS_S)):
                    await self._news.wait()
            except TimeoutError:
                continue

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord]:
        """Until the consumer is closed.  A record counts as done when the next one is asked for."""
        self._started()
        if self._is_iterating:
            raise FatalError(ErrorCode.INVALID_REQUEST, "this consumer is being iterated over already")
        self._is_iterating = True
        try:
            while not self._is_closed:
                for records in await self._poll(WHILE_NOTHING_HAPPENS_S, self.options.max_poll_records):
                    one = records.topic_partition
                    position = self._positions.by_partition.get(one)
                    if position is None:
                        continue  # it was given up while records of others were handed out
                    version = position.version
                    for record in records:
                        if self._positions.by_partition.get(one) is not position or position.version != version:
                            break  # given up, or sought elsewhere
                        self._handed_out[one] = (record.offset, record.leader_epoch)
                        yield record
                        self._handed_out[one] = (record.offset + 1, record.leader_epoch)
                        if self._member is not None:
                            self._member.polled()
                            if self._member.state is not MemberState.STABLE:
                                await self._upkeep()
        finally:
            self._is_iterating = False

    async def _upkeep(self) -> None:
        if self._member is not None:
            self._member.polled()
            await self._member.step()
        if self.options.enable_auto_commit and self._offsets is not None:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= self._commit_due_ms and (self._committing is None or self._committing.done()):
                self._commit_due_ms = now_ms + self.options.auto_commit_interval_ms
                self._committing = asyncio.get_running_loop().create_task(self._commit_quietly())

    # ------------------------------------------------------------ offsets

    async def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """Everything handed out so far, or these.  Errors: ClientError; FatalError without a group."""
        done = self._positions.offsets() if not self._is_iterating else {**self._positions.offsets(), **self._handed_out}
        given = {one: Committed(offset, leader_epoch=epoch) for one, (offset, epoch) in done.items()} if offsets is None else {}
        for one, offset in (offsets or {}).items():
            given[one] = offset if isinstance(offset, Committed) else Committed(offset)
        await self._with_offsets().commit(given, within_ms=self.options.default_api_timeout_ms)
        self._committed.update({one: committed.offset for one, committed in given.items()})

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        """Of the group; None where it has none.  Errors: ClientError."""
        listed = list(partitions)
        found = await self._with_offsets().committed(listed, within_ms=self.options.default_api_timeout_ms)
        return {one: found.get(one) for one in listed}

    def group_metadata(self) -> "Any":
        """For `Producer.send_offsets`."""
        from moldau.clients.producer.transactor import GroupMetadata

        identity = self._identity()
        assert self.options.group_id is not None, "this consumer has no group"
        return GroupMetadata(self.options.group_id, identity.epoch, identity.member_id, identity.group_instance_id)

    async def _commit_quietly(self) -> None:
        """What was handed out before the last poll.  One that fails is done again, here or by the next owner: records come twice then."""
        changed = {
            one: Committed(offset, leader_epoch=epoch)
            for one, (offset, epoch) in self._handed_out.items()
            if self._committed.get(one) != offset and one in self._positions
        }
        if not changed or self._offsets is None:
            return
        try:
            await self._offsets.commit(changed, within_ms=self.options.default_api_timeout_ms)
        except KafkaError as error:
            LOG.warning("group %s: offsets were not committed: %s", self.options.group_id, error)
        else:
            self._committed.update({one: committed.offset for one, committed in changed.items()})

    def _with_offsets(self) -> Offsets:
        self._started()
        if self._offsets is None:
            raise FatalError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group: give it a group_id")
        return self._offsets

    def _identity(self) -> Identity:
        return self._member.identity() if self._member is not None else Identity()

    # ------------------------------------------------------------ Owner, to the member

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions.by_partition)

    def subscribed(self) -> list[str]:
        if self._picks is None:
            return self._subscribed
        return sorted(topic for topic in self.cluster.view.topics if self._picks(topic))

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        listed = sorted(partitions)
        if self._committing is not None:
            await asyncio.gather(self._committing, return_exceptions=True)
        if self.options.enable_auto_commit:
            await self._commit_quietly()
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
        self._positions.assign([*self._positions.by_partition, *listed])
        for one in listed:
            self._topics.use(one.topic)
        await self._begin_at_committed(listed)
        await _call(self._listener.on_assigned(listed))
        self._fetch_on()

    def news(self) -> None:
        self._news.set()

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self._positions.assign([one for one in self._positions.by_partition if one not in gone])
        for one in gone:
            self._handed_out.pop(one, None)
            self._committed.pop(one, None)

    # ------------------------------------------------------------ life

    def _started(self) -> None:
        if self._is_closed:
            raise FatalError(ErrorCode.INVALID_REQUEST, "the consumer is closed")
        if self._fetcher is not None:
            return
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
        self._commit_due_ms = self._clock.monotonic_ms() + options.auto_commit_interval_ms
        if options.group_id is not None:
            self._offsets = Offsets(self.cluster, Coordinators(self.cluster), options.group_id, self._identity, options.retry_backoff_ms)
        self._follow_subscription()

    def _follow_subscription(self) -> None:
        if self._picks is not None:
            self._topics.use_all()
        for topic in self._subscribed:
            self._topics.use(topic)
        if (self._subscribed or self._picks is not None) and self._member is None:
            kind = HeartbeatMember if self.options.speaks_consumer_protocol else ClassicMember
            self._member = kind(self.cluster, self.options, _Owner(self))

    def _on_metadata(self) -> None:
        assert self._fetcher is not None
        picked = self.subscribed()
        if self._picks is not None and picked != self._picked:
            self._picked = picked
            if self._member is not None:
                self._member.subscription_changed()
        for topic in {one.topic for one in self._positions.by_partition}:
            code = self.cluster.view.error_of(topic)
            if code is not None and code is not ErrorCode.NONE and not code.retriable:
                self._fetcher.failures.append(error_of(code, f"topic {topic}: {code.text}"))
        self._fetcher.wake()
        self.news()

    _picked: Sequence[str] = ()

    async def _begin_at_committed(self, partitions: Sequence[TopicPartition]) -> None:
        if self._offsets is None or not partitions:
            return
        found = await self._offsets.committed(partitions, within_ms=self.options.default_api_timeout_ms)
        for one, committed in found.items():
            position = self._positions.by_partition.get(one)
            if position is not None and position.offset is None and position.reset_to is None:
                position.seek(committed.offset)
                self._committed[one] = committed.offset

    def _fetch_on(self) -> None:
        if self._fetcher is not None:
            self._fetcher.wake()

    def _position_of(self, one: TopicPartition) -> Position:
        if one not in self._positions:
            raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{one} is not assigned to this consumer")
        return self._positions[one]

    def _knows(self, topic: str) -> bool:
        """Errors: ClientError."""
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

    async def _list_offsets(self, targets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Errors: ClientError."""
        self._started()
        assert self._fetcher is not None
        found: dict[TopicPartition, int] = {}
        last: Exception | None = None
        try:
            async with asyncio.timeout(self.options.default_api_timeout_ms / 1000):
                while len(found) < len(targets):
                    try:
                        last = await self._list_some(targets, found) or last
                    except (OSError, Unreachable) as error:
                        last = error
                    if len(found) < len(targets):
                        await asyncio.sleep(self.options.retry_backoff_ms / 1000)
                        try:
                            await self.cluster.refresh(sorted({one.topic for one in targets}))
                        except (OSError, Unreachable) as error:
                            last = error
        except TimeoutError:
            within = f"within default.api.timeout.ms={self.options.default_api_timeout_ms}"
            raise ClusterUnreachable(f"offsets could not be had {within}: {last or 'no answer'}") from None
        return found

    async def _list_some(self, targets: Mapping[TopicPartition, int], found: dict[TopicPartition, int]) -> Exception | None:
        """Those whose leaders are known.  Errors: ClientError."""
        assert self._fetcher is not None
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for one, target in targets.items():
            leader = self.cluster.view.leader_of(one)
            if leader is not None and one not in found:
                by_node.setdefault(leader.node_id, {})[one] = target
        last: Exception | None = None
        for node_id, wanted in by_node.items():
            for one, answer in (await self._fetcher.list_offsets(node_id, wanted)).items():
                if not isinstance(answer, KafkaError):
                    found[one] = answer
                elif not answer.code.retriable:
                    raise answer
                else:
                    last = answer
        return last

    async def _leave(self) -> None:
        member, self._member = self._member, None
        if self._committing is not None:
            await asyncio.gather(self._committing, return_exceptions=True)
        if member is None:
            return
        try:
            if self.owned and member.state in (MemberState.STABLE, MemberState.REBALANCING, MemberState.JOINING):
                self._member = member  # offsets are committed as what we still are
                await self.revoke(self.owned)
            elif self.owned:
                await self.lose(self.owned)
        finally:
            self._member = None
            await member.leave()

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Commits what was handed out, unless auto-commit is off, and leaves the group."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._fetcher is not None:
            self._handed_out = {**self._positions.offsets(), **(self._handed_out if self._is_iterating else {})}
            try:
                async with asyncio.timeout(self.options.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s):
                    if self._member is None and self.options.enable_auto_commit:
                        await self._commit_quietly()
                    await self._leave()
            except TimeoutError:
                LOG.warning("the consumer is closed before its group has answered")
            finally:
                await self._topics.close()
                await self._fetcher.close()
        if self._owns_cluster:
            self.cluster.close()

    async def __aenter__(self) -> Self:
        self._started()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def metrics(self) -> dict[str, float]:
        """Totals since the start, by the names of KIP-714."""
        fetcher = self._fetcher
        return {
            "consumer.fetch.manager.bytes.consumed.total": fetcher.byte_count if fetcher else 0,
            "consumer.fetch.manager.records.consumed.total": fetcher.record_count if fetcher else 0,
            "consumer.fetch.manager.fetch.total": fetcher.request_count if fetcher else 0,
            "consumer.fetch.manager.records.lag.max": max((self.lag(one) or 0 for one in self._positions.partitions), default=0),
            "consumer.coordinator.assigned.partitions": len(self._positions.by_partition),
        }


class _Owner:
    """The consumer, as its member sees it."""

    def __init__(self, consumer: Consumer) -> None:
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
