"""● Fetch: read record batches, now or as soon as there are enough.

Versions       4-18.
Authorises     READ on each topic; CLUSTER_ACTION for followers.
Behaviour      Partitions are read in the session's order until max_bytes is used up; the first batch of the first partition that has any
               comes whole however large it is.  With fewer than min_bytes the request is parked on its partitions and answered when one
               grows enough or after max_wait_ms.  Records leave as slices of files.  The fetch waits for records in remote storage only
               (KIP-405), remote.fetch.max.wait.ms at most; late ones come with the next fetch.  A follower that is not in sync gets
               throttled partitions as fast as leader.replication.throttled.rate allows (KIP-73); they do not wake its fetch before.
Version notes  7+ sessions (KIP-227); 11+ may read from followers, and is sent to one in the consumer's rack (KIP-392); 12+ tells a
               diverging epoch (KIP-595); 13+ names topics by id (KIP-516); 16+ names the new leader, and for consumers its address
               (KIP-951).
Errors         OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, NOT_LEADER_OR_FOLLOWER,
               FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR, OFFSET_MOVED_TO_TIERED_STORAGE for a follower,
               FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_REQUEST (an isolation level
               that is neither 0 nor 1).
Differs from Kafka: an unknown isolation level is refused with INVALID_REQUEST, by Kafka with UNKNOWN_SERVER_ERROR.  Negative sizes count as
               0, and a session id of 2^31-1 as any other that is not known; Kafka fails at both.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from moldau.replication.config import RACK_AWARE, ReplicationConfig
from moldau.replication.partition import Isolation, Partition, refused_partition
from moldau.replication.selector import preferred_replica
from moldau.replication.waits import FetchWait
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import Client, RequestContext
from moldau.server.requests.fetch_session import FetchContext, Key, Spot, is_from_follower, replica_id_of
from moldau.server.requests.registry import handles
from moldau.server.tier.fetch import read_remote
from moldau.server.tier.manager import RemoteLogManager
from moldau.types import NO_EPOCH, ZERO_UUID

READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
FOLLOWER_FETCHING_VERSION: Final = 11
TOPIC_ID_VERSION: Final = 13
CURRENT_LEADER_VERSION: Final = 16
STORAGE_ERROR_VERSION: Final = 6
UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Wanted(NamedTuple):
    """The parameters of one fetch, apart from its partitions."""

    version: int
    replica_id: int
    broker_epoch: int
    """The broker epoch of the follower that asks (KIP-903); -1 when it does not say."""
    min_bytes: int
    max_bytes: int
    isolation: Isolation
    from_leader_only: bool
    client: Client
    rack: str
    """The rack of a consumer that may read from a replica nearby; empty if that is not wanted."""

    @property
    def listener(self) -> str:
        return self.client.listener


class Found(NamedTuple):
    """The result of one reading of all partitions."""

    results: list[tuple[Spot, PartitionData]]
    byte_count: int
    is_final: bool
    """Whether something was found that the client must learn at once: an error, a diverging epoch."""
    is_remote: bool = False
    """Whether records that a consumer asked for are in remote storage only."""
    is_held: bool = False
    """Whether there are more bytes than a follower may have yet."""


# hot: 20 µs a request of one partition with data
@handles(FetchRequest, listeners=("broker",))
def fetch(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> FetchResponse | Later[FetchResponse] | Awaitable[FetchResponse]:
    version = context.header.api_version
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"isolation_level={request.isolation_level} is neither 0 nor 1")
    session = broker.fetch_sessions.context(
        request, version, _spots_of(broker, request, version), _forgotten(request), broker.clock.monotonic_ms()
    )
    if session.error:
        return FetchResponse(error_code=session.error, responses=[])
    wanted = _wanted(broker, context, request)
    found = _read(broker, session.spots, wanted, is_first=True)
    if found.is_remote and broker.remote is not None:
        return _fetch_remote(broker, broker.remote, session, found, wanted)
    may_wait = request.max_wait_ms > 0 and not broker.replicas.has_resigned
    is_empty = not found.results and session.follower_session is None
    if not may_wait or is_empty or found.byte_count >= wanted.min_bytes or found.is_final:
        return _response(broker, session, found.results, wanted)
    return _park(broker, session, found, wanted, request.max_wait_ms)


def _wanted(broker: Broker, context: RequestContext, request: FetchRequest) -> Wanted:
    replica_id = replica_id_of(request)
    if is_from_follower(request):
        isolation = Isolation.LOG_END
    else:
        isolation = Isolation.COMMITTED_TRANSACTIONS if request.isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK
    max_bytes = min(request.max_bytes, broker.config.server.fetch_max_bytes)
    return Wanted(
        context.header.api_version,
        replica_id,
        request.replica_state.replica_epoch,
        min(request.min_bytes, max_bytes),
        max_bytes,
        isolation,
        replica_id >= 0 or context.header.api_version < FOLLOWER_FETCHING_VERSION,
        context.client,
        request.rack_id if replica_id < 0 and broker.config.of(ReplicationConfig).selector_class == RACK_AWARE else "",
    )


def _spots_of(broker: Broker, request: FetchRequest, version: int) -> list[Spot]:
    """The partitions to read.  Of a partition that is named twice, the last entry counts."""
    spots: dict[Key, Spot] = {}
    for topic in request.topics:
        name = topic.topic if version < TOPIC_ID_VERSION else broker.cluster.topic_name(topic.topic_id) or ""
        for asked in topic.partitions:
            spot = Spot(name, topic.topic_id, asked)
            spots[spot.key] = spot
    return list(spots.values())


def _forgotten(request: FetchRequest) -> Iterable[Key]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic if topic.topic_id == ZERO_UUID else topic.topic_id), partition


def _read(broker: Broker, spots: Iterable[Spot], wanted: Wanted, *, is_first: bool = False) -> Found:
    """Read all partitions.  `is_first`: the request was not woken later, so its offsets are news of a follower."""
    results: list[tuple[Spot, PartitionData]] = []
    left, byte_count, is_final, is_remote, is_held = wanted.max_bytes, 0, False, False, False
    hosted, throttle = broker.replicas.hosted, broker.replicas.throttles.leader
    throttled_left = throttle.pace.left(broker.clock.monotonic_ms()) if wanted.replica_id >= 0 else 0.0
    for spot in spots:
        partition = hosted.get((spot.topic, spot.partition))
        if spot.session is not None:
            spot.watch(partition)
        refusal = _refusal(broker, spot, partition, wanted)
        if partition is None or refusal:
            # Kafka's answers differ likewise: an empty list for a missing partition, null for one that may not be read.
            results.append((spot, refused_partition(spot.partition, refusal, aborted=[] if refusal in UNKNOWN else None)))
            is_final = True
            continue
        preferred = _preferred_replica(broker, partition, spot, wanted) if wanted.rack else None
        if preferred is not None:
            results.append((spot, partition.elsewhere(preferred)))
            is_final = True
            continue
        max_bytes, is_throttled = min(spot.max_bytes, left), wanted.replica_id >= 0 and throttle.counts(partition)
        spot.is_held = is_throttled and throttled_left <= 0 and wanted.replica_id not in partition.isr
        is_held |= spot.is_held
        found = partition.read(
            spot.fetch_offset,
            0 if spot.is_held else max_bytes,
            wanted.isolation,
            min_one_batch=not byte_count and not spot.is_held,
            last_fetched_epoch=spot.last_fetched_epoch,
        )
        size = len(found.records or b"")
        byte_count += size
        left = max(0, left - size)
        if is_throttled:
            throttled_left -= size
        if found.error_code or found.diverging_epoch.epoch >= 0:
            is_final = True
            is_remote |= found.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and wanted.replica_id < 0
        elif wanted.replica_id >= 0 and is_first:
            _note_follower(broker, partition, spot, wanted)
            found.high_watermark = partition.log.high_watermark
        results.append((spot, found))
    return Found(results, byte_count, is_final, is_remote, is_held)


def _refusal(broker: Broker, spot: Spot, partition: Partition | None, wanted: Wanted) -> ErrorCode:
    if partition is None:
        if not spot.topic and wanted.version >= TOPIC_ID_VERSION:
            name = broker.cluster.topic_name(spot.topic_id)  # the topic may have been created since the session named it
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            spot.topic = name
        return broker.refusal_of_absent(spot.topic, spot.partition)
    if spot.topic_id not in (ZERO_UUID, partition.topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    believed_epoch = max(spot.current_leader_epoch, NO_EPOCH)  # here, unlike elsewhere, any value below 0 means unknown
    refusal = partition.refusal_of(believed_epoch, from_leader_only=wanted.from_leader_only)
    if wanted.replica_id >= 0 and not refusal and partition.is_stale(wanted.replica_id, wanted.broker_epoch):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if wanted.replica_id >= 0 and not refusal and wanted.replica_id not in partition.followers:
        # A follower that names this epoch knows of a reassignment that has not arrived here yet: it shall ask again.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if believed_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
    return refusal


def _preferred_replica(broker: Broker, partition: Partition, spot: Spot, wanted: Wanted) -> int | None:
    if not partition.is_leader:
        return None
    brokers = broker.loader.image.brokers

    def rack_of(broker_id: int) -> str | None:
        found = brokers.get(broker_id)
        return None if found is None or found.fenced else found.rack

    return preferred_replica(partition, spot.fetch_offset, wanted.rack, rack_of, broker.clock.monotonic_ms())


def _note_follower(broker: Broker, partition: Partition, spot: Spot, wanted: Wanted) -> None:
    partition.follower_fetched(
        wanted.replica_id,
        offset=spot.fetch_offset,
        log_start_offset=spot.log_start_offset,
        broker_epoch=wanted.broker_epoch,
        now_ms=broker.clock.monotonic_ms(),
    )


def _park(broker: Broker, session: FetchContext, found: Found, wanted: Wanted, max_wait_ms: int) -> Later[FetchResponse]:
    """Park a request until any of its partitions grows.  Everything that came in the same turn of the loop is read together."""
    timeouts = broker.replicas.timeouts
    followers = session.follower_session
    parked_on = [
        (partition, spot, answer)
        for spot, answer in found.results
        if followers is None and not spot.is_held and (partition := broker.replicas.hosted.get((spot.topic, spot.partition))) is not None
    ]
    loop = asyncio.get_running_loop()
    reading: asyncio.Task[FetchResponse] | None = None

    def leave() -> None:
        timeouts.discard(wait)
        broker.replicas.followers_parked.pop(wait, None)
        for partition, _, _ in parked_on:
            partition.unpark_fetch(wait)
        if followers is not None and followers.parked is wait:
            followers.parked = None
        if reading is not None:
            reading.cancel()

    def woken() -> None:
        leave()
        loop.call_soon(later.attempt, answer_now)

    def answer_now() -> None:
        nonlocal reading
        found = _read(broker, session.spots, wanted)
        if found.is_remote and broker.remote is not None:  # new since the request was parked
            reading = loop.create_task(_fetch_remote(broker, broker.remote, session, found, wanted))
            reading.add_done_callback(answer_read)
        else:
            later.complete(_response(broker, session, found.results, wanted))

    def answer_read(read: "asyncio.Task[FetchResponse]") -> None:
        if not read.cancelled():
            later.attempt(lambda: later.complete(read.result()))

    wait = FetchWait(wanted.min_bytes - found.byte_count, woken)
    later: Later[FetchResponse] = Later(leave)
    now_ms = broker.clock.monotonic_ms()
    if wanted.replica_id >= 0:
        max_wait_ms = broker.replicas.follower_wait_ms(max_wait_ms, now_ms)
        if found.is_held:
            max_wait_ms = min(max_wait_ms, broker.replicas.throttles.leader.pace.due_ms(now_ms) - now_ms)
        broker.replicas.followers_parked[wait] = None
    timeouts.add(wait, now_ms + max_wait_ms)
    if followers is not None:
        followers.parked = wait
    for partition, spot, answer in parked_on:
        partition.park_fetch(
            wait, spot.fetch_offset, wanted.isolation, max_bytes=spot.max_bytes, available_bytes=len(answer.records or b"")
        )
    return later


async def _fetch_remote(broker: Broker, manager: RemoteLogManager, session: FetchContext, found: Found, wanted: Wanted) -> FetchResponse:
    """Read remote records beside the loop, remote.fetch.max.wait.ms at most.  Local records are there already."""
    left = wanted.max_bytes - found.byte_count
    results = await read_remote(broker, manager, found.results, left, wanted.isolation, is_first=not found.byte_count)
    return _response(broker, session, results, wanted)


def _response(broker: Broker, session: FetchContext, results: list[tuple[Spot, PartitionData]], wanted: Wanted) -> FetchResponse:
    now_ms = broker.clock.monotonic_ms()
    answered = session.answer(results, now_ms)
    if wanted.replica_id >= 0:
        _count_throttled(broker, results, now_ms)
    if wanted.replica_id >= 0 and answered.session_id:
        # A follower that comes back opens another session, and partitions must not keep this one for ever.
        wanted.client.on_closed["fetch session"] = partial(broker.fetch_sessions.drop, answered.session_id)
    topics: list[FetchableTopicResponse] = []
    nodes: dict[int, NodeEndpoint] = {}
    last: tuple[str, object] | None = None
    for spot, found in answered.results:
        if found.error_code:
            _explain(broker, spot, found, wanted, nodes)
        if last != (spot.topic, spot.topic_id):
            last = spot.topic, spot.topic_id
            topics.append(FetchableTopicResponse(topic=spot.topic, topic_id=spot.topic_id, partitions=[]))
        topics[-1].partitions.append(found)
    return FetchResponse(error_code=answered.error, session_id=answered.session_id, responses=topics, node_endpoints=list(nodes.values()))


def _count_throttled(broker: Broker, results: list[tuple[Spot, PartitionData]], now_ms: int) -> None:
    throttle = broker.replicas.throttles.leader
    if throttle.pace.is_limited:
        for spot, found in results:
            partition = broker.replicas.hosted.get((spot.topic, spot.partition)) if found.records else None
            if partition is not None and throttle.counts(partition):
                throttle.pace.took(len(found.records or b""), now_ms)


def _explain(broker: Broker, spot: Spot, found: PartitionData, wanted: Wanted, nodes: dict[int, NodeEndpoint]) -> None:
    """Put an error into the words that the client's version knows."""
    if found.error_code == ErrorCode.KAFKA_STORAGE_ERROR and wanted.version < STORAGE_ERROR_VERSION:
        found.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if wanted.version >= CURRENT_LEADER_VERSION and found.error_code in LEADER_ERRORS:
        leader = broker.cluster.leader_of(spot.topic, spot.partition, wanted.listener)
        found.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        if leader.endpoint is not None and wanted.replica_id < 0:
            nodes[leader.leader_id] = NodeEndpoint(
                node_id=leader.leader_id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack
            )
