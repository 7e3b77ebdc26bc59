"""● A member of a share group at work: this module keeps the promises of `ShareConsumer`.

Source: ShareConsumeRequestManager, ShareSessionHandler, ShareMembershipManager.
"""

import asyncio
import logging
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from moldau.clients.cluster import RETRY_AFTER_S, Cluster, Unreachable
from moldau.clients.coordinators import Coordinators
from moldau.clients.errors import ClientError, FatalError, error_of
from moldau.clients.forking import refusal, watch
from moldau.clients.records import read_records
from moldau.clients.share.acknowledging import Acknowledge, SharedRecord, runs_of
from moldau.clients.share.options import ShareConsumerOptions
from moldau.clients.topics import Topics
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import share_acknowledge as acknowledging
from moldau.protocol.messages import share_fetch as fetching
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
NEW_SESSION: Final = 0
LAST_OF_SESSION: Final = -1
MAX_SESSION_EPOCH: Final = (1 << 31) - 1
REJOIN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
STALE_SESSION: Final = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})
STALE_METADATA: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
)


class _Session:
    """A leader's share session with this member (KIP-227 for share fetches)."""

    def __init__(self) -> None:
        self.epoch = NEW_SESSION
        self.partitions: set[TopicPartition] = set()

    def sent(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = set(partitions)
        self.epoch = 1 if self.epoch == MAX_SESSION_EPOCH else self.epoch + 1

    def begin_anew(self) -> None:
        self.epoch = NEW_SESSION
        self.partitions = set()


Acknowledgements = dict[TopicPartition, dict[int, Acknowledge]]
"""Acknowledgements by offset."""


class ShareWork:
    """The work of one share consumer; see `ShareConsumer`."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        options: ShareConsumerOptions,
        on_acknowledged: Callable[[TopicPartition, list[int], ErrorCode], None] | None,
        member_id: str | None,
    ) -> None:
        self.group_id: Final = group_id
        self.member_id: Final = member_id or str(uuid.uuid4())
        self.assignment: frozenset[TopicPartition] = frozenset()
        self._assigned: Mapping[uuid.UUID, Sequence[int]] = {}
        """The assignment as the coordinator gave it.  Some of its topics may have no name here yet."""
        self._cluster = cluster
        self._metadata = Topics(
            cluster, max_age_ms=options.metadata_max_age_ms, backoff_ms=options.retry_backoff_ms, on_change=self._on_metadata
        )
        self._coordinators = Coordinators(self._cluster)
        self._topics = sorted(set(topics))
        self._is_news = True
        """Whether the coordinator has not heard of these topics yet."""
        self._looked_up: list[str] | None = None
        """The topics of which metadata was asked for since `subscribe`."""
        self._refused: set[str] = set()
        """The topics of which `poll` has told that they will never be read."""
        self._options = options
        self._on_acknowledged = on_acknowledged
        self._epoch = JOIN_EPOCH
        self._heart: asyncio.Task[None] | None = None
        self._sessions: dict[int, _Session] = defaultdict(_Session)
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._said: Acknowledgements = defaultdict(dict)
        """Acknowledgements that are not sent yet."""
        self._renewed: Acknowledgements = defaultdict(dict)
        """Renewals that are not sent yet; a fetch cannot carry them."""
        self._arrived: deque[SharedRecord] = deque()
        self._out: dict[tuple[str, int, int], SharedRecord] = {}
        """Records of the last poll without an acknowledgement."""
        self._failures: deque[Exception] = deque()
        self._is_closed = False
        self._is_of_parent = False
        self._something = asyncio.Event()
        self._beat_now = asyncio.Event()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics instead of those before."""
        self._topics, self._looked_up = sorted(set(topics)), None
        self._is_news = True
        self._beat_now.set()

    def end(self) -> None:
        """Refuse to poll from now on.  A poll that waits ends."""
        self._is_closed = True
        self._something.set()

    def forked(self) -> None:
        self._is_closed = self._is_of_parent = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise refusal() if self._is_of_parent else FatalError(ErrorCode.INVALID_REQUEST, "the share consumer is closed")

    # ------------------------------------------------------------ records

    async def poll(self, wait_s: float) -> list[SharedRecord]:
        self._check_open()
        if not self._topics:
            raise FatalError(ErrorCode.INVALID_REQUEST, "this share consumer has no topics: subscribe first")
        if self._heart is None or self._heart.done():
            self._cluster.check_loop()
            self._heart = asyncio.get_running_loop().create_task(self._beat())
            watch(self)
        if self._looked_up != self._topics:
            self._look_up()
        self._accept_implicitly()
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            self._check_open()
            self._something.clear()
            self._fetch_from_idle_leaders()
            if self._arrived or self._failures or loop.time() >= until:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._something.wait()
        if self._failures:
            raise self._failures.popleft()
        handed_out = list(self._arrived)
        self._out.update((_place_of(shared), shared) for shared in handed_out)
        self._arrived.clear()
        return handed_out

    def take_back(self, found: Sequence[SharedRecord]) -> None:
        """Take back what the last poll returned and nobody has acknowledged."""
        self._arrived.extendleft(shared for shared in reversed(found) if self._out.pop(_place_of(shared), None) is not None)

    def acknowledge(self, shared: SharedRecord, kind: Acknowledge) -> None:
        record = shared.record
        kind = Acknowledge(kind)
        if kind is Acknowledge.GAP:
            raise ValueError("GAP is for offsets without a record: accept, release, reject or renew a record")
        where = TopicPartition(record.topic, record.partition)
        if _place_of(shared) not in self._out and record.offset not in self._said.get(where, ()):
            detail = f"record {record.offset} of {where} has been acknowledged, or is no record of this consumer"
            raise ClientError(ErrorCode.INVALID_RECORD_STATE, detail)
        if kind is Acknowledge.RENEW:
            self._renewed[where][record.offset] = kind
            return
        # A renewal that could not be sent is void now: its answer would be taken for that of this acknowledgement.
        self._renewed[where].pop(record.offset, None)
        self._said[where][record.offset] = kind
        self._out.pop(_place_of(shared), None)

    def _accept_implicitly(self) -> None:
        if self._options.accepts_implicitly:
            for shared in list(self._out.values()):
                self.acknowledge(shared, Acknowledge.ACCEPT)

    async def commit(self) -> None:
        """Send the acknowledgements, and wait until the leaders have stored or refused them.  Errors: OSError, Unreachable."""
        if self._is_of_parent:
            raise refusal()
        self._accept_implicitly()
        await asyncio.gather(*self._busy.values())
        await asyncio.gather(*(self._acknowledge(node_id) for node_id in list(self._sessions)))

    async def close(self) -> None:
        """End the sessions, so that the leaders release the records that were not returned or not acknowledged, and leave the group.

        The records of the last poll are released in the implicit mode, too: whoever closes may have failed in their midst.
        Source: ShareConsumerImpl.sendAcknowledgementsAndLeaveGroup.
        """
        if self._heart is None or self._is_of_parent:
            return
        self._heart.cancel()
        await self._metadata.close()
        await asyncio.gather(self._heart, *self._busy.values(), return_exceptions=True)
        with suppress(OSError, Unreachable, KafkaError):
            await asyncio.gather(*(self._acknowledge(node_id, is_last=True) for node_id in list(self._sessions)))
        with suppress(OSError, Unreachable, KafkaError):
            await self._heartbeat(LEAVE_EPOCH)
        self._heart, self._epoch, self.assignment, self._assigned = None, JOIN_EPOCH, frozenset(), {}
        left, self._said = self._said, defaultdict(dict)
        for one in sorted(left):
            self._tell(left, one, ErrorCode.SHARE_SESSION_NOT_FOUND)  # no leader has taken them
        self._renewed.clear()
        self._sessions.clear()
        self._out.clear()
        self._arrived.clear()

    def abort(self) -> None:
        """Stop without a word: the records are delivered again when their locks expire or the session ends."""
        self._metadata.abort()
        for task in (self._heart, *self._busy.values()):
            if task is not None:
                task.cancel()

    # ------------------------------------------------------------ membership

    async def _beat(self) -> None:
        while True:
            interval_s = RETRY_AFTER_S
            try:
                interval_s = await self._heartbeat(self._epoch)
            except (OSError, Unreachable):
                self._is_news = True
            except KafkaError as error:
                if not error.code.retriable:
                    self._failures.append(error)
                    self._something.set()
                    return
                self._is_news = True
            except Exception as error:
                self._failures.append(error)
                self._something.set()
                return  # the next poll begins again
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._beat_now.wait()
            self._beat_now.clear()

    def _look_up(self) -> None:
        for topic in self._topics:
            self._metadata.use(topic)
        self._metadata.refresh_soon()
        self._looked_up = self._topics
        self._refused.clear()

    def _on_metadata(self) -> None:
        """Let `poll` raise what will never change about a topic, such as a name that no topic can have: the coordinator is silent there."""
        for topic in self._topics:
            code = self._cluster.view.error_of(topic)
            if code and not code.retriable and topic not in self._refused:
                self._refused.add(topic)
                self._failures.append(error_of(code, f"topic {topic}: {code.text}"))
        self._settle_assignment()
        self._something.set()

    async def _heartbeat(self, epoch: int) -> float:
        """Send one heartbeat.  Returns after how many seconds the next is due.  Errors: KafkaError."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=(self._options.client_rack or None) if epoch == JOIN_EPOCH else None,
            subscribed_topic_names=self._topics if epoch == JOIN_EPOCH or self._is_news else None,
        )
        self._is_news = False
        response = await self._coordinators.ask(self.group_id, request, lambda one: one.error_code)
        code = ErrorCode.of(response.error_code)
        if code in REJOIN and epoch not in (JOIN_EPOCH, LEAVE_EPOCH):
            self._epoch, self.assignment, self._assigned = JOIN_EPOCH, frozenset(), {}
            return 0.0
        if code is not ErrorCode.NONE:
            raise KafkaError(code, response.error_message)
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._assigned = {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}
            self._settle_assignment()
        return response.heartbeat_interval_ms / 1000 if self.assignment else min(response.heartbeat_interval_ms / 1000, RETRY_AFTER_S)

    def _settle_assignment(self) -> None:
        """Take what has a name for the assignment, and look for the other names: the broker that was asked may know less than others."""
        names = self._cluster.view.names
        self.assignment = frozenset(
            TopicPartition(names[topic_id], index) for topic_id, indexes in self._assigned.items() if topic_id in names for index in indexes
        )
        if not names.keys() >= self._assigned.keys():
            self._metadata.refresh_soon()
        self._fetch_from_idle_leaders()

    # ------------------------------------------------------------ fetching

    def _fetch_from_idle_leaders(self) -> None:
        """Send one fetch at a time to each leader of the assigned partitions."""
        leaders: dict[int, set[TopicPartition]] = defaultdict(set)
        for one in sorted(self.assignment):
            leader = self._cluster.view.leader_of(one)
            if leader is None:
                self._metadata.refresh_soon()
            else:
                leaders[leader.node_id].add(one)
        for node_id in self._sessions:
            leaders.setdefault(node_id, set())
        for node_id, partitions in leaders.items():
            is_wanted = bool(partitions or self._sessions[node_id].partitions) and len(self._arrived) < self._options.max_poll_records
            if node_id not in self._busy and is_wanted:
                task = asyncio.get_running_loop().create_task(self._guarded(node_id, partitions))
                self._busy[node_id] = task
                task.add_done_callback(lambda _, node_id=node_id: self._fetched(node_id))  # type: ignore[misc]

    def _fetched(self, node_id: int) -> None:
        self._busy.pop(node_id, None)
        self._something.set()  # a poll that waits fetches again

    async def _guarded(self, node_id: int, partitions: set[TopicPartition]) -> None:
        try:
            await self._fetch(node_id, partitions)
        except (OSError, Unreachable):
            self._sessions[node_id].begin_anew()
            await self._pause_and_refresh()
        except Exception as error:
            self._failures.append(error)
            self._something.set()

    async def _fetch(self, node_id: int, partitions: set[TopicPartition]) -> None:
        session = self._sessions[node_id]
        said = self._take_said(session.partitions) if session.epoch != NEW_SESSION else {}
        request = self._fetch_request(session, partitions, said)
        asked_at = asyncio.get_running_loop().time()
        try:
            response = await self._cluster.send(request, node_id=node_id, extra_s=self._options.fetch_max_wait_ms / 1000)
        except BaseException:
            self._say_again(said)
            raise
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._say_again(said)
            session.begin_anew()
            if code in STALE_SESSION:
                return
            if code.retriable:
                await self._pause_and_refresh()
                return
            raise KafkaError(code, response.error_message)
        session.sent(partitions)
        is_stale = self._take_all(response, said, asked_at)
        if self._arrived:
            self._something.set()
        if is_stale:
            await self._pause_and_refresh()

    def _fetch_request(self, session: _Session, partitions: set[TopicPartition], said: Acknowledgements) -> fetching.ShareFetchRequest:
        """The request that changes the session's partitions to these, and brings what was said of records."""
        options, known = self._options, set(session.partitions)
        return fetching.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            max_records=options.max_poll_records,
            batch_size=options.max_poll_records,
            share_acquire_mode=options.acquire_mode,
            topics=[
                fetching.FetchTopic(
                    topic_id=self._cluster.view.topic_id_of(topic),
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=one.partition,
                            acknowledgement_batches=[
                                fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                                for first, last, types in runs_of(said.get(one, {}))
                            ],
                        )
                        for one in ones
                    ],
                )
                for topic, ones in _by_topic((partitions - known) | said.keys()).items()
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=self._cluster.view.topic_id_of(topic), partitions=[one.partition for one in ones])
                for topic, ones in _by_topic(known - partitions).items()
            ],
        )

    def _take_all(self, response: fetching.ShareFetchResponse, said: Acknowledgements, asked_at: float) -> bool:
        """Take the answers of all partitions.  Returns whether another broker leads one of them."""
        answered = {(topic.topic_id, one.partition_index) for topic in response.responses for one in topic.partitions}
        for one in said:
            if (self._cluster.view.topic_id_of(one.topic), one.partition) not in answered:
                self._tell(said, one, ErrorCode.NONE)  # a leader leaves out partitions without news
        is_stale = False
        for topic in response.responses:
            name = self._cluster.view.names.get(topic.topic_id, "")
            for answer in topic.partitions:
                one = TopicPartition(name, answer.partition_index)
                self._tell(said, one, answer.acknowledge_error_code)
                try:
                    is_stale = self._take(one, answer, asked_at) or is_stale
                except (KafkaError, CorruptBatch) as error:
                    self._failures.append(error)  # the other partitions' records count nevertheless
        return is_stale

    def _take(self, one: TopicPartition, answer: fetching.PartitionData, asked_at: float) -> bool:
        """Take one partition's answer.  Returns whether another broker leads the partition."""
        code = ErrorCode.of(answer.error_code)
        if code in STALE_METADATA or (code is not ErrorCode.NONE and code.retriable):
            return True
        if code is not ErrorCode.NONE:
            raise KafkaError(code, answer.error_message)
        counts = {
            offset: acquired.delivery_count
            for acquired in answer.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        records = [record for record in read_records(one, answer.records) if record.offset in counts] if counts else []
        self._arrived += [SharedRecord(record, counts[record.offset], asked_at) for record in records]
        for offset in counts.keys() - {record.offset for record in records}:
            self._said[one][offset] = Acknowledge.GAP  # the record was compacted away, or is a marker: there is nothing to deliver
        return False

    async def _pause_and_refresh(self) -> None:
        await asyncio.sleep(RETRY_AFTER_S)
        with suppress(OSError, Unreachable):
            await self._cluster.refresh(self._topics)

    # ------------------------------------------------------------ acknowledging

    async def _acknowledge(self, node_id: int, *, is_last: bool = False) -> None:
        session = self._sessions[node_id]
        if session.epoch == NEW_SESSION:
            return
        said = self._take_said(session.partitions)
        renewed = {} if is_last else {one: self._renewed.pop(one) for one in sorted(session.partitions) if one in self._renewed}
        for one, kinds in renewed.items():
            said[one] = {**kinds, **said.get(one, {})}
        if not said and not is_last:
            return
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=LAST_OF_SESSION if is_last else session.epoch,
            is_renew_ack=bool(renewed),
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=self._cluster.view.topic_id_of(topic),
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=one.partition,
                            acknowledgement_batches=[
                                acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                                for first, last, types in runs_of(said[one])
                            ],
                        )
                        for one in ones
                    ],
                )
                for topic, ones in _by_topic(said).items()
            ],
        )
        try:
            response = await self._cluster.send(request, node_id=node_id)
        except BaseException:
            self._say_again(said)
            session.begin_anew()
            raise
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            session.begin_anew()
            for one in said:
                self._tell(said, one, code)
            return
        session.sent(session.partitions)
        for topic in response.responses:
            name = self._cluster.view.names.get(topic.topic_id, "")
            for answer in topic.partitions:
                self._tell(said, TopicPartition(name, answer.partition_index), answer.error_code)

    def _take_said(self, partitions: Iterable[TopicPartition]) -> Acknowledgements:
        return {one: self._said.pop(one) for one in sorted(partitions) if one in self._said}

    def _say_again(self, said: Acknowledgements) -> None:
        for one, kinds in said.items():
            for offset, kind in kinds.items():
                (self._renewed if kind is Acknowledge.RENEW else self._said)[one].setdefault(offset, kind)

    def _tell(self, said: Acknowledgements, one: TopicPartition, number: int) -> None:
        offsets = sorted(offset for offset, kind in said.get(one, {}).items() if kind is not Acknowledge.GAP)
        if offsets and self._on_acknowledged is not None:
            try:
                self._on_acknowledged(one, offsets, ErrorCode.of(number))
            except Exception:
                LOG.exception("an acknowledgement callback failed")


def _place_of(shared: SharedRecord) -> tuple[str, int, int]:
    return shared.record.topic, shared.record.partition, shared.record.offset


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic, []).append(one)
    return topics
