"""The states of share partitions against a model that keeps every offset by itself.

No deposed leader and no older state writes.  An acknowledged write outlives fail-over.  Nobody needs what pruning lets go.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.runtime import Shard
from moldau.coordinator.share.batches import StateBatch, combined
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.share.machine import Environment, Prune, SharePartitionKey, ShareState, ShareStateMachine
from moldau.errors import ErrorCode
from moldau.protocol.messages import delete_share_group_state as delete
from moldau.protocol.messages import initialize_share_group_state as begin
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import write_share_group_state as write
from proof.coordination import Asked, Desk, FixedTopics, MemoryLog

OFFSETS = 24
ORDERS = TopicView(UUID(int=101), "orders", 2)
KEYS = [SharePartitionKey(group, ORDERS.topic_id, partition) for group in ("readers", "writers") for partition in (0, 1)]
INTERVAL_MS = 60_000


@st.composite
def state_batches(draw: st.DrawFn) -> list[StateBatch]:
    batches = []
    for _ in range(draw(st.integers(0, 5))):
        first = draw(st.integers(0, OFFSETS - 1))
        last = draw(st.integers(first, OFFSETS - 1))
        batches.append(StateBatch(first, last, draw(st.sampled_from([0, 2, 4])), draw(st.integers(1, 3))))
    return batches


def by_offset(batches: list[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """The greatest (count, state) that a batch gives an offset holds for the offset."""
    said: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            said[offset] = max(said.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))
    return said


@given(state_batches(), st.integers(-1, OFFSETS))
def test_the_most_often_delivered_holds_for_each_offset(batches: list[StateBatch], start_offset: int) -> None:
    found = combined(batches, start_offset)
    assert by_offset(list(found), -1) == by_offset(batches, start_offset)
    for one, next_one in pairwise(found):
        assert one.last_offset < next_one.first_offset, "no two batches overlap"
        assert one[2:] != next_one[2:] or one.last_offset + 1 < next_one.first_offset, "neighbours with the same state are one batch"


@dataclass
class Model:
    state_epoch: int
    start_offset: int
    leader_epoch: int
    complete: int
    said: dict[int, tuple[int, int]] = field(default_factory=dict)


class ShareStates(RuleBasedStateMachine):
    @initialize(updates=st.integers(0, 4))
    def begin(self, updates: int) -> None:
        config = ShareCoordinatorConfig(updates_per_snapshot=updates, cold_snapshot_interval_ms=INTERVAL_MS, prune_interval_ms=INTERVAL_MS)
        self.environment = Environment(config, FixedTopics(ORDERS))
        self.desk = Desk(lambda: ShareStateMachine(self.environment), MemoryLog(commits_at_once=False))
        self.model: dict[SharePartitionKey, Model] = {}
        self.asked: list[Asked] = []

    def ask(self, name: str, key: SharePartitionKey, *rest: Any) -> int:
        """The code that was decided.  `desk.commit` lets the answer out, since answers wait until the log is committed."""
        asked = self.desk.ask(lambda token, now_ms: getattr(self.desk.machine, name)(token, key, *rest, *([now_ms] if rest else [])))
        self.asked.append(asked)
        self.desk.commit()
        code: int = asked.answer.error_code
        return code

    @rule(key=st.sampled_from(KEYS), state_epoch=st.integers(0, 3), start=st.integers(-1, 8))
    def state_begins(self, key: SharePartitionKey, state_epoch: int, start: int) -> None:
        before = self.model.get(key)
        code = self.ask("initialize", key, begin.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start))
        if before is not None and before.state_epoch > state_epoch:
            assert code == ErrorCode.FENCED_STATE_EPOCH
            return
        assert code == ErrorCode.NONE
        leader_epoch = before.leader_epoch if before is not None else 0
        self.model[key] = Model(state_epoch, start, leader_epoch, -1 if start == -1 else 0)

    def fenced(self, key: SharePartitionKey, leader_epoch: int, state_epoch: int) -> ErrorCode:
        known = self.model.get(key)
        if known is None:
            return ErrorCode.INVALID_REQUEST
        if -1 < leader_epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.FENCED_STATE_EPOCH if -1 < state_epoch < known.state_epoch else ErrorCode.NONE

    @rule(
        key=st.sampled_from(KEYS),
        epochs=st.tuples(st.integers(-1, 3), st.integers(-1, 3)),
        start=st.integers(-1, OFFSETS),
        complete=st.integers(-1, 5),
        batches=state_batches(),
    )
    def leader_writes(self, key: SharePartitionKey, epochs: tuple[int, int], start: int, complete: int, batches: list[StateBatch]) -> None:
        leader_epoch, state_epoch = epochs
        expected = self.fenced(key, leader_epoch, state_epoch)
        asked = write.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[write.StateBatch(**batch._asdict()) for batch in batches],
        )
        assert self.ask("write", key, asked) == expected
        if expected is ErrorCode.NONE:
            known = self.model[key]
            known.start_offset = known.start_offset if start == -1 else start
            known.complete = complete
            for offset, said in by_offset(batches, start).items():
                known.said[offset] = max(known.said.get(offset, (0, 0)), said)
            known.said = {offset: said for offset, said in known.said.items() if offset >= known.start_offset}

    @rule(key=st.sampled_from(KEYS), leader_epoch=st.integers(-1, 4))
    def leader_reads(self, key: SharePartitionKey, leader_epoch: int) -> None:
        expected = self.fenced(key, leader_epoch, -1)
        assert self.ask("read", key, read.PartitionData(partition=key.partition, leader_epoch=leader_epoch)) == expected
        if expected is ErrorCode.NONE:
            answer = self.asked[-1].answer
            known = self.model[key]
            batches = [
                StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in answer.state_batches
            ]
            assert (answer.state_epoch, answer.start_offset) == (known.state_epoch, known.start_offset)
            assert by_offset(batches, -1) == known.said
            known.leader_epoch = max(known.leader_epoch, leader_epoch)

    @rule(key=st.sampled_from(KEYS))
    def summed_up(self, key: SharePartitionKey) -> None:
        assert self.ask("read_summary", key) == ErrorCode.NONE
        answer, known = self.asked[-1].answer, self.model.get(key)
        start, complete = (known.start_offset, known.complete) if known is not None else (-1, -1)
        assert (answer.start_offset, answer.delivery_complete_count) == (start, complete)

    @rule(key=st.sampled_from(KEYS))
    def state_is_deleted(self, key: SharePartitionKey) -> None:
        assert self.ask("delete", key) == ErrorCode.NONE
        assert isinstance(self.asked[-1].answer, delete.PartitionResult)
        self.model.pop(key, None)

    @rule(elapsed_ms=st.sampled_from([1_000, 30_000, INTERVAL_MS]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.desk.advance(elapsed_ms)
        self.desk.commit()

    @rule()
    def coordinator_fails_over(self) -> None:
        self.desk.fail_over()

    @rule(key=st.sampled_from(KEYS), batches=state_batches())
    def coordinator_fails_before_a_write_is_kept(self, key: SharePartitionKey, batches: list[StateBatch]) -> None:
        asked = write.PartitionData(
            partition=key.partition,
            state_epoch=-1,
            leader_epoch=-1,
            start_offset=-1,
            state_batches=[write.StateBatch(**batch._asdict()) for batch in batches],
        )
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.write(token, key, asked, now_ms))
        assert not answer.is_answered or key not in self.model, "nothing is acknowledged before it is kept"
        self.desk.fail_over()
        assert key not in self.model or answer.answer is ErrorCode.NOT_COORDINATOR

    @invariant()
    def states_are_what_the_model_says(self) -> None:
        states = self.desk.machine.states
        assert states.keys() == self.model.keys()
        for key, known in self.model.items():
            state = states[key]
            assert by_offset(list(state.batches), -1) == known.said
            assert (state.state_epoch, state.start_offset) == (known.state_epoch, known.start_offset)
            assert (state.delivery_complete_count, state.fencing_leader_epoch) == (known.complete, known.leader_epoch)

    @invariant()
    def what_was_pruned_is_needed_by_nobody(self) -> None:
        prunes = [sent for sent in self.desk.sent if isinstance(sent, Prune)]
        if prunes:
            shard = Shard(ShareStateMachine(self.environment), self.desk.log, lambda send: None)
            for offset, (entry, _) in enumerate(self.desk.log.entries):
                if offset >= prunes[-1].offset:
                    assert not isinstance(entry, bool)
                    shard.load(offset, entry)
            assert {key: told(state) for key, state in shard.machine.states.items()} == {
                key: told(state) for key, state in self.desk.machine.states.items()
            }


def told(state: ShareState) -> tuple[Any, ...]:
    """The part of a state that a leader is told."""
    return state.state_epoch, state.start_offset, state.delivery_complete_count, state.batches


TestShareStates = ShareStates.TestCase
