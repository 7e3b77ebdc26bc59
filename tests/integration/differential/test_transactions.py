"""Dialogues of transactional clients with Kafka and with us, right and wrong ones: the same answers, word for word.

Producer ids differ from broker to broker, so they are told as "own", "none" or "new".  Answers that say only "not yet" are asked for again.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.records.builder import NewRecord, build_batch
from proof.kafka.differential import Differential, RawClient

pytestmark = [pytest.mark.slow, pytest.mark.java]

TOPIC = "transacted"
NOT_YET = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
WITHIN_S = 30
TIMES_OUT_MS = 4000
"""So long that a busy machine asks and answers what comes before."""
NOBODY = 987_654_321


class Teller:
    """One client of one broker; `told` is what it heard."""

    def __init__(self, client: RawClient, name: str) -> None:
        self.client = client
        self.name = name
        self.producer_id, self.epoch, self.sequence = -1, -1, 0
        self.told: list[tuple[Any, ...]] = []

    def ask(self, request: Any, version: int, code_of: Callable[[Any], int]) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while True:
            answer: Any = self.client.ask(request, version)
            if ErrorCode.of(code_of(answer)) not in NOT_YET or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def finds_coordinators(self) -> None:
        """The request also makes the internal topics."""
        for key_type, key in ((0, f"group-{self.name}"), (1, self.name)):
            self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4, lambda said: said.coordinators[0].error_code)

    def tell(self, what: str, *said: Any) -> None:
        self.told.append((what, *said))

    def whose(self, producer_id: int) -> str:
        return {self.producer_id: "own", -1: "none"}.get(producer_id, "new")

    def init(self, version: int = 5, *, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000, takes: bool = True) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
        )
        answer = self.ask(request, version, lambda said: said.error_code)
        self.tell("init", ErrorCode.of(answer.error_code).name, self.whose(answer.producer_id), answer.producer_epoch)
        if takes and answer.error_code == 0:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def add(self, version: int, *indexes: int, epoch: int | None = None, producer_id: int | None = None) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id if producer_id is None else producer_id,
            v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(indexes))],
        )

        def codes(said: Any) -> list[int]:
            return [each.partition_error_code for topic in said.results_by_topic_v3_and_below for each in topic.results_by_partition]

        answer = self.ask(request, version, lambda said: codes(said)[0])
        self.tell("add", sorted(ErrorCode.of(code).name for code in codes(answer)))

    def produce(self, version: int, index: int = 0, *, epoch: int | None = None, sequence: int | None = None) -> None:
        batch = build_batch(
            [NewRecord(time.time_ns() // 1_000_000, None, b"value")],
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=self.sequence if sequence is None else sequence,
            is_transactional=True,
        )
        topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=index, records=memoryview(batch))])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=[topic])
        answer = self.ask(request, version, lambda said: said.responses[0].partition_responses[0].error_code)
        code = answer.responses[0].partition_responses[0].error_code
        self.tell("produce", ErrorCode.of(code).name)
        if code == 0:
            self.sequence += 1

    def add_offsets(self, version: int, *, epoch: int | None = None) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            group_id=f"group-{self.name}",
        )
        answer = self.ask(request, version, lambda said: said.error_code)
        self.tell("add offsets", ErrorCode.of(answer.error_code).name)

    def commit_offset(self, version: int, offset: int, *, epoch: int | None = None, generation: int = -1) -> None:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="here")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=f"group-{self.name}",
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            generation_id=generation,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        answer = self.ask(request, version, lambda said: said.topics[0].partitions[0].error_code)
        self.tell("commit offset", ErrorCode.of(answer.topics[0].partitions[0].error_code).name)

    def end(self, version: int, *, committed: bool, epoch: int | None = None, producer_id: int | None = None, takes: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=committed,
        )
        answer = self.ask(request, version, lambda said: said.error_code)
        self.tell("end", committed, ErrorCode.of(answer.error_code).name, self.whose(answer.producer_id), answer.producer_epoch)
        if takes and version >= 5 and answer.error_code == 0:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def look(self) -> None:
        """Tells what an administrator and a reader see once the markers are written."""

        def state(said: Any) -> str:
            return str(said.transaction_states[0].transaction_state)

        deadline = time.monotonic() + WITHIN_S
        while True:
            answer: Any = self.client.ask(DescribeTransactionsRequest(transactional_ids=[self.name]), 0)
            if not state(answer).startswith("Prepare") or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        (one,) = answer.transaction_states
        topics = sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics if topic.topic == TOPIC)
        times = one.transaction_start_time_ms > 0
        self.tell(
            "describe", ErrorCode.of(one.error_code).name, state(answer), self.whose(one.producer_id), one.producer_epoch, times, topics
        )
        listed: Any = self.client.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[self.producer_id]), 1)
        self.tell("list", [(each.transactional_id, each.transaction_state) for each in listed.transaction_states])
        asked: Any = self.client.ask(DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0, 1])]), 0)
        self.tell(
            "producers",
            [
                (one.partition_index, each.producer_epoch, each.last_sequence, each.current_txn_start_offset >= 0)
                for one in sorted(asked.topics[0].partitions, key=lambda one: one.partition_index)
                for each in one.active_producers
                if each.producer_id == self.producer_id
            ],
        )
        wanted = OffsetFetchRequestGroup(
            group_id=f"group-{self.name}", topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        )
        offsets: Any = self.client.ask(OffsetFetchRequest(groups=[wanted], require_stable=True), 8)
        (found,) = offsets.groups[0].topics[0].partitions
        self.tell("offset", found.committed_offset, found.metadata, ErrorCode.of(found.error_code).name)

    def times_out(self) -> None:
        """Wait until the coordinator has aborted the transaction, and the markers are written."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            answer: Any = self.client.ask(DescribeTransactionsRequest(transactional_ids=[self.name]), 0)
            (one,) = answer.transaction_states
            if one.transaction_state == "CompleteAbort":
                break
            assert time.monotonic() < deadline, one
            time.sleep(0.05)
        self.tell("timed out", self.whose(one.producer_id), one.producer_epoch)

    def ends(self) -> None:
        """Tells the log end and the last stable offset of each partition."""
        for isolation in (0, 1):
            asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)])
            answer: Any = self.client.ask(request, 7)
            self.tell("ends", sorted((one.partition_index, one.offset) for one in answer.topics[0].partitions))


def first_version(t: Teller) -> None:
    t.init()
    t.look()
    t.add(3, 0)
    t.produce(11)
    t.produce(11, 1)  # the partition was not added
    t.produce(10, 1)
    t.add(3, 1, 7)  # partition 7 is not there
    t.add(3, 1)
    t.produce(11, 1, sequence=0)
    t.produce(11, sequence=9)
    t.ends()
    t.look()
    t.commit_offset(3, 5)  # the group was not added
    t.commit_offset(4, 5)
    t.add_offsets(4, epoch=7)
    t.add_offsets(4)
    t.commit_offset(4, 5, generation=3)
    t.commit_offset(3, 5)
    t.add(2, 0, epoch=7)
    t.add(1, 0, epoch=7)
    t.add(3, 0, producer_id=NOBODY)
    t.end(4, committed=True, epoch=7)
    t.end(1, committed=True, epoch=7)
    t.end(3, committed=True, producer_id=NOBODY)
    t.end(4, committed=True)
    t.end(4, committed=True)
    t.end(4, committed=False)
    t.look()
    t.ends()
    t.add(3, 0)
    t.produce(11, sequence=1)
    t.end(3, committed=False)
    t.look()
    t.ends()
    t.end(3, committed=False)
    t.end(3, committed=True)


def second_version(t: Teller) -> None:
    t.init()
    t.end(5, committed=True)
    t.produce(12)
    t.produce(12, 1, sequence=0)
    t.commit_offset(5, 9)
    t.look()
    t.end(5, committed=True, epoch=4)
    t.end(5, committed=True, producer_id=NOBODY)
    t.end(5, committed=True)
    t.look()
    t.ends()
    t.end(5, committed=True, epoch=0, takes=False)  # the same request again
    t.end(5, committed=False, epoch=0, takes=False)
    t.end(5, committed=True, takes=False)  # no transaction was begun
    t.produce(12, epoch=0)
    t.commit_offset(5, 99, epoch=0)
    t.end(5, committed=False)  # the epoch moves on all the same
    t.look()
    t.produce(12)
    t.end(5, committed=True, epoch=1, takes=False)  # late: it belongs to the transaction before
    t.end(5, committed=False, epoch=1, takes=False)
    t.end(5, committed=False)
    t.look()
    t.ends()


def successors(t: Teller) -> None:
    t.init()
    old = t.producer_id, t.epoch
    t.produce(12)
    t.init()  # aborts the open transaction
    t.ends()
    t.produce(12, epoch=old[1])
    t.end(5, committed=True, epoch=old[1], takes=False)
    t.init(producer_id=t.producer_id, epoch=t.epoch)
    t.init(producer_id=old[0], epoch=old[1], takes=False)
    t.init(producer_id=NOBODY, epoch=0, takes=False)
    t.init(3, producer_id=old[0], epoch=old[1], takes=False)
    t.init(timeout_ms=0, takes=False)
    t.init(timeout_ms=900_001, takes=False)
    t.look()


def continued(t: Teller) -> None:
    """A producer goes on with its own id (KIP-360): in an open transaction, and with the epoch that its last transaction ended with."""
    t.init()
    t.produce(12)
    t.init(producer_id=t.producer_id, epoch=t.epoch)
    t.look()
    t.init()
    t.produce(12)
    t.end(5, committed=True)
    t.init(producer_id=t.producer_id, epoch=t.epoch - 1, takes=False)
    t.init(producer_id=t.producer_id, epoch=t.epoch - 1, takes=False)
    t.init(producer_id=t.producer_id, epoch=t.epoch)
    t.init(producer_id=t.producer_id, epoch=t.epoch - 1, takes=False)
    t.produce(12)
    t.end(5, committed=False)
    t.init(producer_id=t.producer_id, epoch=t.epoch - 1, takes=False)
    t.look()


def timed_out(t: Teller) -> None:
    """The coordinator aborts the transaction of a client that speaks the first version of the protocol."""
    t.init(4, timeout_ms=TIMES_OUT_MS)
    t.add(3, 0)
    t.produce(11)
    t.times_out()
    t.ends()
    t.produce(11)
    t.produce(11, 1, sequence=0)
    for version in (3, 2, 1, 0):
        t.add(version, 0)
        t.add_offsets(version)
    t.commit_offset(3, 5)
    for version in (4, 3, 1, 0):
        t.end(version, committed=True)
        t.end(version, committed=False)
    t.init(3, producer_id=t.producer_id, epoch=t.epoch, takes=False)
    t.init(4, producer_id=t.producer_id, epoch=t.epoch, takes=False)
    t.look()
    t.init(4, producer_id=t.producer_id, epoch=t.epoch)
    t.add(3, 0)
    t.produce(11)
    t.end(4, committed=True)
    t.look()


def times_out_again(t: Teller) -> None:
    """A producer of the first version that named itself: its second transaction times out."""
    t.init(4, timeout_ms=TIMES_OUT_MS)
    t.init(4, producer_id=t.producer_id, epoch=t.epoch, timeout_ms=TIMES_OUT_MS)
    t.add(3, 0)
    t.produce(11)
    t.end(4, committed=True)
    t.look()
    t.add(3, 0)
    t.produce(11)
    t.times_out()
    t.init(4, producer_id=t.producer_id, epoch=t.epoch - 1, timeout_ms=TIMES_OUT_MS, takes=False)
    t.init(4, producer_id=t.producer_id, epoch=t.epoch, timeout_ms=TIMES_OUT_MS)
    t.look()
    t.add(3, 0)
    t.produce(11)
    t.times_out()
    t.init(4, timeout_ms=TIMES_OUT_MS, takes=False)
    t.init(4, producer_id=t.producer_id, epoch=t.epoch, takes=False)
    t.init(4)
    t.look()
    t.ends()


def fenced_out(t: Teller) -> None:
    """A producer of the first version asks for its next epoch in an open transaction; then a successor does."""
    t.init(4)
    t.add(3, 0)
    t.produce(11)
    t.init(4, producer_id=t.producer_id, epoch=t.epoch)
    t.look()
    t.add(3, 0)
    t.produce(11)
    t.init(4, takes=False)
    t.init(4, producer_id=t.producer_id, epoch=t.epoch, takes=False)
    t.end(4, committed=False)
    t.look()


def times_out_empty(t: Teller) -> None:
    """A client of the second version: its transaction times out."""
    t.init(timeout_ms=TIMES_OUT_MS)
    t.produce(12)
    t.times_out()
    t.produce(12)
    t.produce(12, 1, sequence=0)
    t.commit_offset(5, 9)
    t.end(5, committed=True, takes=False)
    t.end(5, committed=False, takes=False)
    t.look()
    t.init(producer_id=t.producer_id, epoch=t.epoch)
    t.produce(12)
    t.end(5, committed=True)
    t.look()


TIMED_OUT = [timed_out, times_out_again, fenced_out, times_out_empty]


@pytest.mark.parametrize("dialogue", [first_version, second_version, successors, continued, *TIMED_OUT])
def test_the_same_answers(both: Differential, dialogue: Callable[[Teller], None]) -> None:
    made = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    both.both(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
    told = []
    for client in (both.ours, both.theirs):
        teller = Teller(client, dialogue.__name__)
        teller.ask(
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)])
                ],
            ),
            7,
            lambda said: said.topics[0].partitions[0].error_code,
        )
        teller.finds_coordinators()
        dialogue(teller)
        told.append(teller.told)
    for number, (ours, theirs) in enumerate(zip(*told, strict=True)):
        assert ours == theirs, f"step {number}, after {told[0][max(0, number - 4) : number]}"
