"""● ShareFetch: acquire records of a share group's partitions, and acknowledge earlier ones on the way (KIP-932).

Versions       1-2.
Authorises     READ on the group, READ on each topic.
Behaviour      Acknowledgements are taken first, then records are acquired for the member from the session's partitions, in an order that
               turns with the epoch; max_bytes is divided among them.  With fewer than min_bytes the request waits until more can be
               acquired or max_wait_ms is over.  Records leave as slices of files: whole batches, of which only `acquired_records` count.
               The fetch waits for records in remote storage only (KIP-405), remote.fetch.max.wait.ms at most.  Partitions that are new to
               the group are loaded one after the other: the first that has records ends the wait, the others are left to other members.
Version notes  2+ may limit the number of records strictly (KIP-1206), and renews locks in a request without a fetch (KIP-1222).
Errors         UNSUPPORTED_VERSION (share.version is 0), INVALID_REQUEST, INVALID_GROUP_ID, SHARE_SESSION_NOT_FOUND,
               INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED (after max_wait_ms); by partition UNKNOWN_TOPIC_ID,
               UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, GROUP_ID_NOT_FOUND, KAFKA_STORAGE_ERROR,
               CORRUPT_MESSAGE, and for acknowledgements those of ShareAcknowledge.
Differs from Kafka: a group that begins `by_duration` in a partition without a young enough record begins at its end; Kafka refuses its
               fetches.  A deleted topic in a session is answered with UNKNOWN_TOPIC_ID.  The group without a name is refused with
               INVALID_GROUP_ID; Kafka says UNKNOWN_SERVER_ERROR on each partition.  While the group's state has no coordinator, a
               partition is refused with NOT_LEADER_OR_FOLLOWER, which members try again; Kafka says COORDINATOR_NOT_AVAILABLE, and its
               own Java client ends with an IllegalStateException.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.share_fetch import (
    AcquiredRecords,
    FetchPartition,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.replication.partition import Isolation
from moldau.replication.share.decision import Refusal
from moldau.replication.share.partition import SharePartition
from moldau.replication.share.window import Window, window_of
from moldau.replication.waits import FetchWait, Parked
from moldau.server.handlers.groups import serves_share_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.server.share.acknowledgements import RENEW_VERSION, Acknowledging, acknowledge, is_valid_member, release_session
from moldau.server.share.partitions import SharedPartition
from moldau.server.share.remote import RemoteReads
from moldau.server.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, MemberKey, SharedKey, ShareSession
from moldau.storage.log import FetchData

RECORD_LIMIT: Final = 1
"""share_acquire_mode record_limit: not one record more than asked for."""

Results = dict[SharedKey, PartitionData]


@handles(ShareFetchRequest)
def share_fetch(broker: Broker, context: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse | Later[ShareFetchResponse]:
    refusal = _refusal(broker, context, request)
    if refusal:
        return _refused(refusal)
    member = MemberKey(request.group_id or "", request.member_id or "")
    session = _session(broker, context, request, member)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return _refuse_later(broker, session, request.max_wait_ms)
    if isinstance(session, ErrorCode):
        return _refused(session)
    is_renewing = context.version >= RENEW_VERSION and request.is_renew_ack
    acknowledging = acknowledge(broker, member, _acknowledged(request), version=context.version, is_renewing=is_renewing)
    fetching = _Fetching(broker, context, request, member, session, acknowledging)
    if not is_renewing and request.share_session_epoch != FINAL_EPOCH:
        fetching.begin()
    return fetching.answer()


def _refusal(broker: Broker, context: RequestContext, request: ShareFetchRequest) -> ErrorCode:
    if not serves_share_groups(broker):
        return ErrorCode.UNSUPPORTED_VERSION
    if request.group_id is None or not is_valid_member(request.member_id):
        return ErrorCode.INVALID_REQUEST
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if context.version >= RENEW_VERSION and request.is_renew_ack:
        fetches_too = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
        return ErrorCode.INVALID_REQUEST if fetches_too else ErrorCode.NONE
    return ErrorCode.NONE


def _session(broker: Broker, context: RequestContext, request: ShareFetchRequest, member: MemberKey) -> ShareSession | ErrorCode:
    epoch, sessions, client = request.share_session_epoch, broker.share_sessions, context.client
    wanted = [SharedKey(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    if epoch == INITIAL_EPOCH:
        if any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions):
            return ErrorCode.INVALID_REQUEST
        begun = sessions.begin(member, wanted, client)
        if isinstance(begun, ShareSession):
            client.on_closed[member] = lambda: release_session(broker, member, client)
        return begun
    session = sessions.at_epoch(member, epoch)
    if epoch != FINAL_EPOCH and not isinstance(session, ErrorCode):
        sessions.change(
            session, wanted, [SharedKey(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        )
    return session


def _acknowledged(request: ShareFetchRequest) -> Iterable["_Acknowledged"]:
    for topic in request.topics:
        said = [one for one in topic.partitions if one.acknowledgement_batches]
        if said:
            yield _Acknowledged(topic.topic_id, said)


class _Acknowledged:
    """A topic's partitions with acknowledgements."""

    def __init__(self, topic_id: UUID, partitions: list[FetchPartition]) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class _Fetching:
    """One request: its parked state, and its answer."""

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: ShareFetchRequest,
        member: MemberKey,
        session: ShareSession,
        acknowledging: Acknowledging,
    ) -> None:
        self._broker: Final = broker
        self._context: Final = context
        self._request: Final = request
        self._member: Final = member
        self._session: Final = session
        self._expected_epoch: Final = session.epoch
        self._acknowledging: Final = acknowledging
        self._rules: Final = broker.shares.rules(member.group_id)
        is_committed = broker.shares.values(member.group_id).get("share.isolation.level") == "read_committed"
        self._isolation: Final = Isolation.COMMITTED_TRANSACTIONS if is_committed else Isolation.HIGH_WATERMARK
        self._max_bytes: Final = min(request.max_bytes, broker.config.server.fetch_max_bytes)
        self._min_bytes: Final = min(request.min_bytes, self._max_bytes)
        self._deadline_ms = broker.clock.monotonic_ms() + request.max_wait_ms
        self._remote: Final = RemoteReads(broker.remote, self._remote_read) if broker.remote is not None else None
        self._held: dict[SharedKey, SharedPartition] = {}
        self._refused: dict[SharedKey, ErrorCode] = {}
        self._results: Results | None = {}
        self._wait: FetchWait | None = None
        self._is_abandoned = False
        self._is_acknowledged = False
        self._is_late = False
        """Whether records are read from remote storage: that may take longer than the client would wait for records."""
        self._later: Later[ShareFetchResponse] = Later(self._abandon)

    # The partitions

    def begin(self) -> None:
        for key in self._turned(list(self._session.partitions)):
            self._begin_partition(key)
        if self._held and self._request.max_records and self._max_bytes:
            self._results = None
            self._try()

    def _turned(self, keys: list[SharedKey]) -> list[SharedKey]:
        """The keys in an order that turns, so that no partition is always the last to be read."""
        epoch = self._request.share_session_epoch
        at = epoch % len(keys) if keys and epoch > 0 else 0
        return keys[at:] + keys[:at]

    def _begin_partition(self, key: SharedKey) -> None:
        broker = self._broker
        topic = broker.cluster.topic_name(key.topic_id)
        if topic is None:
            self._refused[key] = ErrorCode.UNKNOWN_TOPIC_ID
            return
        partition = broker.replicas.hosted.get((topic, key.partition))
        if partition is None or not partition.is_leader:
            self._refused[key] = broker.refusal_of_absent(topic, key.partition)
        else:
            self._held[key] = broker.shares.hold(self._member.group_id, partition)

    # Acquiring, or waiting

    def _try(self) -> None:
        """Acquire if there is enough or time is over, else wait."""
        now_ms = self._broker.clock.monotonic_ms()
        windows: dict[SharedKey, Window | None] = {}
        is_failed = False
        usable = self._usable(now_ms)
        for key, share in usable.items():
            window = self._look(key, share, self._max_bytes // len(usable), is_first=not any(windows.values()), now_ms=now_ms)
            if isinstance(window, ErrorCode):
                self._refused[key] = window
                is_failed = True
            else:
                windows[key] = window
        if self._remote is not None and self._remote.is_waiting and not self._is_late:
            self._is_late = True
            self._deadline_ms = max(self._deadline_ms, now_ms + self._remote.max_wait_ms)
        is_over = now_ms >= self._deadline_ms or self._broker.replicas.has_resigned
        available = sum(window.ends[-1] for window in windows.values() if window is not None and window.ends)
        if is_over or is_failed or not self._held or available >= self._min_bytes:
            self._results = self._acquire(windows, now_ms)
        else:
            self._park(windows, available, now_ms)

    def _usable(self, now_ms: int) -> dict[SharedKey, SharePartition]:
        """The partitions that have room for more locks, or free records."""
        usable = {}
        for key, held in list(self._held.items()):
            if not held.is_current:
                self._refused[key] = held.failure or ErrorCode.NOT_LEADER_OR_FOLLOWER
                del self._held[key]
            elif held.share is not None:
                held.share.rules = self._broker.shares.rules(self._member.group_id, held.partition)
                held.share.log_start_moved(held.partition.log.log_start_offset)
                if held.share.can_acquire(now_ms):
                    usable[key] = held.share
        return usable

    def _look(self, key: SharedKey, share: SharePartition, max_bytes: int, *, is_first: bool, now_ms: int) -> Window | ErrorCode | None:
        """The records that can be read for one partition; None: none yet."""
        partition = self._held[key].partition
        offset, limit = share.next_fetch_offset(now_ms), partition.end_for(self._isolation)
        if offset >= limit:
            return None
        is_committed = self._isolation is Isolation.COMMITTED_TRANSACTIONS
        data: FetchData | ErrorCode | None
        data = partition.log.read(offset, max_bytes, limit_offset=limit, min_one_batch=is_first, with_aborted=is_committed)
        if data is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and self._remote is not None:
            data = self._remote.take(partition, offset, max_bytes, with_aborted=is_committed)
        if data is None:
            return None
        if isinstance(data, ErrorCode):
            return None if data is ErrorCode.OFFSET_OUT_OF_RANGE else data
        if data.records is None:
            return None
        delay_ms = share.rules.delivery_delay_ms
        try:
            return window_of(
                data.records,
                share.window_end(offset, self._request.max_records),
                aborted=data.aborted,
                newest_ms=self._broker.clock.now_ms() - delay_ms if delay_ms else None,
            )
        except CorruptBatch:
            return ErrorCode.CORRUPT_MESSAGE

    def _acquire(self, windows: Mapping[SharedKey, Window | None], now_ms: int) -> Results:
        results: Results = {}
        left = self._request.max_records
        for key, window in windows.items():
            held = self._held[key]
            share = held.share
            assert share is not None
            result = results[key] = _nothing(key)
            if window is None or not window.batches:
                continue
            acquired = share.acquire(
                self._member.member_id,
                window.batches,
                fetch_offset=share.next_fetch_offset(now_ms),
                max_records=left,
                batch_size=self._request.batch_size,
                is_record_limit=self._request.share_acquire_mode == RECORD_LIMIT,
                now_ms=now_ms,
                aborted=window.aborted,
            )
            if acquired:
                result.records = window.slice_of(acquired)
                result.acquired_records = [
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in acquired
                ]
                left -= sum(last - first + 1 for first, last, _ in acquired)
                self._broker.shares.acquired(held)
        return results

    def _park(self, windows: Mapping[SharedKey, Window | None], available: int, now_ms: int) -> None:
        """Park the request until a partition grows, is free or is loaded, or a delayed record is due."""
        wait = self._wait = FetchWait(self._min_bytes - available, self._woken)
        due_ms = self._deadline_ms
        ahead_ms = now_ms - self._broker.clock.now_ms()
        for key, held in self._held.items():
            held.waiters[wait] = None
            if key in windows and held.share is not None:
                window = windows[key]
                known = window.ends[-1] if window is not None and window.ends else 0
                offset = held.share.next_fetch_offset(now_ms)
                held.partition.park_fetch(wait, offset, self._isolation, max_bytes=self._max_bytes, available_bytes=known)
                if window is not None and window.young_ms is not None:
                    ready_ms = window.young_ms + held.share.rules.delivery_delay_ms + ahead_ms
                    due_ms = min(due_ms, max(ready_ms, now_ms + 1))
        self._broker.replicas.timeouts.add(wait, due_ms)

    def _leave(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            self._broker.replicas.timeouts.discard(wait)
            for held in self._held.values():
                held.waiters.pop(wait, None)
                held.partition.unpark_fetch(wait)

    def _remote_read(self) -> None:
        if self._wait is not None:
            self._wait.finish()

    def _woken(self) -> None:
        self._leave()
        asyncio.get_running_loop().call_soon(self._later.attempt, self._try_again)

    def _try_again(self) -> None:
        if not self._is_abandoned:
            self._try()
            self._maybe_complete()

    def _abandon(self) -> None:
        """Stop: the client is gone, so nothing is acquired for it any more."""
        self._is_abandoned = True
        self._leave()
        if self._remote is not None:
            self._remote.cancel()

    # Answering

    def answer(self) -> Later[ShareFetchResponse]:
        self._acknowledging.then(lambda: self._later.attempt(self._acknowledged))
        return self._later

    def _acknowledged(self) -> None:
        self._is_acknowledged = True
        self._maybe_complete()

    def _maybe_complete(self) -> None:
        if self._is_acknowledged and self._results is not None and not self._is_abandoned:
            if self._request.share_session_epoch == FINAL_EPOCH:
                release_session(self._broker, self._member)
            if self._remote is not None:
                self._remote.cancel()
            self._later.complete(self._response(self._results))

    def _response(self, results: Results) -> ShareFetchResponse:
        response = ShareFetchResponse(acquisition_lock_timeout_ms=self._rules.record_lock_duration_ms, responses=[], node_endpoints=[])
        for key, refused_for in self._refused.items():
            code = _FOR_CLIENTS.get(refused_for, refused_for)
            results[key] = _nothing(key)
            results[key].error_code = code
        if self._request.share_session_epoch > INITIAL_EPOCH:
            if self._session.epoch != self._expected_epoch:
                response.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
                results = {}
            results = {key: one for key, one in results.items() if self._must_tell(key, one)}
        for key, refusal in self._acknowledging.results.items():
            _tell_acknowledged(results.setdefault(key, _nothing(key)), refusal)
        topics: dict[UUID, ShareFetchableTopicResponse] = {}
        for key, one in results.items():
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = ShareFetchableTopicResponse(topic_id=key.topic_id, partitions=[])
                response.responses.append(topic)
            topic.partitions.append(one)
            if one.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                self._name_leader(response, key, one)
        return response

    def _must_tell(self, key: SharedKey, one: PartitionData) -> bool:
        return self._session.must_tell(key, has_records=len(one.records) > 0, has_error=one.error_code != ErrorCode.NONE)

    def _name_leader(self, response: ShareFetchResponse, key: SharedKey, one: PartitionData) -> None:
        cluster = self._broker.cluster
        leader = cluster.leader_of(cluster.topic_name(key.topic_id) or "", key.partition, self._context.client.listener)
        one.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        if leader.endpoint is not None and all(node.node_id != leader.leader_id for node in response.node_endpoints):
            response.node_endpoints.append(
                NodeEndpoint(node_id=leader.leader_id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack)
            )


def _nothing(key: SharedKey) -> PartitionData:
    return PartitionData(
        partition_index=key.partition,
        acknowledge_error_code=0,
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=b"",
        acquired_records=[],
    )


def _tell_acknowledged(one: PartitionData, refusal: Refusal) -> None:
    one.acknowledge_error_code = refusal.code
    one.acknowledge_error_message = refusal.message or None


_FOR_CLIENTS: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def _refused(code: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[])


def _refuse_later(broker: Broker, code: ErrorCode, wait_ms: int) -> Later[ShareFetchResponse]:
    """Refuse after a pause, so that a client that cannot have a session does not ask without one."""
    parked = Parked(lambda: later.complete(_refused(code)))
    later: Later[ShareFetchResponse] = Later(lambda: broker.replicas.timeouts.discard(parked))
    broker.replicas.timeouts.add(parked, broker.clock.monotonic_ms() + wait_ms)
    return later
