"""◇ One partition on this broker: may it serve, how far may each reader see, when is a produce acknowledged.

A `Partition` ties the log (storage) to what the metadata says about it (leader, epochs, in-sync replicas) and to those who wait on it.
State from metadata changes in `lead`, `follow` and `retire` only, called by `manager.py` when a delta is applied.

    append ─▶ log end offset ─▶ high watermark (all in sync) ─▶ acknowledged offset (and on stable storage, flush policy `ack`)
                  replicas          readers                        acks=all, coordinators

Guarantees: the high watermark never goes back while this replica leads; an acks=all produce is settled exactly once; a partition that no
longer leads settles all who wait with NOT_LEADER_OR_FOLLOWER and wakes its readers.
Source: kafka.cluster.Partition; KIP-101, 207, 320, 392, 966.
"""

from collections import deque
from collections.abc import Callable, Collection
from enum import Enum
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData
from moldau.replication.isr import FollowerState, effective_min_insync, high_watermark_of, may_join, out_of_sync
from moldau.replication.waits import Acknowledged, FetchWait, ProduceWait
from moldau.storage.epochs import UNKNOWN_END
from moldau.storage.log import AppendResult, Log
from moldau.storage.producer_state import AppendOrigin, VerificationGuard
from moldau.storage.validator import AppendFailure, Examined, Unexamined
from moldau.types import INTERNAL_TOPICS, NO_LEADER, Records, TopicPartition

ALL_IN_SYNC: Final = -1
"""acks of a produce that waits for every in-sync replica."""
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class Isolation(Enum):
    """How far a reader sees."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    COMMITTED_TRANSACTIONS = "last stable offset"


class Partition:
    """See the module."""

    __slots__ = (
        "_acknowledgements",
        "_fetchers",
        "_is_ack_flushed",
        "_local_id",
        "_on_flush_wanted",
        "before_append",
        "eligible",
        "followers",
        "has_caught_up",
        "is_internal",
        "isr",
        "lag_time_max_ms",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
        "maximal_isr",
        "partition_epoch",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        log: Log,
        *,
        local_id: int,
        lag_time_max_ms: int,
        on_flush_wanted: Callable[[Log], None],
    ) -> None:
        """`on_flush_wanted` is told when someone waits for what is not on stable storage yet; `flushed` answers it."""
        self.topic_partition: Final = topic_partition
        self.topic_id: Final = topic_id
        self.is_internal: Final = topic_partition.topic in INTERNAL_TOPICS
        self.log: Final = log
        self.lag_time_max_ms: Final = lag_time_max_ms
        self._local_id: Final = local_id
        self._on_flush_wanted: Final = on_flush_wanted
        self._is_ack_flushed: Final = log.config.flush_policy == "ack"
        self.before_append: Callable[[], object] | None = None
        """Called before anything is appended here: a coordinator may have given out the next offsets already."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.leader_epoch_start_offset = NO_OFFSET
        self.has_caught_up = False
        """As follower: whether it has had, once, all that was committed where this leader leads."""
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.eligible: Collection[int] = ()
        self.followers: dict[int, FollowerState] = {}
        self._acknowledgements: deque[tuple[int, ProduceWait, Acknowledged]] = deque()
        self._fetchers: dict[FetchWait, tuple[int, Isolation, int, int]] = {}

    def __repr__(self) -> str:
        return f"Partition({self.topic_partition}, leader={self.leader_id}, epoch={self.leader_epoch}, isr={self.isr})"

    # What the metadata says

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._local_id

    def lead(
        self,
        *,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        eligible: Collection[int],
        now_ms: int,
    ) -> None:
        """This replica leads, or goes on leading with other replicas or another in-sync set."""
        if leader_epoch != self.leader_epoch or not self.is_leader:
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.log.epochs.begin(leader_epoch, self.log.log_end_offset)
            self.followers = {}
        self.leader_id = self._local_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = self.maximal_isr = isr
        self.eligible = eligible
        for broker_id in replicas:
            if broker_id != self._local_id and broker_id not in self.followers:
                self.followers[broker_id] = FollowerState(last_caught_up_ms=now_ms if broker_id in isr else 0)
        for broker_id in [each for each in self.followers if each not in replicas]:
            del self.followers[broker_id]
        self.advance_high_watermark(now_ms)

    def follow(self, *, leader_id: int, leader_epoch: int, partition_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        """Another replica leads, or nobody does."""
        assert leader_id != self._local_id, self
        if leader_epoch != self.leader_epoch:
            self.has_caught_up = False
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = self.maximal_isr = isr
        self.followers = {}
        self._step_down()

    def caught_up(self) -> None:
        """As follower: it has all that its leader said is committed.  The replica fetcher tells."""
        if not self.has_caught_up:
            self.has_caught_up = True
            for fetcher in list(self._fetchers):
                fetcher.finish()

    def resign(self) -> None:
        """This broker is about to stop."""
        self.leader_id = NO_LEADER
        self._step_down()

    def retire(self) -> None:
        """The partition is deleted, or moved away from this broker."""
        self.leader_id = NO_LEADER
        self._release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def refusal_of(self, current_leader_epoch: int, *, from_leader_only: bool) -> ErrorCode:
        """Why a request that believes in `current_leader_epoch` (below 0: says nothing) is not served; NONE when it is.

        Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        if from_leader_only and self.leader_id != self._local_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    # Appending and its acknowledgement

    @property
    def min_insync(self) -> int:
        return effective_min_insync(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def acknowledged_offset(self) -> int:
        """Everything below it can no longer be lost (exclusive): what acks=all and the coordinators wait for."""
        high_watermark = self.log.high_watermark
        return min(high_watermark, self.log.recovery_point) if self._is_ack_flushed else high_watermark

    # hot: 18 µs a batch beside the write
    def append_from_client(
        self,
        records: memoryview | bytearray,
        *,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
        examined: Examined | None = None,
    ) -> AppendResult | AppendFailure | Unexamined:
        """See `Log.append_from_client`.  Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and the log's own."""
        refusal = self._refusal_of_append(acks)
        if refusal is not None:
            return refusal
        result = self.log.append_from_client(records, leader_epoch=self.leader_epoch, now_ms=now_ms, guard=guard, examined=examined)
        if isinstance(result, AppendResult):
            self.advance_high_watermark(now_ms)
        return result

    def append(
        self,
        records: memoryview | bytearray,
        *,
        acks: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | AppendFailure:
        """What the broker itself writes.  Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and those of `Log.append_as_leader`."""
        refusal = self._refusal_of_append(acks)
        if refusal is not None:
            return refusal
        result = self.log.append_as_leader(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin, guard=guard, transaction_version=transaction_version
        )
        if isinstance(result, AppendResult):
            self.advance_high_watermark(now_ms)
        return result

    def _refusal_of_append(self, acks: int) -> AppendFailure | None:
        if self.before_append is not None:
            self.before_append()
        if self.leader_id != self._local_id:
            return AppendFailure(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Leader not local for partition {self.topic_partition}")
        if acks == ALL_IN_SYNC and len(self.isr) < self.min_insync:
            return AppendFailure(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the min.isr requirement of {self.min_insync} "
                f"for partition {self.topic_partition}",
            )
        return None

    def await_acknowledgement(self, end_offset: int, wait: ProduceWait, slot: Acknowledged) -> bool:
        """True when everything below `end_offset` is acknowledged already; else `wait` is settled for `slot` later."""
        if end_offset <= self.acknowledged_offset:
            return True
        wait.expect(slot)
        self._acknowledgements.append((end_offset, wait, slot))
        if self._is_ack_flushed:
            self._on_flush_wanted(self.log)
        return False

    def flushed(self) -> None:
        """The log's recovery point moved: more of it is on stable storage."""
        self._acknowledge()

    def failed(self) -> None:
        """The log's disk failed: nobody learns from it whether his records are safe."""
        self._release_all(ErrorCode.KAFKA_STORAGE_ERROR)

    def advance_high_watermark(self, now_ms: int) -> None:
        """After anything that may move it: an append, a follower's fetch, a change of the in-sync set."""
        log = self.log
        end_offset = log.log_end_offset
        if self.followers:
            if len(self.isr) < self.min_insync:
                return  # KIP-966: what too few replicas hold is not committed
            end_offset = high_watermark_of(
                leader_end_offset=end_offset,
                followers=self.followers,
                maximal_isr=self.maximal_isr,
                eligible=self.eligible,
                now_ms=now_ms,
                lag_time_max_ms=self.lag_time_max_ms,
            )
        if end_offset > log.high_watermark:
            log.update_high_watermark(end_offset)
            if self._acknowledgements:
                self._acknowledge()
        if self._fetchers:
            self._wake_fetchers()

    def _acknowledge(self) -> None:
        waiting = self._acknowledgements
        acknowledged = self.acknowledged_offset
        # Who leads no more has kept only what enough replicas had while it led.
        is_safe = not self.is_leader or len(self.maximal_isr) >= self.min_insync
        code = ErrorCode.NONE if is_safe else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        while waiting and waiting[0][0] <= acknowledged:
            _, wait, slot = waiting.popleft()
            wait.settle(slot, code)

    def _step_down(self) -> None:
        """What is committed waits on, for the disk alone: told otherwise, its producer would send it again.  Of the rest nobody knows."""
        waiting, self._acknowledgements = self._acknowledgements, deque()
        for end_offset, wait, slot in waiting:
            if end_offset <= self.log.high_watermark:
                self._acknowledgements.append((end_offset, wait, slot))
            else:
                wait.settle(slot, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._release_fetchers()

    def _release_all(self, code: ErrorCode) -> None:
        waiting, self._acknowledgements = self._acknowledgements, deque()
        for _, wait, slot in waiting:
            wait.settle(slot, code)
        self._release_fetchers()

    def _release_fetchers(self) -> None:
        for fetcher in list(self._fetchers):
            fetcher.finish()

    # Reading

    def end_for(self, isolation: Isolation) -> int:
        """How far such a reader sees (exclusive)."""
        if isolation is Isolation.HIGH_WATERMARK:
            return self.log.high_watermark
        return self.log.last_stable_offset if isolation is Isolation.COMMITTED_TRANSACTIONS else self.log.log_end_offset

    # hot: 9 µs a partition with data, 2 µs without
    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        *,
        min_one_batch: bool,
        last_fetched_epoch: int = NO_EPOCH,
    ) -> PartitionData:
        """One partition's part of a fetch response.  The caller has asked `refusal_of`.

        Errors: OFFSET_OUT_OF_RANGE; OFFSET_MOVED_TO_TIERED_STORAGE, which is told with the log's start: a follower begins after what is
        in remote storage, and needs to know from where on that is (see `tier_start`).
        """
        log = self.log
        if last_fetched_epoch != NO_EPOCH:
            diverging = self._divergence(offset, last_fetched_epoch)
            if diverging is not None:
                return diverging
        limit = self.end_for(isolation)
        if offset == limit:
            return self._found(b"", [] if isolation is Isolation.COMMITTED_TRANSACTIONS else None)
        is_committed = isolation is Isolation.COMMITTED_TRANSACTIONS
        data = log.read(offset, max_bytes, limit_offset=limit, min_one_batch=min_one_batch, with_aborted=is_committed)
        if isinstance(data, ErrorCode):
            return self._refused(data)
        aborted = (
            [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in data.aborted]
            if is_committed
            else None
        )
        return self._found(data.records or b"", aborted)

    def _found(self, records: Records, aborted: list[AbortedTransaction] | None) -> PartitionData:
        log = self.log
        return PartitionData(
            partition_index=self.topic_partition.partition,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _divergence(self, offset: int, last_fetched_epoch: int) -> PartitionData | None:
        """A reader whose last record is of an epoch that ended earlier here has to truncate (KIP-320, 595)."""
        known = self.log.end_offset_for_epoch(last_fetched_epoch)
        if known == UNKNOWN_END or offset < self.log.log_start_offset:
            is_remote = self.log.is_tiered and self.log.log_start_offset <= offset < self.log.local_log_start_offset
            return self._refused(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE if is_remote else ErrorCode.OFFSET_OUT_OF_RANGE)
        if known.epoch >= last_fetched_epoch and known.end_offset >= offset:
            return None
        answer = self._found(b"", None)
        answer.diverging_epoch = EpochEndOffset(epoch=known.epoch, end_offset=known.end_offset)
        return answer

    def _refused(self, code: ErrorCode) -> PartitionData:
        refused = refused_partition(self.topic_partition.partition, code)
        if code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            refused.high_watermark, refused.log_start_offset = self.log.high_watermark, self.log.log_start_offset
        return refused

    def park_fetch(self, wait: FetchWait, offset: int, isolation: Isolation, *, max_bytes: int, available_bytes: int) -> None:
        """Tells `wait` when more than `available_bytes` can be read from `offset`."""
        self._fetchers[wait] = (offset, isolation, max_bytes, available_bytes)

    def unpark_fetch(self, wait: FetchWait) -> None:
        self._fetchers.pop(wait, None)

    def _wake_fetchers(self) -> None:
        for wait, (offset, isolation, max_bytes, known_bytes) in list(self._fetchers.items()):
            limit = self.end_for(isolation)
            if limit <= offset:
                continue
            if wait.missing_bytes <= 1:
                wait.finish()
                continue
            data = self.log.read(offset, max_bytes, limit_offset=limit, min_one_batch=True)
            if isinstance(data, ErrorCode):
                wait.finish()
                continue
            available = data.size
            self._fetchers[wait] = (offset, isolation, max_bytes, available)
            wait.found(available - known_bytes)

    # Followers

    def follower_fetched(self, broker_id: int, *, offset: int, log_start_offset: int, broker_epoch: int, now_ms: int) -> None:
        """A follower's fetch offset is its acknowledgement."""
        state = self.followers[broker_id]
        state.fetched(
            offset=offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        self.advance_high_watermark(now_ms)

    def wants_to_expand(self, broker_id: int) -> bool:
        """Whether a follower outside the in-sync set has caught up."""
        state = self.followers.get(broker_id)
        return (
            state is not None
            and broker_id not in self.maximal_isr
            and broker_id in self.eligible
            and may_join(state, high_watermark=self.log.high_watermark, leader_epoch_start_offset=self.leader_epoch_start_offset)
        )

    def fallen_behind(self, now_ms: int) -> list[int]:
        return out_of_sync(
            self.isr,
            self.followers,
            leader_id=self._local_id,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=self.lag_time_max_ms,
        )

    @property
    def low_watermark(self) -> int:
        """The highest log start offset that every replica has reached: what DeleteRecords answers."""
        lowest = self.log.log_start_offset
        for broker_id, state in self.followers.items():
            if broker_id in self.eligible and state.log_start_offset < lowest:
                lowest = state.log_start_offset
        return lowest


def refused_partition(index: int, code: ErrorCode, *, aborted: list[AbortedTransaction] | None = None) -> PartitionData:
    """One partition's part of a fetch response that only says why not."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        aborted_transactions=aborted,
        records=b"",
    )
