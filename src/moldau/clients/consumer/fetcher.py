"""● Keeps records of the assigned partitions at hand: one fetch per broker on its way, as far ahead as prefetch_max_bytes allows.

A turn looks at every position.  A position without an offset is resolved.  A partition without a known leader has it looked up.  All
others are fetched from their leader, or from the follower that the leader names.  Trouble with one broker or partition holds up no other.
Errors that a user must know are raised by the next `poll`, each once, and the partition is tried again.  Called by `consumer`.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from moldau.clients.cluster import STALE_METADATA, Cluster, Unreachable
from moldau.clients.consumer.options import EARLIEST, LATEST, ConsumerOptions
from moldau.clients.consumer.positions import Position, Positions
from moldau.clients.consumer.session import ENDED, FetchSession, Wanted
from moldau.clients.errors import error_of
from moldau.clients.records import read_partition
from moldau.clients.topics import Topics
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.records.batch import CorruptBatch
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

UNCOMMITTED: Final = 0
COMMITTED: Final = 1
NO_NODE: Final = -1
FROM_LEADER: Final = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE})


class Fetcher:
    """Fetches for one consumer; see the module.  `on_news` is called when records can be handed out, or something went wrong."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        topics: Topics,
        clock: Clock,
        on_news: Callable[[], None],
    ) -> None:
        self.failures: deque[Exception] = deque()
        self.byte_count = self.record_count = self.request_count = 0
        self._cluster = cluster
        self._options = options
        self._positions = positions
        self._topics = topics
        self._clock = clock
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[int, FetchSession] = defaultdict(FetchSession)
        self._busy: set[int] = set()
        self._resolving: set[TopicPartition] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ turns

    def wake(self) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        unset: dict[int, list[Position]] = defaultdict(list)
        later_ms: int | None = None
        for position in self._positions.by_partition.values():
            if position.retry_at_ms > now_ms and position.fetching_from is None:
                later_ms = position.retry_at_ms if later_ms is None else min(later_ms, position.retry_at_ms)
            elif position.fetch_offset is None and position.topic_partition not in self._resolving:
                unset[self._node_of(position, now_ms)].append(position)
        unset.pop(NO_NODE, None)
        for node_id, positions in unset.items():
            self._spawn(self._resolve(node_id, positions))
        for node_id in self._fetchable(now_ms):
            if node_id not in self._busy:
                self._busy.add(node_id)
                self._spawn(self._fetch(node_id))
        self._set_timer(now_ms, later_ms)

    def _fetchable(self, now_ms: int) -> dict[int, list[Position]]:
        """The partitions to fetch by the node to ask.  As much again as is buffered of a partition is fetched while the caller is at
        work.
        """
        wanted: dict[int, list[Position]] = defaultdict(list)
        most = self._options.max_partition_fetch_bytes
        if self._is_closed or self._positions.buffered_bytes >= self._options.prefetch_max_bytes:
            return wanted
        for position in self._positions.by_partition.values():
            if position.fetch_offset is None or position.fetching_from is not None or position.topic_partition in self._resolving:
                continue
            if position.is_paused or position.buffered_bytes >= most or position.retry_at_ms > now_ms:
                continue
            wanted[self._node_of(position, now_ms)].append(position)
        wanted.pop(NO_NODE, None)
        return wanted

    def _set_timer(self, now_ms: int, at_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms is not None:
            self._timer = self._loop.call_later(max(1, at_ms - now_ms) / 1000, self.wake)

    def _node_of(self, position: Position, now_ms: int) -> int:
        view = self._cluster.view
        preferred = position.preferred_node
        if position.fetch_offset is not None and preferred is not None and now_ms < position.preferred_until_ms and preferred in view.nodes:
            return preferred
        leader = view.leader_of(position.topic_partition)
        if leader is not None:
            return leader.node_id
        self._topics.use(position.topic_partition.topic)
        self._topics.refresh_soon()
        return NO_NODE

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, error: Exception) -> None:
        self.failures.append(error)
        self._on_news()

    def _pause(self, positions: Sequence[Position]) -> None:
        at_ms = self._clock.monotonic_ms() + self._options.retry_backoff_ms
        for position in positions:
            position.retry_at_ms = at_ms

    # ------------------------------------------------------------ fetching

    async def _fetch(self, node_id: int) -> None:
        """Fetch from this node until there is nothing to ask it for.

        The next request leaves before the caller sees the last answer: the broker works on it while the caller works on that answer.
        """
        try:
            # Asked here, not by the turn that spawned this task: a partition may have been sought or given up since then.
            while positions := self._fetchable(self._clock.monotonic_ms()).get(node_id):
                await self._fetch_once(node_id, positions)
                self.wake()
        finally:
            self._busy.discard(node_id)
            self.wake()

    async def _fetch_once(self, node_id: int, positions: Sequence[Position]) -> None:
        versions = {}
        for position in positions:
            position.fetching_from = node_id
            versions[position.topic_partition] = position.version
        try:
            await self._fetch_from(node_id, positions, versions)
        except (OSError, Unreachable) as error:
            LOG.info("broker %d: %s", node_id, error)
            self._sessions[node_id].begin_anew()
            for position in positions:
                position.preferred_node = None
            self._pause(positions)
            self._topics.refresh_soon()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._sessions[node_id].begin_anew()
            self._pause(positions)
            self._fail(error)
        finally:
            for position in positions:
                if position.version == versions[position.topic_partition]:
                    position.fetching_from = None

    async def _fetch_from(self, node_id: int, positions: Sequence[Position], versions: Mapping[TopicPartition, int]) -> None:
        session = self._sessions[node_id]
        request = self._request_of(session, positions)
        self.request_count += 1
        response = await self._cluster.send(request, node_id=node_id, extra_s=self._options.fetch_max_wait_ms / 1000)
        code = ErrorCode.of(response.error_code)
        if code in ENDED:
            session.begin_anew()
            return
        if code is not ErrorCode.NONE:
            session.begin_anew()
            self._pause(positions)
            if code in STALE_METADATA:
                self._topics.refresh_soon()
            elif not code.retriable:
                self._fail(error_of(code))
            return
        session.answered(response.session_id)
        by_partition = {position.topic_partition: position for position in positions}
        for one, answer in self._answers(response):
            position = by_partition.get(one)
            if position is not None and position.version == versions[one] and position.fetch_offset is not None:
                self._take(node_id, position, position.fetch_offset, answer)

    def _answers(self, response: FetchResponse) -> list[tuple[TopicPartition, PartitionData]]:
        names = self._cluster.view.names
        return [
            (TopicPartition(topic.topic or names.get(topic.topic_id, ""), answer.partition_index), answer)
            for topic in response.responses
            for answer in topic.partitions
        ]

    def _take(self, node_id: int, position: Position, offset: int, answer: PartitionData) -> None:
        one, code = position.topic_partition, ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._take_records(position, offset, answer)
        elif code in FROM_LEADER and position.preferred_node == node_id:
            position.preferred_node = None
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(position, offset)
        elif code in STALE_METADATA or code.retriable:
            position.preferred_node = None
            self._pause([position])
            self._topics.refresh_soon()
        else:
            self._pause([position])
            self._topics.refresh_soon()
            self._fail(error_of(code, f"{one} at offset {offset}: {code.text}"))

    def _take_records(self, position: Position, offset: int, answer: PartitionData) -> None:
        options = self._options
        position.high_watermark = answer.high_watermark
        position.last_stable_offset = answer.last_stable_offset
        position.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica != NO_NODE:
            position.preferred_node = answer.preferred_read_replica
            position.preferred_until_ms = self._clock.monotonic_ms() + options.metadata_max_age_ms
            return
        try:
            fetched = read_partition(
                position.topic_partition,
                answer,
                offset,
                read_committed=options.reads_committed,
                check_crc=options.check_crcs,
                key_deserializer=options.key_deserializer,
                value_deserializer=options.value_deserializer,
            )
        except CorruptBatch as error:
            self._pause([position])
            self._fail(error)
            return
        position.fetched(fetched)
        if fetched.records:
            self.byte_count += sum(records.size for records in fetched.records)
            self.record_count += sum(map(len, fetched.records))
            self._on_news()

    def _out_of_range(self, position: Position, offset: int) -> None:
        options = self._options
        if options.reset_target is None and options.reset_before_ms is None:
            self._pause([position])
            one = position.topic_partition
            detail = f"{one}: offset {offset} is not there (any more), and auto.offset.reset=none; seek to one that is"
            self._fail(error_of(ErrorCode.OFFSET_OUT_OF_RANGE, detail))
            return
        LOG.info("%s: offset %d is not there, reset to %s", position.topic_partition, offset, options.auto_offset_reset)
        position.seek(None)

    def _request_of(self, session: FetchSession, positions: Sequence[Position]) -> FetchRequest:
        options, view = self._options, self._cluster.view
        wanted = {}
        for position in positions:
            assert position.fetch_offset is not None
            topic_id = view.topic_id_of(position.topic_partition.topic)
            epoch = view.leader_epoch_of(position.topic_partition)
            wanted[position.topic_partition] = Wanted(topic_id, position.fetch_offset, epoch, options.max_partition_fetch_bytes)
        ask = session.ask(wanted)
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), asked in ask.partitions.items():
            entry = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=asked.topic_id, partitions=[]))
            entry.partitions.append(
                FetchPartition(
                    partition=partition,
                    fetch_offset=asked.offset,
                    current_leader_epoch=asked.leader_epoch,
                    partition_max_bytes=asked.max_bytes,
                )
            )
        forgotten: dict[str, ForgottenTopic] = {}
        for (topic, partition), topic_id in ask.forgotten.items():
            forgotten.setdefault(topic, ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[])).partitions.append(partition)
        return FetchRequest(
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=min(options.fetch_max_bytes, self._share_bytes()),
            isolation_level=COMMITTED if options.reads_committed else UNCOMMITTED,
            session_id=ask.session_id,
            session_epoch=ask.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id=options.client_rack,
        )

    def _share_bytes(self) -> int:
        """How many bytes a request may ask for, so that the answers of all brokers fit into what is left of prefetch_max_bytes."""
        return max(1, (self._options.prefetch_max_bytes - self._positions.buffered_bytes) // max(1, len(self._busy)))

    # ------------------------------------------------------------ where to begin

    async def _resolve(self, node_id: int, positions: Sequence[Position]) -> None:
        """Find offsets for positions without one: the one that a seek asked for, or that of the policy."""
        # A partition may have been sought or given up since this task was spawned.
        positions = [one for one in positions if one.fetch_offset is None and self._is_unresolved(one)]
        partitions = [position.topic_partition for position in positions]
        self._resolving.update(partitions)
        versions = [position.version for position in positions]
        try:
            await self._resolve_at(node_id, list(zip(positions, versions, strict=True)))
        except (OSError, Unreachable) as error:
            LOG.info("broker %d: %s", node_id, error)
            self._pause(positions)
            self._topics.refresh_soon()
        except Exception as error:
            self._pause(positions)
            self._fail(error)
        finally:
            self._resolving.difference_update(partitions)
            self._on_news()
            self.wake()

    def _is_unresolved(self, position: Position) -> bool:
        one = position.topic_partition
        return self._positions.by_partition.get(one) is position and one not in self._resolving

    async def _resolve_at(self, node_id: int, asked: Sequence[tuple[Position, int]]) -> None:
        targets = {}
        for position, _ in asked:
            target = self._target_of(position)
            if target is None:
                one = position.topic_partition
                self._pause([position])
                detail = f"{one} has no committed offset, and auto.offset.reset=none; seek to where reading begins"
                self._fail(error_of(ErrorCode.OFFSET_OUT_OF_RANGE, detail))
            else:
                targets[position.topic_partition] = target
        if not targets:
            return
        found = await self.list_offsets(node_id, targets)
        for position, version in asked:
            answer = found.get(position.topic_partition)
            if answer is None or position.version != version or position.fetch_offset is not None:
                continue
            if isinstance(answer, KafkaError):
                self._pause([position])
                self._topics.refresh_soon()
                if not answer.code.retriable:
                    self._fail(answer)
            elif answer < 0:  # no record is as new as the time asked for
                position.reset_to = LATEST
            else:
                position.seek(answer)

    def _target_of(self, position: Position) -> int | None:
        if position.reset_to is not None:
            return position.reset_to
        before_ms = self._options.reset_before_ms
        return self._options.reset_target if before_ms is None else self._clock.now_ms() - before_ms

    async def list_offsets(self, node_id: int, targets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        """The offsets of these targets, from the leader of all of them.  -1: no record is as new as the timestamp.

        Errors: OSError, Unreachable, KafkaError.
        """
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for (topic, partition), target in targets.items():
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=target))
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=COMMITTED if self._options.reads_committed else UNCOMMITTED,
            topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
            timeout_ms=self._options.request_timeout_ms,
        )
        response = await self._cluster.send(request, node_id=node_id)
        found: dict[TopicPartition, int | KafkaError] = {}
        for answered in response.topics:
            for one in answered.partitions:
                code = ErrorCode.of(one.error_code)
                place = TopicPartition(answered.name, one.partition_index)
                found[place] = one.offset if code is ErrorCode.NONE else error_of(code, f"{place}: {code.text}")
        return found

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["EARLIEST", "LATEST", "Fetcher"]
