"""● The share partitions of this broker: loaded when a group first fetches, written when they change; their locks end on time.

    fetch ─▶ hold ─▶ ReadShareGroupState ─▶ SharePartition (pure) ─▶ acquire, acknowledge, release, expire ─▶ Decision
                                                   ▲                                                            │
                                                   └── settle ◀── WriteShareGroupState ◀── dead letters ◀───────┘

A share partition lives as long as this broker leads the partition in one epoch and its group has a session here; a final refusal of its
writes ends it, and the next fetch loads it anew.  A waiting fetch is woken when records become free or the partition is loaded.

Source: kafka.server.share.SharePartitionManager, SharePartition.maybeInitialize; KIP-932.  Called by `handlers/share_fetch.py`,
`handlers/share_acknowledge.py`; put together by `server/node`.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import write_share_group_state as write
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.protocol.wire import AnyResponse, Request
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.replication.share.config import SharePartitionConfig
from moldau.replication.share.decision import AcknowledgedRange, DeadRange, Decision, Refusal, StateBatch
from moldau.replication.share.in_flight import RecordState
from moldau.replication.share.partition import SharePartition
from moldau.replication.share.rules import ShareRules
from moldau.replication.waits import FetchWait, Parked, ProduceWait
from moldau.server.coordinators.log import Slot

LOG: Final = logging.getLogger(__name__)

SWEPT_FROM: Final = 64
"""The number of share partitions from which on unused ones are removed."""
NOT_BEGUN: Final = -1
"""The start offset of a state in which nothing was acquired yet."""
ENDS_IT: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Refusals after which this broker's knowledge of a share partition is worthless."""
_TOLD_AS: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


class ShareStates(Protocol):
    """The store of states.  It decides in the order of the calls, and answers once the written states cannot be lost."""

    def ask(self, request: Request[AnyResponse]) -> Awaitable[AnyResponse]: ...


class GroupValues(Protocol):
    """A function that returns the values set for one group, by option."""

    def __call__(self, group_id: str) -> Mapping[str, Any]: ...


class Bury(Protocol):
    """A function that copies records to the dead letter topic of their group, and returns when they are safe there."""

    def __call__(self, group_id: str, partition: Partition, dead: Sequence[DeadRange]) -> Awaitable[None]: ...


class HeldKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class SharedPartition:
    """One partition as one group shares it, in one leader epoch.  `share` is None until it is loaded, or if loading failed."""

    __slots__ = ("alarm", "alarm_ms", "failure", "key", "leader_epoch", "partition", "share", "waiters")

    def __init__(self, key: HeldKey, partition: Partition) -> None:
        self.key: Final = key
        self.partition: Final = partition
        self.leader_epoch: Final = partition.leader_epoch
        self.share: SharePartition | None = None
        self.failure = ErrorCode.NONE
        """The error that ended it."""
        self.waiters: dict[FetchWait, None] = {}
        self.alarm: Parked | None = None
        self.alarm_ms = 0

    @property
    def is_current(self) -> bool:
        return self.partition.is_leader and self.partition.leader_epoch == self.leader_epoch and not self.failure

    def wake(self) -> None:
        for wait in list(self.waiters):
            wait.finish()


class SharePartitions:
    """See the module."""

    def __init__(
        self,
        *,
        config: SharePartitionConfig,
        replicas: ReplicaManager,
        clock: Clock,
        states: ShareStates,
        group_values: GroupValues,
        bury: Bury | None = None,
    ) -> None:
        """Without `bury` there are no dead letters."""
        self._bury: Final = bury
        self._config: Final = config
        self._replicas: Final = replicas
        self._clock: Final = clock
        self._states: Final = states
        self._group_values: Final = group_values
        self._held: dict[HeldKey, SharedPartition] = {}
        self._of_group: dict[str, dict[HeldKey, SharedPartition]] = {}
        self._sweep_at = SWEPT_FROM
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._installing: Final = asyncio.Lock()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    # Rules

    def values(self, group_id: str) -> Mapping[str, Any]:
        return self._group_values(group_id)

    def rules(self, group_id: str, partition: Partition | None = None) -> ShareRules:
        """The rules of a group.  Delays that the group does not set may come from the partition's topic."""
        own, config = self._group_values(group_id), self._config
        topic = partition.log.config if partition is not None else None
        return ShareRules(
            record_lock_duration_ms=own.get("share.record.lock.duration.ms", config.record_lock_duration_ms),
            delivery_count_limit=own.get("share.delivery.count.limit", config.delivery_count_limit),
            max_record_locks=own.get("share.partition.max.record.locks", config.max_record_locks),
            is_renewing_allowed=own.get("share.renew.acknowledge.enable", config.is_renewing_allowed),
            delivery_delay_ms=own.get(
                "share.delivery.delay.ms", topic.share_delivery_delay_ms if topic is not None else config.delivery_delay_ms
            ),
            retry_delay_ms=own.get("share.retry.delay.ms", topic.share_retry_delay_ms if topic is not None else config.retry_delay_ms),
            retry_max_delay_ms=own.get("share.retry.delay.max.ms", config.retry_delay_max_ms),
            has_dead_letters=self._bury is not None and bool(own.get("errors.deadletterqueue.topic.name", config.dead_letter_topic)),
        )

    # Finding and loading

    def find(self, group_id: str, topic: str, index: int) -> SharedPartition | None:
        """The share partition, if it is loaded and up to date."""
        held = self._held.get(HeldKey(group_id, topic, index))
        if held is not None and not held.is_current:
            self._drop(held, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return None
        return held if held is not None and held.share is not None else None

    def hold(self, group_id: str, partition: Partition) -> SharedPartition:
        """The share partition; begins to load it if it is not there.  The broker leads `partition`."""
        key = HeldKey(group_id, *partition.topic_partition)
        held = self._held.get(key)
        if held is not None and (held.partition is not partition or not held.is_current):
            self._drop(held, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            held = None
        if held is None:
            self._maybe_sweep()
            held = self._held[key] = self._of_group.setdefault(group_id, {})[key] = SharedPartition(key, partition)
            self._run(self._load(held))
        return held

    def _maybe_sweep(self) -> None:
        """Drop share partitions of deleted topics and of leaders elsewhere, whenever their number has doubled since the last time."""
        if len(self._held) < self._sweep_at:
            return
        for gone in [each for each in self._held.values() if not each.is_current]:
            self._drop(gone, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._sweep_at = max(2 * len(self._held), SWEPT_FROM)

    def forget_group(self, group_id: str) -> None:
        """Forget a group of which no member fetches here any more; its written state is all that is needed."""
        for held in list(self._of_group.get(group_id, {}).values()):
            self._drop(held, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _drop(self, held: SharedPartition, failure: ErrorCode) -> None:
        held.failure = failure
        if self._held.get(held.key) is held:
            del self._held[held.key]
            of_group = self._of_group[held.key.group_id]
            del of_group[held.key]
            if not of_group:
                del self._of_group[held.key.group_id]
        if held.alarm is not None:
            self._replicas.timeouts.discard(held.alarm)
        held.wake()

    async def _load(self, held: SharedPartition) -> None:
        """Load a share partition.

        Partitions that are new to the group are loaded one at a time: the first that has records answers the waiting fetch, and the others
        are
        left to other members, as in Kafka.
        """
        found = await self._load_state(held)
        async with self._installing:
            failure = found if isinstance(found, ErrorCode) else self._install(held, found)
            if failure:
                self._drop(held, failure)
                return
            self._look(held)
            held.wake()
            if held.share is not None and held.share.next_fetch_offset(self._clock.monotonic_ms()) < held.partition.log.high_watermark:
                await asyncio.sleep(0)  # the woken fetch acquires in the next turn

    async def _load_state(self, held: SharedPartition) -> read.PartitionResult | ErrorCode:
        key, topic_id = held.key, held.partition.topic_id
        asked = read.PartitionData(partition=key.partition, leader_epoch=held.leader_epoch)
        try:
            response = await self._states.ask(
                read.ReadShareGroupStateRequest(group_id=key.group_id, topics=[read.ReadStateData(topic_id=topic_id, partitions=[asked])])
            )
        except Exception:
            LOG.exception("the state of %s in share group %s cannot be read", held.partition.topic_partition, key.group_id)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        results = [one for topic in response.results for one in topic.partitions]
        if len(results) != 1:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        (found,) = results
        if found.error_code:
            return _TOLD_AS.get(found.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
        return found

    def _install(self, held: SharedPartition, found: read.PartitionResult) -> ErrorCode:
        key = held.key
        start_offset = self._first_offset(held) if found.start_offset == NOT_BEGUN else found.start_offset
        stored = [
            StateBatch(one.first_offset, one.last_offset, _known(one.delivery_state), one.delivery_count) for one in found.state_batches
        ]
        held.share = SharePartition.restored(start_offset, stored, self.rules(key.group_id, held.partition), state_epoch=found.state_epoch)
        if held.share is None:
            LOG.error("the state of %s in share group %s contradicts itself: %s", held.partition.topic_partition, key.group_id, found)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _first_offset(self, held: SharedPartition) -> int:
        """The offset at which a group without a state of the partition begins."""
        log, reset = held.partition.log, self.values(held.key.group_id).get("share.auto.offset.reset", self._config.auto_offset_reset)
        if reset == "earliest":
            return log.log_start_offset
        if reset.startswith("by_duration:"):
            try:
                found = log.offset_for_timestamp(self._clock.now_ms() - duration_ms(reset.partition(":")[2]))
            except CorruptBatch as error:  # too many records rather than too few
                LOG.warning("share group %s begins with all of %s: %s", held.key.group_id, held.partition.topic_partition, error)
                return log.log_start_offset
            if found is not None:
                return min(found.offset, log.high_watermark)
        return log.high_watermark

    # Changes

    def acknowledge(
        self, held: SharedPartition, member_id: str, ranges: Sequence[AcknowledgedRange]
    ) -> "Refusal | asyncio.Task[Refusal | None] | None":
        """Decide at once; the task ends when the decision is written.  None: nothing was to be written."""
        assert held.share is not None
        held.share.rules = self.rules(held.key.group_id, held.partition)
        decision = held.share.acknowledge(member_id, ranges, self._clock.monotonic_ms())
        if isinstance(decision, Refusal):
            return decision
        self._arm(held)
        return self._run(self._write(held, decision)) if decision.changes else None

    def release(self, group_id: str, member_id: str) -> None:
        """Release the records of a member whose session is over."""
        for held in list(self._of_group.get(group_id, {}).values()):
            if held.share is not None:
                decision = held.share.release(member_id, self._clock.monotonic_ms())
                if decision.changes:
                    self._run(self._write(held, decision))

    def acquired(self, held: SharedPartition) -> None:
        """Arm the timer for given locks."""
        self._arm(held)

    async def _write(self, held: SharedPartition, decision: Decision) -> Refusal | None:
        refusal = await self._write_state(held, decision)
        share = held.share
        assert share is not None
        is_freeing = share.settle(decision, is_written=refusal is None, now_ms=self._clock.monotonic_ms())
        if refusal is not None and refusal.code in ENDS_IT:
            self._drop(held, refusal.code)
        else:
            self._arm(held)
            if is_freeing:
                held.wake()
        return refusal

    async def _write_state(self, held: SharedPartition, decision: Decision) -> Refusal | None:
        """Write a decision.  Returns the reason why it does not count; None when it is written."""
        key, share = held.key, held.share
        assert share is not None
        try:
            if decision.dead and self._bury is not None:
                await self._bury(key.group_id, held.partition, decision.dead)
            code = await _kept(held.partition, max((last for _, last, *_ in decision.batches), default=-1) + 1)
            if code is not ErrorCode.NONE:
                return Refusal(code, code.text)
            state = write.PartitionData(
                partition=key.partition,
                state_epoch=share.state_epoch,
                leader_epoch=held.leader_epoch,
                start_offset=share.start_offset,
                delivery_complete_count=share.delivery_complete_count,
                state_batches=[
                    write.StateBatch(first_offset=first, last_offset=last, delivery_state=int(state), delivery_count=count)
                    for first, last, state, count in decision.batches
                ],
            )
            response = await self._states.ask(
                write.WriteShareGroupStateRequest(
                    group_id=key.group_id, topics=[write.WriteStateData(topic_id=held.partition.topic_id, partitions=[state])]
                )
            )
        except KafkaError as error:
            LOG.warning("share group %s: %s", key.group_id, error)
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        except Exception:
            LOG.exception("the state of %s in share group %s cannot be written", held.partition.topic_partition, key.group_id)
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)
        results = [one for topic in response.results for one in topic.partitions]
        if len(results) != 1:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)
        (result,) = results
        if not result.error_code:
            return None
        code = _TOLD_AS.get(result.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
        return Refusal(code, result.error_message or code.text)

    # Time

    def _arm(self, held: SharedPartition) -> None:
        """Set the timer for the end of a lock or a delayed retry.  An early call does no harm."""
        due_ms = held.share.next_due_ms() if held.share is not None else None
        if due_ms is None or held.failure or (held.alarm is not None and held.alarm_ms <= due_ms):
            return
        if held.alarm is not None:
            self._replicas.timeouts.discard(held.alarm)

        def rung() -> None:
            held.alarm = None
            self._look(held)

        held.alarm, held.alarm_ms = Parked(rung), due_ms
        self._replicas.timeouts.add(held.alarm, due_ms)

    def _look(self, held: SharedPartition) -> None:
        if held.share is None or not held.is_current:
            return
        held.share.rules = self.rules(held.key.group_id, held.partition)
        decision = held.share.expire(self._clock.monotonic_ms())
        if decision.batches:
            self._run(self._write(held, decision))
        if decision.is_freeing:
            held.wake()
        self._arm(held)

    def _run(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = in_background(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task


async def _kept(partition: Partition, end_offset: int) -> ErrorCode:
    """Wait until the records below `end_offset` can no longer be lost.

    A state that outlived them would count as done the records that are written in their place.  Errors: those of an append that is not
    kept.
    """
    kept, slot = asyncio.Event(), Slot()
    if not partition.await_acknowledgement(end_offset, ProduceWait(kept.set), slot):
        await kept.wait()
    return ErrorCode.of(slot.error_code)


def _known(state: int) -> RecordState:
    """The state of a record; a state of a newer version counts as on its way: the record is not done."""
    return RecordState(state) if state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED) else RecordState.AVAILABLE


def duration_ms(text: str) -> int:
    """The milliseconds of `PnDTnHnMn.nS`; 0 for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
