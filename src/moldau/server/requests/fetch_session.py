"""◇ Fetch sessions (KIP-227): a client names its partitions once, and later requests and answers carry only changes.

    epoch 0       full: all partitions; a session is created and the answer has its id
    epoch 1, 2 …  incremental: partitions added, changed, forgotten; the answer leaves out unchanged partitions
    epoch -1      full, and the session named is closed

Partitions tell a follower's session of changes (`Watch`), and only changed or newly asked partitions are read.  So a fetch costs as much as
has changed, not as much as is followed.

Guarantees: an epoch is served once; a partition whose high watermark, log start or error changed is told exactly once per change,
and again after an error, a diverging epoch or another leader epoch; partitions that had data go to the end of the order, so that a small
max_bytes starves nobody.
Source: kafka.server.FetchSession; KIP-227, 516.  Called by `handlers/fetch.py`.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from moldau.replication.partition import Partition
from moldau.replication.waits import FetchWait
from moldau.types import ZERO_UUID

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
"""A session unused for this long makes room for a new one; a younger one is not thrown out for a bigger one."""
MAX_EPOCH: Final = (1 << 31) - 1
TOPIC_ID_VERSION: Final = 13

Key: TypeAlias = tuple[str | UUID, int]


class Spot:
    """One partition that a client reads: its offset, size limit and epoch; and the state that it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "is_held",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "session",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
        "topic_id",
        "watched",
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
        self.session: FetchSession | None = None
        """The session of a follower, which is told of changes; None for consumers."""
        self.watched: Partition | None = None
        self.is_held = False
        """For a follower: whether there are more bytes than it may have yet (KIP-73)."""

    # A `Watch`

    @property
    def replica_id(self) -> int:
        assert self.session is not None
        return self.session.replica_id

    @property
    def asked_ms(self) -> int:
        assert self.session is not None
        return self.session.last_used_ms

    def changed(self, *, has_grown: bool) -> None:
        session = self.session
        assert session is not None
        session.dirty[self] = None
        if has_grown and session.parked is not None and not self.is_held:
            session.wake(self)

    def watch(self, partition: Partition | None) -> None:
        """Be told of changes by `partition`, and by no other."""
        if self.watched is not partition:
            if self.watched is not None:
                self.watched.unwatch(self)
            self.watched = partition
            if partition is not None:
                partition.watch(self)

    @property
    def key(self) -> Key:
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id), self.partition

    def take(self, newer: "Spot") -> None:
        """Take the client's newest request.  A client that has come to another leader epoch has ignored what it was told meanwhile."""
        if newer.current_leader_epoch != self.current_leader_epoch:
            self.told_high_watermark = self.told_log_start_offset = -1
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset

    def has_news(self, found: PartitionData) -> bool:
        """Whether an incremental answer must carry the partition.  Notes the told state."""
        before = self.told_high_watermark, self.told_log_start_offset
        self.note_told(found)
        return (
            len(found.records or b"") > 0
            or found.preferred_read_replica >= 0
            or _is_ignored(found)
            or before != (self.told_high_watermark, self.told_log_start_offset)
        )

    def note_told(self, found: PartitionData) -> None:
        """Note what the client knows from this answer."""
        is_ignored = _is_ignored(found)
        self.told_high_watermark = -1 if is_ignored else found.high_watermark
        self.told_log_start_offset = -1 if is_ignored else found.log_start_offset


def _is_ignored(found: PartitionData) -> bool:
    """Whether a client looks at the error or the diverging epoch only: the rest must be told again."""
    return found.error_code != ErrorCode.NONE or found.diverging_epoch.epoch >= 0


class FetchSession:
    """The partitions that one client reads; `spots` are in the order in which they are served."""

    __slots__ = ("created_ms", "dirty", "epoch", "id", "last_used_ms", "parked", "replica_id", "spots", "uses_topic_ids")

    def __init__(self, session_id: int, spots: dict[Key, Spot], *, replica_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id: Final = session_id
        self.spots: Final = spots
        self.replica_id: Final = replica_id
        """The replica's id; -1 for a consumer."""
        self.dirty: Final[dict[Spot, None]] = {}
        """For a follower's session: the partitions to read for the next answer."""
        self.parked: FetchWait | None = None
        self.uses_topic_ids: Final = uses_topic_ids
        self.created_ms: Final = now_ms
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1
        if self.is_privileged:
            for spot in spots.values():
                spot.session = self
                self.dirty[spot] = None

    @property
    def is_privileged(self) -> bool:
        """Whether it is a follower's."""
        return self.replica_id >= 0

    def wake(self, spot: Spot) -> None:
        """Note that there is more to fetch from `spot`."""
        wait = self.parked
        assert wait is not None and spot.watched is not None
        if wait.missing_bytes > 1:
            data = spot.watched.log.read(spot.fetch_offset, spot.max_bytes)
            if not isinstance(data, ErrorCode) and spot.watched.is_leader and data.size < wait.missing_bytes:
                return
        wait.finish()

    def remove(self, key: Key) -> None:
        spot = self.spots.pop(key, None)
        if spot is not None:
            self.dirty.pop(spot, None)
            spot.watch(None)

    def close(self) -> None:
        """Stop the notes of partitions."""
        for spot in self.spots.values():
            spot.watch(None)


class Answered(NamedTuple):
    error: ErrorCode
    session_id: int
    results: list[tuple[Spot, PartitionData]]


class FetchContext:
    """One request's view of its session."""

    __slots__ = ("_cache", "_epoch", "_replica_id", "_session", "_spots", "_uses_topic_ids", "error")

    def __init__(
        self,
        cache: "FetchSessionCache",
        spots: Iterable[Spot],
        *,
        session: FetchSession | None = None,
        wants_session: bool = False,
        uses_topic_ids: bool = False,
        replica_id: int = -1,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self._cache: Final = cache if wants_session else None
        self._session: Final = session
        self._epoch: Final = session.epoch if session is not None else FINAL_EPOCH
        self._uses_topic_ids: Final = uses_topic_ids
        self._replica_id: Final = replica_id
        self.error: Final = error
        self._spots: Final = spots

    @property
    def follower_session(self) -> FetchSession | None:
        """The follower's session, if the request goes on with one: it is told of changes."""
        session = self._session
        return session if session is not None and session.is_privileged else None

    @property
    def spots(self) -> Iterable[Spot]:
        """The partitions to read now."""
        session = self.follower_session
        return self._spots if session is None else list(session.dirty)

    def answer(self, results: list[tuple[Spot, PartitionData]], now_ms: int) -> Answered:
        """The partitions of `results` to answer with, and the session's id.  Errors: INVALID_FETCH_SESSION_EPOCH."""
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                return Answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
            return Answered(ErrorCode.NONE, session.id, self._news(session, results))
        if self._cache is None:
            return Answered(self.error, NO_SESSION, results)
        for spot, found in results:
            spot.note_told(found)
        session_id = self._cache.create(
            {spot.key: spot for spot, _ in results},
            replica_id=self._replica_id,
            uses_topic_ids=self._uses_topic_ids,
            now_ms=now_ms,
        )
        return Answered(ErrorCode.NONE, session_id, results)

    @staticmethod
    def _news(session: FetchSession, results: list[tuple[Spot, PartitionData]]) -> list[tuple[Spot, PartitionData]]:
        news = [result for result in results if result[0].has_news(result[1])]
        if session.is_privileged:
            for spot, found in results:
                if not _is_to_be_looked_at_again(spot, found):
                    session.dirty.pop(spot, None)
                elif found.records:
                    session.dirty[spot] = session.dirty.pop(spot, None)
            return news
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
        """The view of one request.

        Errors, in the context: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        epoch = request.session_epoch
        uses_topic_ids = version >= TOPIC_ID_VERSION
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.drop(request.session_id)
            return FetchContext(
                self,
                spots,
                wants_session=epoch == INITIAL_EPOCH,
                uses_topic_ids=uses_topic_ids,
                replica_id=replica_id_of(request),
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
            if session.is_privileged:
                known.session = session
                session.dirty[known] = None
        for key in forgotten:
            session.remove(key)
        if not session.spots:
            self.drop(session.id)
            return FetchContext(self, ())
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        return FetchContext(self, () if session.is_privileged else list(session.spots.values()), session=session)

    def drop(self, session_id: int) -> None:
        """Drop a session: a later request for it is answered that there is none."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def create(self, spots: dict[Key, Spot], *, replica_id: int, uses_topic_ids: bool, now_ms: int) -> int:
        """The id of a new session, NO_SESSION when there is no room for it."""
        if len(self._sessions) >= self._max_sessions and not self._evict_for(len(spots), replica_id >= 0, now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        self._sessions[session_id] = FetchSession(session_id, spots, replica_id=replica_id, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        return session_id

    def _evict_for(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Throw out a stale session, or the least valuable one that a follower's or a bigger one may replace."""
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: (session.last_used_ms, session.id))
        unused_ms = now_ms - oldest.last_used_ms
        if unused_ms > EVICTION_MS:
            self.drop(oldest.id)
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
        self.drop(least.id)
        return True


def _is_to_be_looked_at_again(spot: Spot, found: PartitionData) -> bool:
    """Whether a partition is to be read again, even without a change.

    An error may be gone, there may be more bytes than were given, and a follower that is not in sync may join.
    """
    partition = spot.watched
    if partition is None or _is_ignored(found) or spot.replica_id not in partition.isr:
        return True
    return spot.fetch_offset < partition.log.log_end_offset or spot.told_high_watermark != partition.log.high_watermark


def is_from_follower(request: FetchRequest) -> bool:
    return replica_id_of(request) >= 0


def replica_id_of(request: FetchRequest) -> int:
    """The replica id of a request; its place depends on the version (KIP-903).  -1 is a consumer."""
    return request.replica_id if request.replica_id != -1 else request.replica_state.replica_id
