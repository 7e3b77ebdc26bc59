import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.isr_sender import IsrSender
from moldau.replication.partition import Partition
from moldau.storage.config import LogConfig
from moldau.storage.log import Log
from moldau.testing.clock import SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.types import TopicPartition

TOPIC_ID = UUID(int=5)
NOW_MS = 1000
Answer = Callable[[int], ErrorCode | Exception]


class Bench:
    """Broker 1 leads partitions with the followers 2 and 3, and asks a controller that the test plays."""

    def __init__(self, loop: SimLoop, count: int = 1) -> None:
        self.files = MemoryFiles()
        self.sender = IsrSender(self.alter_partition, SimClock(loop), local_id=1, broker_epoch=lambda: 11)
        self.partitions = [self.partition(index) for index in range(count)]
        self.requests: list[AlterPartitionRequest] = []
        self.codes: list[ErrorCode | Exception] = []
        """The next requests get these answers; afterwards all is well."""
        self.is_in_flight = False

    def partition(self, index: int) -> Partition:
        where = TopicPartition("t", index)
        self.files.mkdir(f"/d/{where}")
        log = Log.open(self.files, f"/d/{where}", where, LogConfig.load({"min.insync.replicas": "2"}), now_ms=NOW_MS)
        partition = Partition(where, TOPIC_ID, log, local_id=1, lag_time_max_ms=500, on_flush_wanted=lambda log: None)
        partition.on_proposal = self.sender.propose
        self.lead(partition, partition_epoch=7, isr=(1, 2))
        return partition

    def lead(self, partition: Partition, *, partition_epoch: int, isr: tuple[int, ...], leader_epoch: int = 4) -> None:
        partition.lead(
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=(1, 2, 3),
            isr=isr,
            eligible={1: 11, 2: 22, 3: 23},
            now_ms=NOW_MS,
        )

    def append(self, index: int = 0) -> None:
        self.partitions[index].append_from_client(build_batch([NewRecord(value=b"x", timestamp=0)]), acks=1, now_ms=NOW_MS)

    def fetched(self, broker_id: int, offset: int, index: int = 0) -> None:
        self.partitions[index].follower_fetched(broker_id, offset=offset, log_start_offset=0, broker_epoch=20 + broker_id, now_ms=NOW_MS)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        assert not self.is_in_flight, "one request at a time"
        self.is_in_flight = True
        self.requests.append(request)
        await asyncio.sleep(0.01)
        self.is_in_flight = False
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if isinstance(code, Exception):
            raise code
        (topic,) = request.topics
        answers = [
            AlterPartitionResponsePartitionData(
                partition_index=asked.partition_index,
                error_code=code,
                leader_id=1,
                leader_epoch=asked.leader_epoch,
                isr=[each.broker_id for each in asked.new_isr_with_epochs],
                partition_epoch=asked.partition_epoch + 1,
            )
            for asked in topic.partitions
        ]
        return AlterPartitionResponse(topics=[AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=answers)])

    def asked(self, number: int = 0) -> list[tuple[int, int, list[tuple[int, int]]]]:
        (topic,) = self.requests[number].topics
        return [
            (each.partition_index, each.partition_epoch, [(state.broker_id, state.broker_epoch) for state in each.new_isr_with_epochs])
            for each in topic.partitions
        ]


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop()


def play(loop: SimLoop, bench: Bench, seconds: float = 1.0) -> None:
    async def run() -> None:
        bench.sender.start()
        await asyncio.sleep(seconds)
        await bench.sender.stop()

    loop.run_until_complete(loop.start(Machine("one"), run()))
    assert not loop.failures


def test_a_follower_that_has_caught_up_joins_with_the_epoch_that_it_fetched_with(loop: SimLoop) -> None:
    bench = Bench(loop)
    (partition,) = bench.partitions
    bench.append()
    bench.fetched(2, 1)
    bench.fetched(3, 0)
    assert partition.proposal is None  # the follower lacks committed records
    bench.fetched(3, 1)
    assert partition.maximal_isr == (1, 2, 3)
    assert partition.isr == (1, 2)
    play(loop, bench)
    assert (bench.requests[0].broker_id, bench.requests[0].broker_epoch) == (1, 11)
    assert bench.asked() == [(0, 7, [(1, 11), (2, 22), (3, 23)])]
    assert (partition.isr, partition.partition_epoch, partition.proposal) == ((1, 2, 3), 8, None)


def test_who_is_about_to_join_counts_until_the_answer_comes(loop: SimLoop) -> None:
    bench = Bench(loop)
    (partition,) = bench.partitions
    bench.fetched(3, 0)
    bench.append()
    bench.fetched(2, 1)
    assert partition.log.high_watermark == 0
    bench.fetched(3, 1)
    assert partition.log.high_watermark == 1


def test_who_leaves_counts_until_the_answer_comes(loop: SimLoop) -> None:
    bench = Bench(loop)
    (partition,) = bench.partitions
    bench.lead(partition, partition_epoch=8, isr=(1, 2, 3))
    bench.append()
    bench.fetched(2, 1)
    partition.shrink_isr(NOW_MS + 501)
    assert partition.proposal is not None
    assert partition.proposal.isr == (1, 2)
    assert partition.log.high_watermark == 0
    play(loop, bench)
    assert (partition.isr, partition.log.high_watermark) == ((1, 2), 1)


def test_many_partitions_go_in_one_request_and_what_comes_meanwhile_in_the_next(loop: SimLoop) -> None:
    bench = Bench(loop, 5)
    for index in range(3):
        bench.fetched(3, 0, index)
    loop.call_later(0.005, bench.fetched, 3, 0, 4)
    play(loop, bench)
    assert [[index for index, _, _ in bench.asked(number)] for number in range(len(bench.requests))] == [[0, 1, 2], [4]]


@pytest.mark.parametrize("code", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_what_the_controller_did_not_try_leaves_the_set_as_it_was(loop: SimLoop, code: ErrorCode) -> None:
    bench = Bench(loop)
    bench.codes = [code]
    bench.fetched(3, 0)
    play(loop, bench)
    (partition,) = bench.partitions
    assert (partition.isr, partition.maximal_isr, partition.proposal) == ((1, 2), (1, 2), None)
    assert len(bench.requests) == 1
    bench.fetched(3, 0)
    assert partition.proposal is not None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
    ids=str,
)
def test_what_a_newer_state_forbids_counts_until_that_is_here(loop: SimLoop, code: ErrorCode) -> None:
    bench = Bench(loop)
    bench.codes = [code]
    bench.fetched(3, 0)
    play(loop, bench)
    (partition,) = bench.partitions
    assert len(bench.requests) == 1
    assert partition.maximal_isr == (1, 2, 3)
    assert partition.proposal is not None
    bench.lead(partition, partition_epoch=9, isr=(1, 2))
    assert (partition.maximal_isr, partition.proposal) == ((1, 2), None)


@pytest.mark.parametrize("failure", [ErrorCode.UNKNOWN_SERVER_ERROR, KafkaError(ErrorCode.NOT_CONTROLLER), OSError()], ids=repr)
def test_anything_else_is_asked_again(loop: SimLoop, failure: ErrorCode | Exception) -> None:
    bench = Bench(loop)
    bench.codes = [failure, failure, failure]
    bench.fetched(3, 0)
    play(loop, bench)
    assert len(bench.requests) == 4
    assert bench.partitions[0].isr == (1, 2, 3)


def test_an_answer_is_nothing_where_the_metadata_was_faster(loop: SimLoop) -> None:
    bench = Bench(loop)
    (partition,) = bench.partitions
    bench.fetched(3, 0)
    loop.call_later(0.005, lambda: bench.lead(partition, partition_epoch=9, isr=(1, 3)))
    play(loop, bench)
    assert (partition.isr, partition.partition_epoch) == ((1, 3), 9)


def test_what_is_asked_for_anew_while_an_answer_is_under_way_is_sent(loop: SimLoop) -> None:
    bench = Bench(loop)
    (partition,) = bench.partitions
    bench.fetched(3, 0)

    def metadata_comes() -> None:
        bench.lead(partition, partition_epoch=9, isr=(1, 2))
        bench.fetched(3, 0)

    loop.call_later(0.005, metadata_comes)
    play(loop, bench)
    assert [bench.asked(number)[0][1] for number in range(2)] == [7, 9]
    assert (partition.isr, partition.partition_epoch) == ((1, 2, 3), 10)
