"""◇ Fetch sessions (KIP-227): a client names its partitions once, and later requests and answers carry only what changed.

    epoch 0       full: all partitions; a session comes to be and its id is answered
    epoch 1, 2 …  incremental: partitions added, changed, forgotten; the answer leaves out what is as it was told last
    epoch -1      full, and the session named is closed

Guarantees: an epoch is served once; a partition whose high watermark, log start or error changed is told exactly once per change;
partitions that had data go to the end of the order, so that a small max_bytes starves nobody.
Source: kafka.server.FetchSession; KIP-227, 516.  Called by `handlers/fetch.py`.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from moldau.types import ZERO_UUID

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
"""A session unused for this long makes room for a new one; one younger than this is not thrown out for a bigger one."""
MAX_EPOCH: Final = (1 << 31) - 1
TOPIC_ID_VERSION: Final = 13

Key: TypeAlias = tuple[str | UUID, int]


class Spot:
    """One partition that a client reads: from where, how much, what it believes; and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, asked: FetchPartition) -> None:
        """`topic` is empty while `topic_id` is not known."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        self.told_high_watermark = -1
        self.told_log_start_offset = -1

    @property
    def key(self) -> Key:
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id), self.partition

    def take(self, newer: "Spot") -> None:
        """What the client asks for now."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset

    def has_news(self, found: PartitionData) -> bool:
        """Whether an incremental answer must carry it; takes note of what is told."""
        news = len(found.records or b"") > 0 or found.preferred_read_replica >= 0 or found.diverging_epoch.epoch >= 0
        if self.told_high_watermark != found.high_watermark:
            self.told_high_watermark = found.high_watermark
            news = True
        if self.told_log_start_offset != found.log_start_offset:
            self.told_log_start_offset = found.log_start_offset
            news = True
        if found.error_code != ErrorCode.NONE:
            self.told_high_watermark = -1  # so that it is told again once the error is gone
            news = True
        return news


class FetchSession:
    """What one client reads; `spots` are in the order in which they are served."""

    __slots__ = ("created_ms", "epoch", "id", "is_privileged", "last_used_ms", "spots", "uses_topic_ids")

    def __init__(self, session_id: int, spots: dict[Key, Spot], *, is_privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id: Final = session_id
        self.spots: Final = spots
        self.is_privileged: Final = is_privileged
        self.uses_topic_ids: Final = uses_topic_ids
        self.created_ms: Final = now_ms
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1


class Answered(NamedTuple):
    error: ErrorCode
    session_id: int
    results: list[tuple[Spot, PartitionData]]


class FetchContext:
    """One request's view of its session."""

    __slots__ = ("_cache", "_epoch", "_is_follower", "_session", "_uses_topic_ids", "error", "spots")

    def __init__(
        self,
        cache: "FetchSessionCache",
        spots: Iterable[Spot],
        *,
        session: FetchSession | None = None,
        wants_session: bool = False,
        uses_topic_ids: bool = False,
        is_follower: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self._cache: Final = cache if wants_session else None
        self._session: Final = session
        self._epoch: Final = session.epoch if session is not None else FINAL_EPOCH
        self._uses_topic_ids: Final = uses_topic_ids
        self._is_follower: Final = is_follower
        self.error: Final = error
        self.spots: Final = spots

    def answer(self, results: list[tuple[Spot, PartitionData]], now_ms: int) -> Answered:
        """What of `results` is told, and under which session.  Errors: INVALID_FETCH_SESSION_EPOCH."""
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                return Answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
            return Answered(ErrorCode.NONE, session.id, self._news(session, results))
        if self._cache is None:
            return Answered(self.error, NO_SESSION, results)
        for spot, found in results:
            spot.told_high_watermark = found.high_watermark
            spot.told_log_start_offset = found.log_start_offset
        session_id = self._cache.create(
            {spot.key: spot for spot, _ in results},
            is_privileged=self._is_follower,
            uses_topic_ids=self._uses_topic_ids,
            now_ms=now_ms,
        )
        return Answered(ErrorCode.NONE, session_id, results)

    @staticmethod
    def _news(session: FetchSession, results: list[tuple[Spot, PartitionData]]) -> list[tuple[Spot, PartitionData]]:
        news = [result for result in results if result[0].has_news(result[1])]
        for spot, found in news:
            if len(found.records or b"") > 0:
                session.spots[spot.key] = session.spots.pop(spot.key)
        return news


class FetchSessionCache:
    """The sessions of one broker, at most `max_sessions`."""

    def __init__(self, max_sessions: int, new_id: Callable[[], int]) -> None:
        """`new_id` gives random numbers between 1 and 2^31-1."""
        self._max_sessions: Final = max_sessions
        self._new_id: Final = new_id
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int, spots: list[Spot], forgotten: Iterable[Key], now_ms: int) -> FetchContext:
        """Errors, in the context: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""
        epoch = request.session_epoch
        uses_topic_ids = version >= TOPIC_ID_VERSION
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return FetchContext(
                self,
                spots,
                wants_session=epoch == INITIAL_EPOCH,
                uses_topic_ids=uses_topic_ids,
                is_follower=is_from_follower(request),
            )
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext(self, (), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext(self, (), error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(self, (), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        for spot in spots:
            known = session.spots.setdefault(spot.key, spot)
            if known is not spot:
                known.take(spot)
        for key in forgotten:
            session.spots.pop(key, None)
        if not session.spots:
            del self._sessions[session.id]
            return FetchContext(self, ())
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        return FetchContext(self, list(session.spots.values()), session=session)

    def create(self, spots: dict[Key, Spot], *, is_privileged: bool, uses_topic_ids: bool, now_ms: int) -> int:
        """The id of a new session, NO_SESSION when there is no room for it."""
        if len(self._sessions) >= self._max_sessions and not self._evict_for(len(spots), is_privileged, now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        self._sessions[session_id] = FetchSession(
            session_id, spots, is_privileged=is_privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        return session_id

    def _evict_for(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Throws out a stale session, or the least valuable that a follower's or a bigger one may replace."""
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: (session.last_used_ms, session.id))
        unused_ms = now_ms - oldest.last_used_ms
        if unused_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        replaceable = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTION_MS or (is_privileged and not session.is_privileged)
        ]
        if not replaceable:
            return False
        least = min(replaceable, key=lambda session: (session.is_privileged, len(session.spots), session.id))
        if (is_privileged, size, 0) < (least.is_privileged, len(least.spots), least.id):
            return False
        del self._sessions[least.id]
        return True


def is_from_follower(request: FetchRequest) -> bool:
    return replica_id_of(request) >= 0


def replica_id_of(request: FetchRequest) -> int:
    """Where the request says so depends on its version (KIP-903); -1 is a consumer."""
    return request.replica_id if request.replica_id != -1 else request.replica_state.replica_id
