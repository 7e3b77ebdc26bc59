"""◇ The replicas of this broker that follow one leader: the next request to the leader, and which of its answers count.

    fetching     is asked for
    truncating   other requests look for its end (out of the leader's range, or in remote storage only): it is not asked for
    delayed      its last answer was a refusal, or it is throttled (KIP-73): it is not asked for until some time has passed

        ┌─ records · a diverging epoch (KIP-595): truncated ─┐
        ▼                                                    │
    fetching ─────────────────── answer ─────────────────────┤
        ▲                                                    ├─ OFFSET_OUT_OF_RANGE, OFFSET_MOVED_TO_TIERED_STORAGE ─▶ truncating
        └────────── delayed ◀── any other error, too fast ───┤
                                                             └─ FENCED_LEADER_EPOCH, a failed disk ─▶ dropped

A dropped partition is asked for again when its metadata changes.

A session (KIP-227) keeps requests short: after a full request only changed and dropped partitions are named.  So a request costs as much as
has changed, not as much as is followed.

A fetch from an offset says that everything below is stored here.  With the flush policy `ack` that means stable storage, so `fetcher.py`
syncs its appends before it asks again.
Source: AbstractFetcherThread, ReplicaFetcherThread, FetchSessionHandler; KIP-101, 227, 279, 320, 516, 595, 903.  Called by `fetcher.py`.
"""

import heapq
from collections.abc import Iterator
from enum import Enum
from itertools import count
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from moldau.replication.catch_up import Verdict
from moldau.replication.config import ReplicationConfig
from moldau.replication.partition import Partition
from moldau.replication.throttle import Throttle
from moldau.types import NO_OFFSET

NO_SESSION: Final = 0
FULL: Final = 0
"""The epoch of a request that names every partition, and asks for a session."""
MAX_EPOCH: Final = (1 << 31) - 1
SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
FIRST_BACKOFF_MS: Final = 20
"""A leader that was elected a moment ago may hear of it a moment later than its followers."""

Key: TypeAlias = tuple[UUID, int]


class Stage(Enum):
    """The state of a followed partition."""

    FETCHING = "fetching"
    TRUNCATING = "truncating"
    DELAYED = "delayed"


class Question(NamedTuple):
    """The last question to the leader about one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int


class Followed:
    """One partition that follows a leader under one leader epoch."""

    __slots__ = ("failures", "leader_epoch", "noted_start_offset", "partition", "stage")

    def __init__(self, partition: Partition) -> None:
        self.partition: Final = partition
        self.leader_epoch: Final = partition.leader_epoch
        self.stage = Stage.FETCHING
        self.failures = 0
        """The number of failures in a row."""
        self.noted_start_offset = NO_OFFSET if partition.log.log_start_offset else 0
        """The start offset of its log, also after a crash.  The leader answers DeleteRecords by it.  -1 until that is known."""

    def __repr__(self) -> str:
        return f"{self.partition.topic_partition} ({self.stage.value}, epoch {self.leader_epoch})"

    @property
    def key(self) -> Key:
        return self.partition.topic_id, self.partition.topic_partition.partition

    @property
    def is_flushed(self) -> bool:
        """Whether no flush has to end before the leader is asked again.  The end that is told says that all before it is stored here."""
        log = self.partition.log
        return log.is_flushed or log.config.flush_policy != "ack" or log.failure is not None

    @property
    def may_ask(self) -> bool:
        """Whether the leader may be asked.  After a failed sync nobody knows what is stored, so the log's end is not told."""
        return self.stage is Stage.FETCHING and self.partition.log.failure is None

    @property
    def is_start_noted(self) -> bool:
        return self.noted_start_offset == self.partition.log.log_start_offset

    @property
    def is_current(self) -> bool:
        """Whether the metadata still says that it follows this leader in this epoch."""
        partition = self.partition
        return partition.leader_epoch == self.leader_epoch and not partition.is_leader

    def question(self) -> Question:
        log = self.partition.log
        return Question(self.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, self.noted_start_offset)


class Follower:
    """See the module: one for each leader."""

    def __init__(self, *, local_id: int, config: ReplicationConfig, throttle: Throttle | None = None) -> None:
        self._local_id: Final = local_id
        self._config: Final = config
        self._throttle: Final = throttle
        self._held_until_ms: int | None = None
        self._followed: dict[Key, Followed] = {}
        self._asked: dict[Key, Question] = {}
        """The questions that the session knows."""
        self._changed: dict[Key, None] = {}
        """The partitions whose question may have changed."""
        self._fetching = 0
        self._delays: list[tuple[int, int, Followed]] = []
        self._number: Final = count()
        self._session_id = NO_SESSION
        self._session_epoch = FULL
        self._is_full = True
        """Whether the request under way names every partition."""

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[Followed]:
        return iter(list(self._followed.values()))

    # Which partitions

    def add(self, partition: Partition) -> Followed:
        """Follow this leader with a partition from now on, under its present leader epoch."""
        followed = Followed(partition)
        self.remove(partition)
        self._followed[followed.key] = followed
        self._fetching += 1
        self._changed[followed.key] = None
        return followed

    def remove(self, partition: Partition) -> Followed | None:
        """Follow it no longer."""
        followed = self._followed.pop((partition.topic_id, partition.topic_partition.partition), None)
        if followed is not None:
            self._enter(followed, Stage.TRUNCATING)
        return followed

    def get(self, partition: Partition) -> Followed | None:
        return self._followed.get((partition.topic_id, partition.topic_partition.partition))

    def changed(self, followed: Followed) -> None:
        """Note that the next question about a partition may differ."""
        self._changed[followed.key] = None

    # Asking

    def next_due_ms(self) -> int | None:
        """The time at which a delayed partition is to be asked for again."""
        return self._delays[0][0] if self._delays else None

    def next_request(self, now_ms: int, broker_epoch: int) -> FetchRequest | None:
        """The next request; None while there is nothing to ask for."""
        while self._delays and self._delays[0][0] <= now_ms:
            followed = heapq.heappop(self._delays)[2]
            if followed.stage is Stage.DELAYED and self._followed.get(followed.key) is followed:
                self._enter(followed, Stage.FETCHING)
        self._hold_back(now_ms)
        if not self._fetching:
            return None
        config = self._config
        due_ms = self.next_due_ms()
        self._is_full = self._session_epoch == FULL
        if self._is_full:
            self._asked.clear()
            self._changed = dict.fromkeys(self._followed)
        topics, forgotten = self._news()
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._local_id, replica_epoch=broker_epoch),
            max_wait_ms=config.fetch_wait_max_ms if due_ms is None else min(config.fetch_wait_max_ms, max(1, due_ms - now_ms)),
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def _hold_back(self, now_ms: int) -> None:
        """Hold back throttled partitions that are not in sync, if more bytes have come than allowed."""
        throttle = self._throttle
        if throttle is None or throttle.pace.left(now_ms) > 0 or (self._held_until_ms is not None and now_ms < self._held_until_ms):
            return
        due_ms = self._held_until_ms = throttle.pace.due_ms(now_ms)
        for followed in self._followed.values():
            if followed.stage is Stage.FETCHING and self._local_id not in followed.partition.isr and throttle.counts(followed.partition):
                self._delay(followed, due_ms)

    def _delay(self, followed: Followed, due_ms: int) -> None:
        self._enter(followed, Stage.DELAYED)
        heapq.heappush(self._delays, (due_ms, next(self._number), followed))

    def _news(self) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        topics: dict[UUID, FetchTopic] = {}
        forgotten: dict[UUID, ForgottenTopic] = {}
        for key in self._changed:
            topic_id, index = key
            followed = self._followed.get(key)
            if followed is None or not followed.may_ask:
                if self._asked.pop(key, None) is not None:
                    forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
                continue
            question = followed.question()
            if self._asked.get(key) == question:
                continue
            self._asked[key] = question
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic=followed.partition.topic_partition.topic, topic_id=topic_id, partitions=[])
            topic.partitions.append(self._asking(index, question))
        self._changed = {}
        return list(topics.values()), list(forgotten.values())

    def _asking(self, index: int, question: Question) -> FetchPartition:
        return FetchPartition(
            partition=index,
            current_leader_epoch=question.leader_epoch,
            fetch_offset=question.offset,
            last_fetched_epoch=question.last_epoch,
            log_start_offset=question.log_start_offset,
            partition_max_bytes=self._config.fetch_max_bytes,
        )

    # Answers

    def lost(self) -> None:
        """Note that the connection is gone or its answers make no sense: the next request opens another session, and closes this one."""
        self._session_epoch = FULL

    def answers(self, response: FetchResponse) -> Iterator[tuple[Followed, PartitionData]]:
        """The answers for the partitions whose question still holds.  Each is to be settled before the next one is taken.

        Errors: KafkaError, of the request as a whole.
        """
        if response.error_code:
            was_full = self._is_full
            self.lost()
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            if was_full or code not in SESSION_ERRORS:
                raise KafkaError(code, "the leader refuses to be fetched from")
            return
        self._go_on_with(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                followed = self._followed.get(key)
                if followed is None or followed.stage is not Stage.FETCHING or not followed.is_current:
                    continue
                asked, end_offset = self._asked.get(key), followed.partition.log.log_end_offset
                if asked is not None and (asked.leader_epoch, asked.offset) == (followed.leader_epoch, end_offset):
                    yield followed, data

    def _go_on_with(self, session_id: int) -> None:
        self._session_id = session_id
        if session_id == NO_SESSION:
            self._session_epoch = FULL
        else:
            self._session_epoch = 1 if self._session_epoch == MAX_EPOCH else self._session_epoch + 1

    def settle(self, followed: Followed, verdict: Verdict, now_ms: int, *, byte_count: int = 0) -> None:
        """Note the effect of an answer, which brought `byte_count` bytes of records."""
        if byte_count and self._throttle is not None and self._throttle.counts(followed.partition):
            self._throttle.pace.took(byte_count, now_ms)
        if self._followed.get(followed.key) is not followed:
            return
        match verdict:
            case Verdict.NOTHING:
                followed.failures = 0
            case Verdict.TAKEN:
                followed.failures = 0
                self._enter(followed, Stage.FETCHING)
            case Verdict.OUT_OF_RANGE | Verdict.IN_REMOTE_STORAGE:
                self._enter(followed, Stage.TRUNCATING)
            case Verdict.REFUSED:
                delay_ms = min(self._config.fetch_backoff_ms, FIRST_BACKOFF_MS << min(followed.failures, 16))
                followed.failures += 1
                self._delay(followed, now_ms + delay_ms)
            case Verdict.DROPPED:
                self.remove(followed.partition)

    def _enter(self, followed: Followed, stage: Stage) -> None:
        self._fetching += (stage is Stage.FETCHING) - (followed.stage is Stage.FETCHING)
        followed.stage = stage
        self._changed[followed.key] = None
