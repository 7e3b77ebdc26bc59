from uuid import UUID

import pytest

from moldau.config import MAX_LONG
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.catch_up import Verdict, take
from moldau.replication.config import ReplicationConfig
from moldau.replication.follower import MAX_EPOCH, Followed, Follower, Stage
from moldau.replication.partition import Partition
from moldau.replication.throttle import Throttles
from moldau.storage.config import LogConfig
from moldau.storage.manager import LogManager
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=5)
LEADER, LOCAL = 1, 2
CONFIG = ReplicationConfig.load({"replica.fetch.backoff.ms": "100"})


class Bench:
    """Partitions that follow broker 1, and its answers."""

    def __init__(self, count: int = 2) -> None:
        self.files = MemoryFiles()
        self.files.mkdir("/d")
        self.logs = LogManager(self.files, ["/d"], LogConfig(), unique=lambda: UUID(int=1))
        self.logs.open(NOW_MS)
        self.throttle = Throttles(LOCAL).follower
        self.follower = Follower(local_id=LOCAL, config=CONFIG, throttle=self.throttle)
        self.partitions = [self.partition(index) for index in range(count)]
        for partition in self.partitions:
            self.follower.add(partition)
        self.now_ms = 1000

    def partition(self, index: int) -> Partition:
        where = TopicPartition("t", index)
        log = self.logs.get_or_create(where, LogConfig(), now_ms=NOW_MS, topic_id=TOPIC_ID)
        partition = Partition(where, TOPIC_ID, log, local_id=LOCAL, lag_time_max_ms=30_000, on_flush_wanted=lambda log: None)
        self.lead_by(partition, epoch=3)
        return partition

    def lead_by(self, partition: Partition, *, epoch: int) -> None:
        partition.follow(leader_id=LEADER, leader_epoch=epoch, partition_epoch=epoch, replicas=(1, 2), isr=(1, 2))

    def ask(self) -> FetchRequest:
        request = self.follower.next_request(self.now_ms, broker_epoch=77)
        assert request is not None
        return request

    def answer(self, *answers: PartitionData, session_id: int = 9) -> list[tuple[Followed, PartitionData]]:
        """Takes and settles the answers; returns those that count."""
        found = []
        for followed, data in self.follower.answers(response(*answers, session_id=session_id)):
            found.append((followed, data))
            size = len(data.records or b"")
            self.follower.settle(followed, take(self.logs, followed.partition, data, NOW_MS), self.now_ms, byte_count=size)
        return found


def response(*answers: PartitionData, session_id: int = 9, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(answers))] if answers else []
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def data(index: int, *values: bytes, offset: int = 0, epoch: int = 3, high_watermark: int = 0, start: int = 0) -> PartitionData:
    records = memoryview(b"")
    if values:
        made = build_batch([NewRecord(value=value, timestamp=NOW_MS) for value in values], base_offset=offset, leader_epoch=epoch)
        records = memoryview(made)
    return PartitionData(
        partition_index=index, high_watermark=high_watermark, log_start_offset=start, aborted_transactions=None, records=records
    )


def refusal(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=b"")


def named(request: FetchRequest) -> list[tuple[int, int]]:
    return [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]


def forgotten(request: FetchRequest) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def test_the_first_request_names_all_and_says_who_asks() -> None:
    request = Bench().ask()
    assert named(request) == [(0, 0), (1, 0)]
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (LOCAL, 77)
    asked = request.topics[0].partitions[0]
    assert (asked.current_leader_epoch, asked.last_fetched_epoch, asked.log_start_offset) == (3, -1, 0)


def test_later_requests_name_what_has_changed() -> None:
    bench = Bench()
    bench.ask()
    assert len(bench.answer(data(0), data(1, b"one", b"two", high_watermark=1))) == 2
    request = bench.ask()
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert named(request) == [(1, 2)]
    assert request.topics[0].partitions[0].last_fetched_epoch == 3
    assert bench.partitions[1].log.high_watermark == 1
    bench.answer()
    assert named(bench.ask()) == []


def test_a_partition_that_left_is_forgotten_and_one_that_came_is_named() -> None:
    bench = Bench()
    bench.ask()
    bench.answer(data(0), data(1))
    bench.follower.remove(bench.partitions[0])
    bench.follower.add(bench.partition(2))
    request = bench.ask()
    assert (named(request), forgotten(request)) == ([(2, 0)], [0])
    bench.answer()
    assert forgotten(bench.ask()) == []


def test_a_partition_that_left_and_came_back_is_not_forgotten() -> None:
    bench = Bench()
    bench.ask()
    bench.answer(data(0), data(1))
    bench.follower.remove(bench.partitions[0])
    bench.lead_by(bench.partitions[0], epoch=4)
    bench.follower.add(bench.partitions[0])
    request = bench.ask()
    assert (named(request), forgotten(request)) == ([(0, 0)], [])
    assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_an_answer_to_an_older_question_is_left_aside() -> None:
    bench = Bench()
    bench.ask()
    bench.lead_by(bench.partitions[0], epoch=4)  # the metadata was faster
    bench.partitions[1].log.append_as_follower(data(1, b"come", b"otherwise").records, 3)  # type: ignore[arg-type]
    assert bench.answer(data(0, b"x"), data(1, b"y")) == []
    assert bench.partitions[0].log.log_end_offset == 0
    bench.follower.remove(bench.partitions[1])
    bench.ask()
    assert bench.answer(data(1, b"y")) == []


def test_a_partition_named_twice_in_an_answer_is_taken_once() -> None:
    bench = Bench()
    bench.ask()
    assert len(bench.answer(data(0, b"x"), data(0, b"x"))) == 1
    assert bench.partitions[0].log.log_end_offset == 1


def test_a_diverging_epoch_truncates_and_the_partition_is_asked_for_again() -> None:
    bench = Bench()
    log = bench.partitions[0].log
    log.append_as_follower(data(0, b"a", b"b", epoch=1).records, 3)  # type: ignore[arg-type]
    log.append_as_follower(data(0, b"c", offset=2, epoch=2).records, 3)  # type: ignore[arg-type]
    bench.follower.lost()
    assert named(bench.ask())[0] == (0, 3)
    diverging = data(0)
    diverging.diverging_epoch = EpochEndOffset(epoch=1, end_offset=9)
    bench.answer(diverging)
    assert log.log_end_offset == 2
    assert named(bench.ask()) == [(0, 2)]


def test_a_refused_partition_waits_longer_each_time_and_the_others_go_on() -> None:
    bench = Bench()
    waited = []
    for _ in range(5):
        bench.ask()
        bench.answer(refusal(0, ErrorCode.UNKNOWN_LEADER_EPOCH))
        assert 0 not in [index for index, _ in named(bench.ask())]
        bench.answer()
        due_ms = bench.follower.next_due_ms()
        assert due_ms is not None
        waited.append(due_ms - bench.now_ms)
        bench.now_ms = due_ms
    assert waited == [20, 40, 80, 100, 100]
    assert [index for index, _ in named(bench.ask())] == [0]
    bench.answer(data(0))
    bench.answer(refusal(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert bench.follower.next_due_ms() == bench.now_ms + 20


def test_a_delayed_partition_is_forgotten_by_the_session_meanwhile() -> None:
    bench = Bench()
    bench.ask()
    bench.answer(refusal(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), data(1))
    assert forgotten(bench.ask()) == [0]


@pytest.mark.parametrize(
    ("code", "stage"),
    [(ErrorCode.OFFSET_OUT_OF_RANGE, Stage.TRUNCATING), (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, Stage.TRUNCATING)],
)
def test_what_cannot_go_on_is_not_asked_for_until_its_end_is_found(code: ErrorCode, stage: Stage) -> None:
    bench = Bench()
    bench.ask()
    ((followed, _),) = bench.answer(refusal(0, code))
    assert followed.stage is stage
    assert forgotten(bench.ask()) == [0]
    bench.answer()
    bench.follower.settle(followed, Verdict.TAKEN, bench.now_ms)
    assert named(bench.ask()) == [(0, 0)]


def test_a_fenced_partition_waits_for_the_metadata() -> None:
    bench = Bench(1)
    bench.ask()
    bench.answer(refusal(0, ErrorCode.FENCED_LEADER_EPOCH))
    assert bench.follower.next_request(bench.now_ms + 10_000, broker_epoch=77) is None
    bench.lead_by(bench.partitions[0], epoch=4)
    bench.follower.add(bench.partitions[0])
    request = bench.ask()
    assert (named(request), request.topics[0].partitions[0].current_leader_epoch) == ([(0, 0)], 4)


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_is_gone_is_begun_anew(code: ErrorCode) -> None:
    bench = Bench()
    bench.ask()
    bench.answer(data(0, b"x"), data(1))
    bench.ask()
    assert list(bench.follower.answers(response(error=code))) == []
    request = bench.ask()
    assert (named(request), request.session_epoch) == ([(0, 1), (1, 0)], 0)
    assert request.session_id == (0 if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 9)  # a leader that knows the session may close it


def test_a_leader_that_refuses_a_whole_request_is_an_error() -> None:
    bench = Bench()
    bench.ask()
    with pytest.raises(KafkaError):
        list(bench.follower.answers(response(error=ErrorCode.UNKNOWN_SERVER_ERROR)))
    bench.ask()
    with pytest.raises(KafkaError):  # otherwise it would be asked again and again without a pause
        list(bench.follower.answers(response(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)))


def test_a_leader_without_sessions_is_asked_for_all_each_time() -> None:
    bench = Bench()
    for _ in range(2):
        request = bench.ask()
        assert (len(named(request)), request.session_epoch) == (2, 0)
        bench.answer(session_id=0)


def test_the_epoch_of_a_session_begins_again_at_one() -> None:
    bench = Bench()
    bench.ask()
    bench.answer()
    bench.follower._session_epoch = MAX_EPOCH
    bench.ask()
    bench.answer()
    assert bench.ask().session_epoch == 1


def test_after_a_lost_connection_all_are_named_and_the_session_is_closed() -> None:
    bench = Bench()
    bench.ask()
    bench.answer(data(0), data(1))
    bench.ask()
    bench.follower.lost()
    request = bench.ask()
    assert (len(named(request)), request.session_id, request.session_epoch) == (2, 9, 0)


def test_a_corrupt_batch_is_asked_for_again_later() -> None:
    bench = Bench(1)
    bench.ask()
    bad = data(0, b"x")
    assert isinstance(bad.records, memoryview)
    bad.records[-1] ^= 1
    bench.answer(bad)
    assert bench.partitions[0].log.log_end_offset == 0
    assert bench.follower.next_request(bench.now_ms, broker_epoch=77) is None
    bench.now_ms += 20
    bench.ask()  # the session knows the question
    bench.answer(data(0, b"x"))
    assert bench.partitions[0].log.log_end_offset == 1


def test_where_the_leaders_log_begins_is_taken_over_and_told_once_it_is_noted() -> None:
    bench = Bench(1)
    bench.ask()
    ((followed, _),) = bench.answer(data(0, b"a", b"b", b"c", high_watermark=3, start=2))
    assert bench.partitions[0].log.log_start_offset == 2
    assert bench.ask().topics[0].partitions[0].log_start_offset == 0
    bench.answer()
    followed.noted_start_offset = 2
    bench.follower.changed(followed)
    assert bench.ask().topics[0].partitions[0].log_start_offset == 2


def test_what_is_throttled_and_not_in_sync_is_asked_for_once_it_may_come() -> None:
    bench = Bench(3)
    moving, in_sync, other = bench.partitions
    for partition in (moving, in_sync):
        partition.log.configure(LogConfig().override({"follower.replication.throttled.replicas": "0:2,1:2"}))
    for partition in (moving, other):
        partition.follow(leader_id=LEADER, leader_epoch=3, partition_epoch=4, replicas=(1, 2), isr=(1,))
    bench.throttle.set_rate(200, bench.now_ms)
    bench.ask()
    bench.answer(data(0, b"x" * 500), data(1, b"x"), data(2, b"x"))
    request = bench.ask()
    assert (named(request), forgotten(request)) == ([(1, 1), (2, 1)], [0]), "1 is in sync, and 2 is not named by its topic"
    bench.answer(data(1, b"x", offset=1), data(2, b"x", offset=1))
    size = moving.log.size + in_sync.log.size
    waits_ms = (size - 200) * 1000 // 200 + 100
    assert waits_ms > 1000
    bench.now_ms += 1000
    request = bench.ask()
    assert (named(request), request.max_wait_ms) == ([(1, 2), (2, 2)], min(500, waits_ms - 1000)), "a fetch ends when more may come"
    bench.answer()
    bench.now_ms += waits_ms - 1000
    assert named(bench.ask()) == [(0, 1)]


def test_what_is_throttled_goes_on_when_the_rate_is_taken_away() -> None:
    bench = Bench(1)
    bench.partitions[0].log.configure(LogConfig().override({"follower.replication.throttled.replicas": "*"}))
    bench.partitions[0].follow(leader_id=LEADER, leader_epoch=3, partition_epoch=4, replicas=(1, 2), isr=(1,))
    bench.throttle.set_rate(1, bench.now_ms)
    bench.ask()
    bench.answer(data(0, b"x"))
    assert bench.follower.next_request(bench.now_ms, broker_epoch=77) is None
    bench.throttle.set_rate(MAX_LONG, bench.now_ms)
    due_ms = bench.follower.next_due_ms()
    assert due_ms == bench.now_ms + 1000
    bench.now_ms = due_ms
    assert named(bench.ask()) == [(0, 1)]
