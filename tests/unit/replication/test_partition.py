from dataclasses import dataclass, field
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.partition import Isolation, Partition
from moldau.replication.waits import FetchWait, ProduceWait
from moldau.storage.config import LogConfig
from moldau.storage.log import AppendResult, Log
from moldau.storage.validator import AppendFailure
from moldau.testing.files import MemoryFiles
from moldau.types import FileSlice, TopicPartition

NOW_MS = 1_700_000_000_000
STEADY_MS = 5_000
HIGH, END = Isolation.HIGH_WATERMARK, Isolation.LOG_END


@dataclass
class Slot:
    error_code: int = 0


@dataclass
class Bench:
    """A partition on a log in memory, and the flushes that it asked for."""

    partition: Partition
    wanted: list[Log] = field(default_factory=list)

    def append(self, *values: bytes, acks: int = 1) -> AppendResult:
        result = self.try_append(*values, acks=acks)
        assert isinstance(result, AppendResult), result
        return result

    def try_append(self, *values: bytes, acks: int = 1) -> AppendResult | AppendFailure:
        return self.partition.append_from_client(batch(*values), acks=acks, now_ms=NOW_MS)

    def flush(self) -> None:
        self.partition.log.flush()
        self.partition.flushed()

    def lead(self, *, epoch: int = 1, replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] = (1,)) -> None:
        self.partition.lead(
            leader_epoch=epoch, partition_epoch=epoch, replicas=replicas, isr=isr, eligible=dict.fromkeys(replicas, 1), now_ms=STEADY_MS
        )

    def fetched(self, broker_id: int, offset: int) -> None:
        self.partition.follower_fetched(broker_id, offset=offset, log_start_offset=0, broker_epoch=1, now_ms=STEADY_MS)


def batch(*values: bytes) -> bytearray:
    return build_batch([NewRecord(value=value, timestamp=NOW_MS) for value in values])


def make(**properties: str) -> Bench:
    files = MemoryFiles()
    files.mkdir("/data/t-0")
    config = LogConfig.load({key.replace("_", "."): value for key, value in properties.items()})
    name = TopicPartition("t", 0)
    log = Log.open(files, "/data/t-0", name, config, now_ms=NOW_MS)
    wanted: list[Log] = []
    partition = Partition(name, UUID(int=7), log, local_id=1, lag_time_max_ms=30_000, on_flush_wanted=wanted.append)
    return Bench(partition, wanted)


@pytest.fixture
def bench() -> Bench:
    bench = make()
    bench.lead()
    return bench


def test_alone_what_is_appended_is_seen_at_once(bench: Bench) -> None:
    assert bench.append(b"one", b"two").first_offset == 0
    assert bench.append(b"three").first_offset == 2
    assert bench.partition.log.high_watermark == 3
    found = bench.partition.read(0, 1 << 20, HIGH, min_one_batch=True)
    assert isinstance(found.records, FileSlice)
    assert (found.error_code, found.high_watermark, found.last_stable_offset, found.log_start_offset) == (0, 3, 3, 0)
    assert found.aborted_transactions is None


def test_a_reader_at_the_end_gets_nothing_and_no_error(bench: Bench) -> None:
    bench.append(b"one")
    found = bench.partition.read(1, 1 << 20, HIGH, min_one_batch=True)
    assert (found.error_code, found.records, found.high_watermark) == (0, b"", 1)


@pytest.mark.parametrize("offset", [-1, 2, 99])
def test_a_reader_outside_the_log_is_told(bench: Bench, offset: int) -> None:
    bench.append(b"one")
    found = bench.partition.read(offset, 1 << 20, HIGH, min_one_batch=True)
    assert (found.error_code, found.high_watermark, found.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)


def test_read_committed_gets_a_list_of_aborted_transactions(bench: Bench) -> None:
    bench.append(b"one")
    assert bench.partition.read(0, 1 << 20, Isolation.COMMITTED_TRANSACTIONS, min_one_batch=True).aborted_transactions == []
    assert bench.partition.read(1, 1 << 20, Isolation.COMMITTED_TRANSACTIONS, min_one_batch=True).aborted_transactions == []


def test_only_the_leader_appends(bench: Bench) -> None:
    bench.partition.follow(leader_id=2, leader_epoch=2, partition_epoch=2, replicas=(1, 2), isr=(1, 2))
    failure = bench.try_append(b"one")
    assert isinstance(failure, AppendFailure)
    assert failure.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_waits_for_stable_storage(bench: Bench) -> None:
    answered: list[bool] = []
    wait, slot = ProduceWait(lambda: answered.append(True)), Slot()
    end = bench.append(b"one", acks=-1).last_offset + 1
    assert not bench.partition.await_acknowledgement(end, wait, slot)
    assert bench.wanted == [bench.partition.log]
    assert not answered
    bench.flush()
    assert answered == [True]
    assert slot.error_code == ErrorCode.NONE


def test_acks_all_waits_for_no_storage_with_flush_policy_os() -> None:
    bench = make(log_flush_policy="os")
    bench.lead()
    end = bench.append(b"one", acks=-1).last_offset + 1
    assert bench.partition.await_acknowledgement(end, ProduceWait(lambda: None), Slot())
    assert bench.wanted == []


def test_acks_all_waits_for_every_replica_in_sync() -> None:
    bench = make(log_flush_policy="os")
    bench.lead(replicas=(1, 2, 3), isr=(1, 2))
    answered: list[bool] = []
    slot = Slot()
    end = bench.append(b"one", acks=-1).last_offset + 1
    assert not bench.partition.await_acknowledgement(end, ProduceWait(lambda: answered.append(True)), slot)
    assert bench.partition.log.high_watermark == 0
    bench.fetched(2, 1)
    assert bench.partition.log.high_watermark == 1
    assert answered == [True]


def test_too_few_in_sync_refuse_acks_all_before_the_append() -> None:
    bench = make(min_insync_replicas="2")
    bench.lead(replicas=(1, 2), isr=(1,))
    failure = bench.try_append(b"one", acks=-1)
    assert isinstance(failure, AppendFailure)
    assert failure.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.append(b"one", acks=1).last_offset == 0
    assert bench.partition.log.high_watermark == 0  # a record that too few replicas hold is not committed


def test_one_replica_is_never_too_few_when_there_is_only_one() -> None:
    bench = make(min_insync_replicas="2")
    bench.lead()
    assert bench.append(b"one", acks=-1).last_offset == 0


def test_a_set_that_shrank_after_the_append_is_told() -> None:
    bench = make(min_insync_replicas="2", log_flush_policy="os")
    bench.lead(replicas=(1, 2, 3), isr=(1, 2))
    slot = Slot()
    end = bench.append(b"one", acks=-1).last_offset + 1
    bench.partition.await_acknowledgement(end, ProduceWait(lambda: None), slot)
    bench.fetched(2, 1)
    assert slot.error_code == ErrorCode.NONE


def test_losing_the_leadership_settles_who_waits(bench: Bench) -> None:
    bench.lead(replicas=(1, 2), isr=(1, 2))
    slot, woken = Slot(), []
    end = bench.append(b"one", acks=-1).last_offset + 1
    bench.partition.await_acknowledgement(end, ProduceWait(lambda: woken.append("produce")), slot)
    bench.partition.park_fetch(FetchWait(1, lambda: woken.append("fetch")), 1, HIGH, max_bytes=100, available_bytes=0)
    bench.partition.follow(leader_id=2, leader_epoch=2, partition_epoch=2, replicas=(1, 2), isr=(2,))
    assert woken == ["produce", "fetch"]
    assert slot.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("how", ["nobody leads", "this broker stops"])
def test_what_is_committed_is_acknowledged_by_who_no_longer_leads(bench: Bench, how: str) -> None:
    """Only the disk is awaited.  A producer that is told otherwise sends the record again; an idempotent one is lost after a restart."""
    slot, woken = Slot(), []
    end = bench.append(b"one", acks=-1).last_offset + 1
    bench.partition.await_acknowledgement(end, ProduceWait(lambda: woken.append("produce")), slot)
    if how == "nobody leads":
        bench.partition.follow(leader_id=-1, leader_epoch=2, partition_epoch=2, replicas=(1,), isr=())
    else:
        bench.partition.resign()
    assert woken == []
    bench.flush()
    assert woken == ["produce"] and slot.error_code == ErrorCode.NONE


def test_a_failed_disk_settles_who_waits(bench: Bench) -> None:
    slot = Slot()
    end = bench.append(b"one", acks=-1).last_offset + 1
    bench.partition.await_acknowledgement(end, ProduceWait(lambda: None), slot)
    bench.partition.failed()
    assert slot.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_parked_reader_is_woken_by_growth(bench: Bench) -> None:
    woken: list[str] = []
    bench.append(b"one")
    bench.partition.park_fetch(FetchWait(1, lambda: woken.append("at the end")), 1, HIGH, max_bytes=1 << 20, available_bytes=0)
    bench.partition.park_fetch(FetchWait(1, lambda: woken.append("beyond")), 2, HIGH, max_bytes=1 << 20, available_bytes=0)
    bench.append(b"two")
    assert woken == ["at the end"]


def test_a_parked_reader_waits_for_the_bytes_it_asked_for(bench: Bench) -> None:
    woken: list[bool] = []
    size = len(batch(b"x" * 100))
    wait = FetchWait(3 * size - 1, lambda: woken.append(True))
    bench.partition.park_fetch(wait, 0, HIGH, max_bytes=1 << 20, available_bytes=0)
    bench.append(b"x" * 100)
    bench.append(b"x" * 100)
    assert not woken
    bench.append(b"x" * 100)
    assert woken


def test_a_parked_reader_sees_no_further_than_its_isolation() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1, 2))
    woken: list[str] = []
    bench.partition.park_fetch(FetchWait(1, lambda: woken.append("consumer")), 0, HIGH, max_bytes=1 << 20, available_bytes=0)
    bench.partition.park_fetch(FetchWait(1, lambda: woken.append("follower")), 0, END, max_bytes=1 << 20, available_bytes=0)
    bench.append(b"one")
    assert woken == ["follower"]
    bench.fetched(2, 1)
    assert woken == ["follower", "consumer"]


def test_epochs_fence_old_and_early_readers(bench: Bench) -> None:
    bench.lead(epoch=5)
    assert bench.partition.refusal_of(-1, from_leader_only=True) is ErrorCode.NONE
    assert bench.partition.refusal_of(5, from_leader_only=True) is ErrorCode.NONE
    assert bench.partition.refusal_of(4, from_leader_only=True) is ErrorCode.FENCED_LEADER_EPOCH
    assert bench.partition.refusal_of(6, from_leader_only=True) is ErrorCode.UNKNOWN_LEADER_EPOCH
    bench.partition.follow(leader_id=2, leader_epoch=6, partition_epoch=6, replicas=(1, 2), isr=(2,))
    assert bench.partition.refusal_of(6, from_leader_only=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.partition.refusal_of(6, from_leader_only=False) is ErrorCode.NONE


def test_a_diverging_reader_is_told_where_the_logs_part(bench: Bench) -> None:
    bench.append(b"one", b"two")
    bench.lead(epoch=3)
    bench.append(b"three")
    diverging = bench.partition.read(3, 1 << 20, END, min_one_batch=True, last_fetched_epoch=1)
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (1, 2)
    assert diverging.records == b""
    agreeing = bench.partition.read(2, 1 << 20, END, min_one_batch=True, last_fetched_epoch=1)
    assert agreeing.diverging_epoch.epoch == -1
    assert len(agreeing.records or b"") > 0
    unknown = bench.partition.read(3, 1 << 20, END, min_one_batch=True, last_fetched_epoch=9)
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("epoch", [-1, -2, -(1 << 31)])
def test_any_negative_epoch_of_the_last_record_means_unknown(bench: Bench, epoch: int) -> None:
    """Source: FetchRequest.optionalEpoch."""
    bench.append(b"one", b"two")
    found = bench.partition.read(1, 100, END, min_one_batch=True, last_fetched_epoch=epoch)
    assert len(found.records or b"") > 0


def test_the_in_sync_set_grows_and_shrinks_by_what_is_fetched() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1,))
    bench.append(b"one")
    bench.fetched(2, 0)
    assert not bench.partition.wants_to_expand(2)
    bench.fetched(2, 1)
    assert bench.partition.wants_to_expand(2)
    bench.lead(replicas=(1, 2), isr=(1, 2))
    assert not bench.partition.wants_to_expand(2)
    bench.append(b"two")
    assert bench.partition.fallen_behind(STEADY_MS + 30_000) == []
    assert bench.partition.fallen_behind(STEADY_MS + 30_001) == [2]


def test_the_wall_clock_of_records_puts_no_follower_out_of_sync() -> None:
    """The machine's clock stands a century behind or ahead of the clock by which followers are judged."""
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1,))
    bench.fetched(2, 0)
    bench.append(b"one")
    assert bench.partition.log.high_watermark == 0, "the follower keeps up and is about to join"
    assert bench.partition.fallen_behind(STEADY_MS) == []


def test_a_follower_that_never_fetched_does_not_keep_up_however_young_the_steady_clock_is() -> None:
    bench = make()
    bench.partition.lead(leader_epoch=1, partition_epoch=1, replicas=(1, 2), isr=(1,), eligible={1: 1, 2: 1}, now_ms=5)
    bench.append(b"one")
    assert bench.partition.log.high_watermark == 1
    bench.partition.follower_fetched(2, offset=0, log_start_offset=0, broker_epoch=1, now_ms=10)
    bench.append(b"two")
    assert bench.partition.log.high_watermark == 2, "the follower has asked for the first time, from far behind"


def test_the_low_watermark_is_the_slowest_followers() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1, 2))
    bench.append(b"one", b"two")
    bench.fetched(2, 2)
    assert bench.partition.log.delete_records_before(1) == 1
    assert bench.partition.low_watermark == 0
    bench.partition.follower_fetched(2, offset=2, log_start_offset=1, broker_epoch=1, now_ms=STEADY_MS)
    assert bench.partition.low_watermark == 1


def test_below_min_insync_a_followers_parked_fetch_wakes_all_the_same() -> None:
    bench = make(min_insync_replicas="2")
    bench.lead(replicas=(1, 2, 3), isr=(1,))
    woken: list[bool] = []
    bench.partition.park_fetch(FetchWait(1, lambda: woken.append(True)), 0, END, max_bytes=1 << 20, available_bytes=0)
    bench.append(b"one", acks=1)
    assert woken == [True], "a follower that is to join has to learn of the record"
    assert bench.partition.log.high_watermark == 0


def test_a_replica_that_is_fenced_holds_the_high_watermark_no_longer() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1,))
    bench.fetched(2, 0)
    bench.append(b"one")
    assert bench.partition.log.high_watermark == 0, "the follower keeps up and is about to join"
    bench.partition.take_eligible({1: 1}, STEADY_MS)
    assert bench.partition.log.high_watermark == 1


def test_one_that_keeps_up_no_more_holds_the_high_watermark_no_longer() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1,))
    bench.fetched(2, 0)
    bench.append(b"one")
    bench.partition.shrink_isr(STEADY_MS + 30_000)
    assert bench.partition.log.high_watermark == 0
    bench.partition.shrink_isr(STEADY_MS + 30_001)
    assert bench.partition.log.high_watermark == 1


def test_what_a_broker_had_in_an_earlier_life_lets_it_join_nothing() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1,))
    bench.fetched(2, 0)
    assert bench.partition.wants_to_expand(2)
    assert not bench.partition.is_stale(2, 1)
    bench.partition.take_eligible({1: 1, 2: 2}, STEADY_MS)
    assert not bench.partition.wants_to_expand(2)
    assert bench.partition.is_stale(2, 1)
    assert not bench.partition.is_stale(2, -1), "a broker without an epoch is believed"
    bench.partition.follower_fetched(2, offset=0, log_start_offset=0, broker_epoch=2, now_ms=STEADY_MS)
    assert bench.partition.wants_to_expand(2)


@dataclass
class Deletion:
    low_watermark: int = 0
    error_code: int = 0


def test_a_deletion_waits_until_every_replica_that_is_there_has_done_it() -> None:
    bench = make()
    bench.lead(replicas=(1, 2, 3), isr=(1, 2, 3))
    bench.append(b"one", b"two")
    bench.fetched(2, 2)
    bench.fetched(3, 2)
    assert bench.partition.delete_records_before(2) == 2
    done: list[int] = []
    slot = Deletion()
    wait = ProduceWait(lambda: done.append(slot.error_code))
    bench.partition.await_deletion(2, wait, slot)
    bench.partition.follower_fetched(2, offset=2, log_start_offset=2, broker_epoch=1, now_ms=STEADY_MS)
    assert (done, slot.error_code) == ([], ErrorCode.REQUEST_TIMED_OUT)
    bench.partition.take_eligible({1: 1, 2: 1}, STEADY_MS)  # nobody waits for a replica that is gone
    assert (done, slot.low_watermark) == ([ErrorCode.NONE], 2)


def test_a_deletion_is_refused_when_the_partition_is_led_no_more() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1, 2))
    bench.append(b"one")
    bench.fetched(2, 1)
    bench.partition.delete_records_before(1)
    slot = Deletion()
    done: list[int] = []
    bench.partition.await_deletion(1, ProduceWait(lambda: done.append(slot.error_code)), slot)
    bench.partition.follow(leader_id=2, leader_epoch=2, partition_epoch=2, replicas=(1, 2), isr=(1, 2))
    assert (done, slot.low_watermark) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], -1)


def test_what_followers_said_under_an_earlier_epoch_of_this_leader_counts_no_more() -> None:
    bench = make()
    bench.lead(replicas=(1, 2), isr=(1, 2))
    bench.append(b"one")
    bench.fetched(2, 1)
    bench.partition.follow(leader_id=2, leader_epoch=2, partition_epoch=2, replicas=(1, 2), isr=(1, 2))
    bench.lead(epoch=3, replicas=(1, 2), isr=(1, 2))
    bench.append(b"two")
    assert bench.partition.followers[2].log_end_offset == -1
    assert bench.partition.log.high_watermark == 1
