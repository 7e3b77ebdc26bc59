"""◇ One partition on this broker: whether it may serve, how far each reader may see, and when a produce is acknowledged.

A `Partition` ties the log (storage) to its metadata (leader, epochs, in-sync replicas) and to the requests that wait on it.
State from metadata changes in `lead`, `follow` and `retire` only, called by `manager.py` when a delta is applied.

    append ─▶ log end offset ─▶ high watermark (all in sync) ─▶ acknowledged offset (and on stable storage, flush policy `ack`)
                  replicas          readers                        acks=all, coordinators

Guarantees: the high watermark never goes back while this replica leads; an acks=all produce is settled exactly once; a partition that no
longer leads settles all waiting requests with NOT_LEADER_OR_FOLLOWER and wakes its readers.
Source: kafka.cluster.Partition; KIP-101, 207, 320, 392, 966.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData
from moldau.replication.isr import (
    NEVER_MS,
    FollowerState,
    IsrProposal,
    effective_min_insync,
    high_watermark_of,
    may_join,
    out_of_sync,
)
from moldau.replication.waits import Acknowledged, Deleted, FetchWait, ProduceWait, Watch
from moldau.storage.epochs import UNKNOWN_END
from moldau.storage.log import AppendResult, Log
from moldau.storage.producers.state import AppendOrigin, VerificationGuard
from moldau.storage.validator import AppendFailure, Examined, Unexamined
from moldau.types import INTERNAL_TOPICS, NO_EPOCH, NO_LEADER, NO_OFFSET, Records, TopicPartition

ALL_IN_SYNC: Final = -1
"""acks of a produce that waits for every in-sync replica."""
UNTRIED: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
NEWER_STATE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


class Isolation(Enum):
    """The end up to which a reader sees records."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    COMMITTED_TRANSACTIONS = "last stable offset"


class Partition:
    """See the module."""

    __slots__ = (
        "_acknowledgements",
        "_deletions",
        "_fetchers",
        "_is_ack_flushed",
        "_local_id",
        "_on_flush_wanted",
        "_steady_ms",
        "_told_end_offset",
        "_watches",
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
        "on_proposal",
        "partition_epoch",
        "proposal",
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
        """`on_flush_wanted` is called when a request waits for data that is not on stable storage yet; `flushed` answers it."""
        self.topic_partition: Final = topic_partition
        self.topic_id: Final = topic_id
        self.is_internal: Final = topic_partition.topic in INTERNAL_TOPICS
        self.log: Final = log
        self.lag_time_max_ms: Final = lag_time_max_ms
        self._local_id: Final = local_id
        self._on_flush_wanted: Final = on_flush_wanted
        self._is_ack_flushed: Final = log.config.flush_policy == "ack"
        self.before_append: Callable[[], object] | None = None
        """Called before each append: a coordinator may have given out the next offsets already."""
        self.on_proposal: Callable[[Partition], None] | None = None
        """Called when `proposal` is to go to the controller; None where there is none to ask."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.leader_epoch_start_offset = NO_OFFSET
        self.has_caught_up = False
        """For a follower: whether it once had every record that was committed when this leader took over."""
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.proposal: IsrProposal | None = None
        """The proposal that the controller has not answered yet."""
        self.eligible: Mapping[int, int] = {}
        """The brokers that may be in sync, neither fenced nor shutting down, with their epochs."""
        self.followers: dict[int, FollowerState] = {}
        self._steady_ms = 0
        """The steady clock's time at which followers were judged last.

        It is not the clock of records: a wall clock that jumps must not put a follower out of sync.
        """
        self._acknowledgements: deque[tuple[int, ProduceWait, Acknowledged]] = deque()
        self._deletions: list[tuple[int, ProduceWait, Deleted]] = []
        self._fetchers: dict[FetchWait, tuple[int, Isolation, int, int]] = {}
        self._watches: dict[Watch, None] = {}
        self._told_end_offset = log.log_end_offset
        """The end of the log that `_watches` were told last."""

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
        eligible: Mapping[int, int],
        now_ms: int,
    ) -> None:
        """Lead, or go on leading with other replicas or another in-sync set.  `now_ms` is the steady clock's."""
        if leader_epoch != self.leader_epoch or not self.is_leader:
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.log.epochs.begin(leader_epoch, self.log.log_end_offset)
            self.followers = {}
        self.leader_id = self._local_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self._commit_isr(isr)
        self.eligible = eligible
        for broker_id in replicas:
            if broker_id != self._local_id and broker_id not in self.followers:
                self.followers[broker_id] = FollowerState(last_caught_up_ms=now_ms if broker_id in isr else NEVER_MS)
        for broker_id in [each for each in self.followers if each not in replicas]:
            del self.followers[broker_id]
        self.advance_high_watermark(now_ms)

    def follow(self, *, leader_id: int, leader_epoch: int, partition_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        """Follow another leader, or none."""
        assert leader_id != self._local_id, self
        if leader_epoch != self.leader_epoch:
            self.has_caught_up = False
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self._commit_isr(isr)
        self.followers = {}
        self._step_down()

    def _commit_isr(self, isr: tuple[int, ...]) -> None:
        """Take the committed in-sync set.  A proposal on top of another state is dropped: the controller refuses it."""
        self.isr = self.maximal_isr = isr
        self.proposal = None
        for watch in list(self._watches):
            watch.changed(has_grown=False)

    def heard_from_leader(self, *, high_watermark: int, log_start_offset: int) -> None:
        """Take the leader's high watermark and start offset, as a follower, after the records of the same answer were appended."""
        log = self.log
        if high_watermark > log.high_watermark:
            log.update_high_watermark(high_watermark)
            if self._acknowledgements:
                self._acknowledge()
        if log_start_offset > log.log_start_offset:
            log.raise_log_start_offset(min(log_start_offset, log.log_end_offset))
        if not self.has_caught_up and log.log_end_offset >= high_watermark:
            self.has_caught_up = True
            self._release_fetchers()
        elif self._fetchers:
            self._wake_fetchers()

    def resign(self) -> None:
        """Note that this broker is about to stop."""
        self.leader_id = NO_LEADER
        self._step_down()

    def retire(self) -> None:
        """Note that the partition is deleted, or moved away from this broker."""
        self.leader_id = NO_LEADER
        self._release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def refusal_of(self, current_leader_epoch: int, *, from_leader_only: bool) -> ErrorCode:
        """The reason not to serve a request with `current_leader_epoch` (-1: unknown); NONE if it can be served.

        Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        if from_leader_only and self.leader_id != self._local_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    # Appending and its acknowledgement

    @property
    def min_insync(self) -> int:
        return effective_min_insync(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def lacks_replicas(self) -> bool:
        """Whether too few replicas are in sync for an append that all of them acknowledge."""
        return len(self.isr) < self.min_insync

    @property
    def acknowledged_offset(self) -> int:
        """The offset below which no record can be lost any more (exclusive): acks=all and the coordinators wait for it."""
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
        """Append a client's batches; see `Log.append_from_client`.

        Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and the log's own.
        """
        refusal = self._refusal_of_append(acks)
        if refusal is not None:
            return refusal
        result = self.log.append_from_client(records, leader_epoch=self.leader_epoch, now_ms=now_ms, guard=guard, examined=examined)
        if isinstance(result, AppendResult):
            self.advance_high_watermark(self._steady_ms)
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
        """Append batches that the broker itself writes.

        Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and those of `Log.append_as_leader`.
        """
        refusal = self._refusal_of_append(acks)
        if refusal is not None:
            return refusal
        result = self.log.append_as_leader(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin, guard=guard, transaction_version=transaction_version
        )
        if isinstance(result, AppendResult):
            self.advance_high_watermark(self._steady_ms)
        return result

    def _refusal_of_append(self, acks: int) -> AppendFailure | None:
        if self.before_append is not None:
            self.before_append()
        if self.leader_id != self._local_id:
            return AppendFailure(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Leader not local for partition {self.topic_partition}")
        if acks == ALL_IN_SYNC and self.lacks_replicas:
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
        """Note that the log's recovery point moved: more of it is on stable storage."""
        self._acknowledge()

    def failed(self) -> None:
        """Note that the log's disk failed.  Waiting producers do not learn from it whether their records are safe."""
        self._release_all(ErrorCode.KAFKA_STORAGE_ERROR)

    def advance_high_watermark(self, now_ms: int) -> None:
        """Recompute the high watermark, after an append, a follower's fetch, or a change of the in-sync set.

        `now_ms` is the steady clock's.
        """
        self._steady_ms = now_ms
        log = self.log
        end_offset = log.log_end_offset
        if self.followers and self.lacks_replicas:
            end_offset = log.high_watermark  # KIP-966: records that too few replicas hold are not committed
        elif self.followers:
            end_offset = high_watermark_of(
                leader_end_offset=end_offset,
                followers=self.followers,
                maximal_isr=self.maximal_isr,
                eligible=self.eligible,
                now_ms=now_ms,
                lag_time_max_ms=self.lag_time_max_ms,
            )
        has_moved = end_offset > log.high_watermark
        if has_moved:
            log.update_high_watermark(end_offset)
            if self._acknowledgements:
                self._acknowledge()
        if self._fetchers:
            self._wake_fetchers()
        if self._watches:
            self._tell_watches(has_moved=has_moved)

    def _acknowledge(self) -> None:
        waiting = self._acknowledgements
        acknowledged = self.acknowledged_offset
        # A replica that leads no more has kept only records that enough replicas had while it led.
        is_safe = not self.is_leader or len(self.maximal_isr) >= self.min_insync
        code = ErrorCode.NONE if is_safe else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        while waiting and waiting[0][0] <= acknowledged:
            _, wait, slot = waiting.popleft()
            wait.settle(slot, code)

    def _step_down(self) -> None:
        """Settle the waiting requests when this replica stops leading.

        A request whose records are committed goes on waiting for the disk alone: after another answer its producer would send them again.
        The fate of all others is not known.
        """
        waiting, self._acknowledgements = self._acknowledgements, deque()
        for end_offset, wait, slot in waiting:
            if end_offset <= self.log.high_watermark:
                self._acknowledgements.append((end_offset, wait, slot))
            else:
                wait.settle(slot, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._settle_deletions(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._release_fetchers()

    def _release_all(self, code: ErrorCode) -> None:
        waiting, self._acknowledgements = self._acknowledgements, deque()
        for _, wait, slot in waiting:
            wait.settle(slot, code)
        self._settle_deletions(code)
        self._release_fetchers()

    def _release_fetchers(self) -> None:
        for fetcher in list(self._fetchers):
            fetcher.finish()
        for watch in list(self._watches):
            watch.changed(has_grown=True)

    # Reading

    def end_for(self, isolation: Isolation) -> int:
        """The end up to which such a reader sees (exclusive)."""
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

        Errors: OFFSET_OUT_OF_RANGE; OFFSET_MOVED_TO_TIERED_STORAGE, together with the log's start: a follower begins after the records in
        remote storage, and needs to know where those begin (see `tier_start`).
        """
        log = self.log
        if last_fetched_epoch > NO_EPOCH:
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

    def elsewhere(self, broker_id: int) -> PartitionData:
        """An answer without records, which sends the reader to another replica (KIP-392)."""
        answer = self._found(b"", None)
        answer.preferred_read_replica = broker_id
        return answer

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
        """The point of divergence for a reader whose last record is of an epoch that ended earlier here: it has to truncate
        (KIP-320, 595).
        """
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
        """Tell `wait` when more than `available_bytes` can be read from `offset`."""
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

    def watch(self, watch: Watch) -> None:
        """Tell `watch` of changes from now on."""
        self._watches[watch] = None

    def unwatch(self, watch: Watch) -> None:
        self._watches.pop(watch, None)

    def _tell_watches(self, *, has_moved: bool) -> None:
        """Tell the watches of a change.

        `has_moved`: the high watermark moved.  A follower that had everything when it asked last kept up until then.
        """
        end_before, self._told_end_offset = self._told_end_offset, self.log.log_end_offset
        has_grown = self._told_end_offset > end_before
        if not has_grown and not has_moved:
            return
        for watch in list(self._watches):
            state = self.followers.get(watch.replica_id)
            if has_grown and state is not None and state.log_end_offset >= end_before:
                state.last_caught_up_ms = max(state.last_caught_up_ms, watch.asked_ms)
            watch.changed(has_grown=has_grown)

    def follower_fetched(self, broker_id: int, *, offset: int, log_start_offset: int, broker_epoch: int, now_ms: int) -> None:
        """Note a follower's fetch: its offset is the follower's acknowledgement.  `now_ms` is the steady clock's."""
        state = self.followers[broker_id]
        has_deleted = log_start_offset > state.log_start_offset
        state.fetched(
            offset=offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        self.advance_high_watermark(now_ms)
        if has_deleted and self._deletions:
            self._settle_deletions()
        if broker_id not in self.maximal_isr and self.proposal is None and self.wants_to_expand(broker_id):
            self._propose((*self.isr, broker_id))

    def shrink_isr(self, now_ms: int) -> None:
        """Propose an in-sync set without the followers that have fallen behind."""
        if not self.is_leader or not self.followers:
            return
        behind = self.fallen_behind(now_ms) if self.proposal is None else ()
        if behind:
            self._propose(tuple(broker_id for broker_id in self.isr if broker_id not in behind))
        # A follower that is not in sync and keeps up no more does not hold the high watermark back any longer.
        self.advance_high_watermark(now_ms)

    def _propose(self, isr: tuple[int, ...]) -> None:
        """Propose an in-sync set.  Until the answer the members of either set count: the controller may have committed it already."""
        if self.on_proposal is not None:
            self.proposal = IsrProposal(isr, self.leader_epoch, self.partition_epoch)
            self.maximal_isr = tuple(dict.fromkeys((*self.isr, *isr)))
            self.on_proposal(self)

    def isr_committed(self, proposal: IsrProposal, *, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...], now_ms: int) -> None:
        """Take the controller's answer.  It is ignored if newer metadata has arrived meanwhile."""
        is_newer = partition_epoch >= self.partition_epoch and leader_epoch == self.leader_epoch
        if proposal is self.proposal and is_newer and self.is_leader:
            self.partition_epoch = partition_epoch
            self._commit_isr(isr)
            self.advance_high_watermark(now_ms)

    def isr_refused(self, proposal: IsrProposal, code: ErrorCode) -> bool:
        """Take the controller's refusal.  True when the proposal is to be sent again.

        A controller that has not tried leaves the in-sync set as it was.  If the controller knows a newer state, that state is on its way
        here.  Until it comes the proposal may be the committed set, so it goes on to count.  Source: Partition.handleAlterPartitionError.
        """
        if proposal is not self.proposal:
            return False
        if code in UNTRIED:
            self._commit_isr(self.isr)
            return False
        return code not in NEWER_STATE

    def wants_to_expand(self, broker_id: int) -> bool:
        """Whether a follower outside the in-sync set has caught up."""
        state = self.followers.get(broker_id)
        return (
            state is not None
            and broker_id not in self.maximal_isr
            and self._is_of_this_life(broker_id, state.broker_epoch)
            and may_join(state, high_watermark=self.log.high_watermark, leader_epoch_start_offset=self.leader_epoch_start_offset)
        )

    def _is_of_this_life(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch came from the broker as it is registered now.  A restarted broker may have lost records (KIP-903)."""
        known = self.eligible.get(broker_id)
        return known is not None and broker_epoch in (NO_EPOCH, known)

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch comes from an earlier life of a broker."""
        return NO_EPOCH < broker_epoch < self.eligible.get(broker_id, NO_EPOCH)

    def take_eligible(self, eligible: Mapping[int, int], now_ms: int) -> None:
        """Note that brokers came or went.  A broker that may not join any more holds back neither the high nor the low watermark."""
        self.eligible = eligible
        if self.is_leader and self.followers:
            self.advance_high_watermark(now_ms)
            self._settle_deletions()

    def fallen_behind(self, now_ms: int) -> list[int]:
        """The members of the in-sync set that have to leave it.  `now_ms` is the steady clock's."""
        self._steady_ms = now_ms
        return out_of_sync(
            self.isr,
            self.followers,
            leader_id=self._local_id,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=self.lag_time_max_ms,
        )

    # Deleting

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Delete like `Log.delete_records_before`.  The followers learn of it at once.  Errors: OFFSET_OUT_OF_RANGE."""
        start = self.log.delete_records_before(offset)
        if not isinstance(start, ErrorCode) and self.followers:
            self._release_fetchers()
        return start

    def await_deletion(self, offset: int, wait: ProduceWait, slot: Deleted) -> None:
        """Settle `wait` for `slot` once every replica's log starts at `offset` or after it."""
        wait.expect(slot)
        self._deletions.append((offset, wait, slot))

    def _settle_deletions(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Settle the deletions that are done; with an error, all of them."""
        low_watermark = NO_OFFSET if code else self.low_watermark
        waiting, self._deletions = self._deletions, []
        for offset, wait, slot in waiting:
            if code or offset <= low_watermark:
                slot.low_watermark = low_watermark
                wait.settle(slot, code)
            elif not wait.is_done:
                self._deletions.append((offset, wait, slot))

    @property
    def low_watermark(self) -> int:
        """The highest log start offset that every replica has reached: the answer to DeleteRecords."""
        lowest = self.log.log_start_offset
        for broker_id, state in self.followers.items():
            if broker_id in self.eligible and state.log_start_offset < lowest:
                lowest = state.log_start_offset
        return lowest


def refused_partition(index: int, code: ErrorCode, *, aborted: list[AbortedTransaction] | None = None) -> PartitionData:
    """One partition's part of a fetch response that only gives the reason of a refusal."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        aborted_transactions=aborted,
        records=b"",
    )
