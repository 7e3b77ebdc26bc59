"""◇ The states of share partitions on one partition of `__share_group_state`: the machine that `runtime.Shard` runs.

    initialize ─▶ snapshot ─write─▶ update ─write─▶ update … ─after so many─▶ snapshot ─delete─▶ tombstone
                  the whole state    what changed: later records replace earlier ones of the same offsets

Two epochs fence: the leader epoch of the partition whose leader writes, so that a deposed leader writes nothing more; and the state epoch,
which grows whenever an administrator or a new life of the topic begins the state anew.  The topic is not compacted: a snapshot makes
earlier records redundant, a state at rest is written anew at intervals, and records that no state needs are deleted.

Source: ShareCoordinatorShard, ShareCoordinatorOffsetsManager; KIP-932, 1226.  Called by `server/coordinators/coordinators.py`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from moldau.coordinator.group.environment import Topics
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch, Reply, Timer, Token, answer
from moldau.coordinator.share import records as stored
from moldau.coordinator.share.batches import StateBatch, combined
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.errors import ErrorCode
from moldau.protocol.messages import delete_share_group_state as delete
from moldau.protocol.messages import initialize_share_group_state as initialize
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import read_share_group_state_summary as summary
from moldau.protocol.messages import write_share_group_state as write
from moldau.types import NO_EPOCH, NO_OFFSET, uuid_from_text, uuid_to_text

NOT_COUNTED: Final = -1


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """The key in FindCoordinator, whose hash places the state."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> "SharePartitionKey":
        """The key in a text written by `str`; a group may have colons in its name.  Errors: ValueError."""
        group_id, topic_id, partition = text.rsplit(":", 2)
        if not group_id.strip():
            raise ValueError(f"{text!r} names no group")
        return cls(group_id, uuid_from_text(topic_id), int(partition))


@dataclass(slots=True)
class Environment:
    """Shared by all shards of a node; the shell keeps `topics` up to date."""

    config: ShareCoordinatorConfig
    topics: Topics


@dataclass(slots=True, frozen=True)
class Prune:
    """Records below `offset` can be deleted: newer ones replace all of them."""

    offset: int


@dataclass(slots=True, frozen=True)
class ShareState:
    """The state that the records of one share partition add up to."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    """The records behind `start_offset` that are done with; -1 when the leader does not count."""
    batches: tuple[StateBatch, ...]
    created_ms: int
    written_ms: int
    snapshot_offset: int
    """The offset of the last snapshot in the log."""
    fencing_leader_epoch: int
    """The highest leader epoch that was ever seen: it outlives a new beginning of the state."""
    update_count: int = 0

    def updated(self, value: stored.ShareUpdateValue) -> "ShareState":
        start_offset = self.start_offset if value.start_offset == NO_OFFSET else value.start_offset
        return replace(
            self,
            leader_epoch=self.leader_epoch if value.leader_epoch == NO_EPOCH else value.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=combined([*self.batches, *_batches_of(value.state_batches)], start_offset),
            fencing_leader_epoch=max(self.fencing_leader_epoch, value.leader_epoch),
            update_count=self.update_count + 1,
        )


class ShareStateMachine:
    """Hard state: `states`, by share partition."""

    _pruned_to: Soft[int | None]
    _has_changed: Soft[bool]
    """Whether a record was written since states at rest were last written anew."""

    def __init__(self, environment: Environment) -> None:
        self.environment: Final = environment
        self.states: dict[SharePartitionKey, ShareState] = {}
        self._last_tombstone: int | None = None
        self._pruned_to = None
        self._has_changed = False

    # -- the machine ----------------------------------------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, producer: ProducerIdAndEpoch | None) -> None:
        """Replay a record.  It counts at once, also when a client wrote it in a transaction, as in Kafka."""
        is_only_anew = isinstance(record.value, stored.ShareSnapshotValue) and record.value.create_timestamp != record.value.write_timestamp
        self._has_changed = self._has_changed or not is_only_anew
        match record.key:
            case stored.ShareSnapshotKey() as key:
                where = SharePartitionKey(key.group_id, key.topic_id, key.partition)
                if record.value is None:
                    self.states.pop(where, None)
                    self._last_tombstone = offset
                else:
                    self.states[where] = self._snapshot(self.states.get(where), record.value, offset)
            case stored.ShareUpdateKey() as key if record.value is not None:
                where = SharePartitionKey(key.group_id, key.topic_id, key.partition)
                state = self.states.get(where)
                if state is not None:  # an update whose snapshot was pruned belongs to a state that is gone
                    self.states[where] = state.updated(record.value)

    def _snapshot(self, before: ShareState | None, value: stored.ShareSnapshotValue, offset: int) -> ShareState:
        update_count = before.update_count if before is not None else 0
        return ShareState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=max(value.state_epoch, before.state_epoch if before is not None else value.state_epoch),
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=tuple(_batches_of(value.state_batches)),
            created_ms=value.create_timestamp,
            written_ms=value.write_timestamp,
            snapshot_offset=offset,
            fencing_leader_epoch=max(value.leader_epoch, before.fencing_leader_epoch if before is not None else NO_EPOCH),
            update_count=0 if update_count >= self.environment.config.updates_per_snapshot else update_count,
        )

    def replay_end_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Do nothing: no record here is part of a transaction, but a client that may write markers can write one here."""

    def on_loaded(self, now_ms: int) -> Outcome:
        return Outcome(timers=[self._prune_timer(now_ms), self._cold_timer(now_ms)])

    def on_unloaded(self) -> list[Token]:
        return []

    # -- the five requests, one partition of each -----------------------------------------------------------------------------

    def initialize(self, token: Token, key: SharePartitionKey, asked: initialize.PartitionData, now_ms: int) -> Outcome:
        """Begin the state, or begin it anew.  Errors: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""
        state = self.states.get(key)
        code = self._refusal(key)
        if code is ErrorCode.NONE and state is not None and NO_EPOCH < asked.state_epoch < state.state_epoch:
            code = ErrorCode.FENCED_STATE_EPOCH
        if code is not ErrorCode.NONE:
            return answer(token, _refused(initialize.PartitionResult(partition=key.partition), code))
        value = stored.ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch + 1 if state is not None else 0,
            state_epoch=asked.state_epoch,
            leader_epoch=0,
            start_offset=asked.start_offset,
            delivery_complete_count=NOT_COUNTED if asked.start_offset == NO_OFFSET else 0,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=[],
        )
        return Outcome([_snapshot_record(key, value)], [Reply(token, initialize.PartitionResult(partition=key.partition))])

    def write(self, token: Token, key: SharePartitionKey, asked: write.PartitionData, now_ms: int) -> Outcome:
        """Write an update.

        Errors: INVALID_REQUEST (also for a state that was never begun), FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        state, code = self._fenced(key, asked.leader_epoch, asked.state_epoch)
        if state is None or code is not ErrorCode.NONE:
            return answer(token, _refused(write.PartitionResult(partition=key.partition), code))
        batches = [StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in asked.state_batches]
        record = self._record(
            key,
            state,
            leader_epoch=state.leader_epoch,
            start_offset=asked.start_offset,
            delivery_complete_count=asked.delivery_complete_count,
            batches=batches,
            now_ms=now_ms,
        )
        return Outcome([record], [Reply(token, write.PartitionResult(partition=key.partition))])

    def read(self, token: Token, key: SharePartitionKey, asked: read.PartitionData, now_ms: int) -> Outcome:
        """Answer a new leader's first question; earlier leaders are fenced from then on.

        Errors: as `write`, without FENCED_STATE_EPOCH.
        """
        state, code = self._fenced(key, asked.leader_epoch, NO_EPOCH)
        if state is None or code is not ErrorCode.NONE:
            refused = read.PartitionResult(partition=key.partition, state_epoch=0, start_offset=0, state_batches=[])
            return answer(token, _refused(refused, code))
        outcome = answer(
            token,
            read.PartitionResult(
                partition=key.partition,
                state_epoch=state.state_epoch,
                start_offset=state.start_offset,
                state_batches=[read.StateBatch(**batch._asdict()) for batch in state.batches],
            ),
        )
        if asked.leader_epoch not in (NO_EPOCH, state.fencing_leader_epoch):
            outcome.records.append(
                self._record(
                    key,
                    state,
                    leader_epoch=asked.leader_epoch,
                    start_offset=state.start_offset,
                    delivery_complete_count=state.delivery_complete_count,
                    batches=[],
                    now_ms=now_ms,
                )
            )
        return outcome

    def read_summary(self, token: Token, key: SharePartitionKey) -> Outcome:
        """The summary of a state; one that was never begun has start offset -1.  Errors: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
        code = self._refusal(key)
        state = self.states.get(key)
        if code is not ErrorCode.NONE:
            refused = summary.PartitionResult(partition=key.partition, state_epoch=0, leader_epoch=0, start_offset=0)
            return answer(token, _refused(refused, code))
        if state is None:
            return answer(token, summary.PartitionResult(partition=key.partition, state_epoch=0, leader_epoch=0, start_offset=NO_OFFSET))
        return answer(
            token,
            summary.PartitionResult(
                partition=key.partition,
                state_epoch=state.state_epoch,
                leader_epoch=state.leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
            ),
        )

    def delete(self, token: Token, key: SharePartitionKey) -> Outcome:
        """Delete a state; a missing one counts as deleted.  Errors: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
        code = self._refusal(key)
        if code is not ErrorCode.NONE:
            return answer(token, _refused(delete.PartitionResult(partition=key.partition), code))
        outcome = answer(token, delete.PartitionResult(partition=key.partition))
        if key in self.states:
            outcome.records.append(_tombstone(key))
        return outcome

    def forget_topics(self, topic_ids: Collection[UUID]) -> Outcome:
        """Forget the states of deleted topics."""
        return Outcome([_tombstone(key) for key in self.states if key.topic_id in topic_ids])

    # -- what several of them ask ---------------------------------------------------------------------------------------------

    def _refusal(self, key: SharePartitionKey) -> ErrorCode:
        if key.partition < 0:
            return ErrorCode.INVALID_REQUEST
        topic = self.environment.topics.by_id(key.topic_id)
        is_known = topic is not None and key.partition < topic.partition_count
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _fenced(self, key: SharePartitionKey, leader_epoch: int, state_epoch: int) -> tuple[ShareState | None, ErrorCode]:
        """The state, and the reason why a request with these epochs may not touch it; -1 means that the request has no such epoch."""
        state = self.states.get(key)
        if state is None:
            return None, ErrorCode.INVALID_REQUEST
        if NO_EPOCH < leader_epoch < state.fencing_leader_epoch:
            return state, ErrorCode.FENCED_LEADER_EPOCH
        if NO_EPOCH < state_epoch < state.state_epoch:
            return state, ErrorCode.FENCED_STATE_EPOCH
        return state, self._refusal(key)

    def _record(
        self,
        key: SharePartitionKey,
        state: ShareState,
        *,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Iterable[StateBatch],
        now_ms: int,
    ) -> CoordinatorRecord:
        """An update, or after enough updates a snapshot that includes them."""
        if state.update_count < self.environment.config.updates_per_snapshot:
            update = stored.ShareUpdateValue(
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                state_batches=_stored(combined(batches, start_offset)),
            )
            return CoordinatorRecord(stored.ShareUpdateKey(**key._asdict()), update)
        start_offset = state.start_offset if start_offset == NO_OFFSET else start_offset
        return _snapshot_record(
            key,
            stored.ShareSnapshotValue(
                snapshot_epoch=state.snapshot_epoch + 1,
                state_epoch=state.state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                create_timestamp=now_ms,
                write_timestamp=now_ms,
                state_batches=_stored(combined([*state.batches, *batches], start_offset)),
            ),
        )

    # -- keeping the log short ------------------------------------------------------------------------------------------------

    @property
    def redundant_offset(self) -> int | None:
        """The offset below which no record is needed to load the states (exclusive).  None while it is not known."""
        if self.states:
            return min(state.snapshot_offset for state in self.states.values())
        return self._last_tombstone

    def prune(self, now_ms: int) -> Outcome:
        """Delete records that no state needs, and forget states of topics whose deletion was missed here."""
        gone = {key.topic_id for key in self.states if self.environment.topics.by_id(key.topic_id) is None}
        outcome = self.forget_topics(gone)
        outcome.timers.append(self._prune_timer(now_ms))
        offset = self.redundant_offset
        if offset is not None and offset > 0 and offset != self._pruned_to:
            self._pruned_to = offset
            outcome.sends.append(Prune(offset))
        return outcome

    def snapshot_cold(self, now_ms: int) -> Outcome:
        """Write states anew whose snapshots are old, unless no record after them could be deleted then."""
        outcome = Outcome(timers=[self._cold_timer(now_ms)])
        if not self._has_changed:
            return outcome
        self._has_changed = False
        for key, state in self.states.items():
            elapsed_ms = now_ms - state.written_ms
            if elapsed_ms >= self.environment.config.cold_snapshot_interval_ms:
                outcome.records.append(_snapshot_record(key, _anew(state, now_ms)))
        return outcome

    def _prune_timer(self, now_ms: int) -> Timer:
        return Timer("prune", now_ms + self.environment.config.prune_interval_ms, self.prune)

    def _cold_timer(self, now_ms: int) -> Timer:
        return Timer("cold", now_ms + self.environment.config.cold_snapshot_interval_ms, self.snapshot_cold)


def _anew(state: ShareState, now_ms: int) -> stored.ShareSnapshotValue:
    return stored.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=now_ms,
        state_batches=_stored(state.batches),
    )


def _snapshot_record(key: SharePartitionKey, value: stored.ShareSnapshotValue) -> CoordinatorRecord:
    return CoordinatorRecord(stored.ShareSnapshotKey(**key._asdict()), value)


def _tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(stored.ShareSnapshotKey(**key._asdict()), None)


def _stored(batches: Iterable[StateBatch]) -> list[stored.StateBatch]:
    return [stored.StateBatch(**batch._asdict()) for batch in batches]


def _batches_of(batches: Iterable[stored.StateBatch]) -> Iterable[StateBatch]:
    return (StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches)


R = TypeVar("R", initialize.PartitionResult, write.PartitionResult, read.PartitionResult, summary.PartitionResult, delete.PartitionResult)


def _refused(result: R, code: ErrorCode) -> R:
    result.error_code, result.error_message = code, code.text
    return result
