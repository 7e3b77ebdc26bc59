"""The states of share partitions (KIP-932), where the property test says nothing of them."""

from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.environment import NoTopics
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.runtime import Shard
from moldau.coordinator.share import records as stored
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.share.machine import Environment, Prune, SharePartitionKey, ShareStateMachine
from moldau.errors import ErrorCode
from moldau.protocol.messages import initialize_share_group_state as begin
from moldau.protocol.messages import read_share_group_state as read
from moldau.protocol.messages import write_share_group_state as write
from proof.coordination import Desk, FixedTopics

ORDERS = TopicView(UUID(int=101), "orders", 3)
INTERVAL_MS = 60_000


def key(partition: int) -> SharePartitionKey:
    return SharePartitionKey("readers", ORDERS.topic_id, partition)


class States:
    def __init__(self, updates_per_snapshot: int = 2) -> None:
        config = ShareCoordinatorConfig(
            updates_per_snapshot=updates_per_snapshot, cold_snapshot_interval_ms=INTERVAL_MS, prune_interval_ms=INTERVAL_MS
        )
        self.environment = Environment(config, FixedTopics(ORDERS))
        self.desk = Desk(lambda: ShareStateMachine(self.environment))

    def begin(self, partition: int) -> int:
        asked = begin.PartitionData(partition=partition, state_epoch=0, start_offset=0)
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.initialize(token, key(partition), asked, now_ms)).answer
        code: int = answer.error_code
        return code

    def write(self, partition: int, start: int, *batches: tuple[int, int, int, int]) -> None:
        asked = write.PartitionData(
            partition=partition,
            state_epoch=0,
            leader_epoch=0,
            start_offset=start,
            state_batches=[
                write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.write(token, key(partition), asked, now_ms)).answer
        assert answer.error_code == ErrorCode.NONE

    def kinds(self) -> list[str]:
        return [type(entry.value).__name__ for entry, _ in self.desk.log.entries if not isinstance(entry, bool)]


def test_a_record_that_somebody_wrote_in_a_transaction_counts() -> None:
    """Kafka does the same: a client that may write to internal topics must not keep the coordinator from loading."""
    states = States()
    states.begin(0)
    ((record, _),) = states.desk.log.entries
    assert not isinstance(record, bool)
    loading = Shard(ShareStateMachine(states.environment), states.desk.log, lambda _: None)
    loading.load(0, record, ProducerIdAndEpoch(1, 0))
    assert loading.machine.states == states.desk.machine.states


def test_updates_are_summed_up_by_a_snapshot() -> None:
    states = States()
    states.begin(0)
    for offset in range(3):
        states.write(0, -1, (offset, offset, 2, 1))
    assert states.kinds() == ["ShareSnapshotValue", "ShareUpdateValue", "ShareUpdateValue", "ShareSnapshotValue"]
    last = states.desk.log.entries[-1][0]
    assert not isinstance(last, bool)
    assert isinstance(last.value, stored.ShareSnapshotValue)
    assert (last.value.snapshot_epoch, last.value.start_offset) == (1, 0)
    assert [(one.first_offset, one.last_offset) for one in last.value.state_batches] == [(0, 2)]


def test_states_at_rest_are_written_anew_so_that_others_can_be_pruned() -> None:
    states = States(updates_per_snapshot=0)
    states.begin(0)
    states.begin(1)
    states.write(1, 5)
    states.desk.advance(INTERVAL_MS)
    assert states.kinds()[3:] == ["ShareSnapshotValue"] * 2
    states.desk.advance(INTERVAL_MS)
    assert states.desk.sent[-1] == Prune(3)
    count = len(states.desk.log.entries)
    states.desk.advance(5 * INTERVAL_MS)
    assert len(states.desk.log.entries) == count, "nothing has come since, so there is nothing to prune"


def test_deleted_states_are_pruned_to_their_last_tombstone() -> None:
    states = States()
    states.begin(0)
    states.begin(1)
    states.desk.ask(lambda token, now_ms: states.desk.machine.forget_topics({ORDERS.topic_id}))
    states.desk.advance(INTERVAL_MS)
    assert states.desk.sent == [Prune(3)]


def test_states_of_topics_that_went_unseen_are_forgotten() -> None:
    states = States()
    states.begin(0)
    states.environment.topics = NoTopics()
    states.desk.advance(INTERVAL_MS)
    assert not states.desk.machine.states


def test_a_new_beginning_does_not_let_an_old_leader_back() -> None:
    states = States()
    states.begin(0)
    asked = read.PartitionData(partition=0, leader_epoch=5)
    states.desk.ask(lambda token, now_ms: states.desk.machine.read(token, key(0), asked, now_ms))
    states.begin(0)
    old = read.PartitionData(partition=0, leader_epoch=4)
    answer = states.desk.ask(lambda token, now_ms: states.desk.machine.read(token, key(0), old, now_ms)).answer
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_partitions_that_are_not_there() -> None:
    states = States()
    assert states.begin(3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert states.begin(-1) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("group_id", ["readers", "a:b", ":"])
def test_keys_are_read_as_they_are_written(group_id: str) -> None:
    where = SharePartitionKey(group_id, ORDERS.topic_id, 7)
    assert SharePartitionKey.parse(str(where)) == where


@pytest.mark.parametrize("text", ["", "g", "g:0", " :AAAAAAAAAAAAAAAAAAAAAQ:0", "g:nothing:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"])
def test_other_keys_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        SharePartitionKey.parse(text)
