"""What a consumer sees of a partition's answer: no markers, nothing aborted, nothing before the offset asked for."""

import pytest

from moldau.clients.fetched import read_fetched
from moldau.protocol.messages.fetch import AbortedTransaction, PartitionData
from moldau.protocol.records.batch import CorruptBatch
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import build_end_txn_marker
from moldau.types import TopicPartition

HERE = TopicPartition("t", 3)


def a_batch(base_offset: int, *values: bytes, producer_id: int = -1) -> bytearray:
    return build_batch(
        [NewRecord(1000 + base_offset, b"k", value, [("h", b"x"), ("n", None)]) for value in values],
        base_offset=base_offset,
        leader_epoch=5,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def a_marker(offset: int, producer_id: int, *, is_commit: bool) -> bytearray:
    return build_end_txn_marker(
        is_commit=is_commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1, base_offset=offset
    )


def an_answer(*batches: bytearray, aborted: list[tuple[int, int]] | None = None) -> PartitionData:
    transactions = [AbortedTransaction(producer_id=producer_id, first_offset=first) for producer_id, first in aborted or []]
    return PartitionData(
        partition_index=3, high_watermark=100, aborted_transactions=transactions, records=memoryview(b"".join(map(bytes, batches)))
    )


def test_records_are_copied_out() -> None:
    fetched = read_fetched(HERE, an_answer(a_batch(7, b"a", b"b")), 7)
    assert fetched.next_offset == 9
    assert fetched.records[1] == ("t", 3, 8, 1007, 0, b"k", b"b", (("h", b"x"), ("n", None)), 5)
    assert isinstance(fetched.records[1].value, bytes)


def test_nothing_before_the_offset_asked_for() -> None:
    fetched = read_fetched(HERE, an_answer(a_batch(0, b"a", b"b", b"c")), 2)
    assert [record.offset for record in fetched.records] == [2]


def test_a_torn_batch_is_left_for_the_next_fetch() -> None:
    fetched = read_fetched(HERE, an_answer(a_batch(0, b"a"), a_batch(1, b"b")[:-1]), 0)
    assert (len(fetched.records), fetched.next_offset) == (1, 1)


def test_markers_move_the_position_only() -> None:
    fetched = read_fetched(HERE, an_answer(a_batch(0, b"a", producer_id=9), a_marker(1, 9, is_commit=True)), 0)
    assert ([record.value for record in fetched.records], fetched.next_offset) == ([b"a"], 2)


def test_no_answer_is_no_records() -> None:
    assert read_fetched(HERE, PartitionData(partition_index=3, high_watermark=0, aborted_transactions=None, records=None), 4) == ([], 4)


def test_aborted_transactions_are_skipped_up_to_their_marker() -> None:
    answer = an_answer(
        a_batch(0, b"aborted", producer_id=9),
        a_batch(1, b"plain"),
        a_batch(2, b"other", producer_id=8),
        a_marker(3, 9, is_commit=False),
        a_batch(4, b"committed", producer_id=9),
        a_marker(5, 9, is_commit=True),
        a_marker(6, 8, is_commit=True),
        aborted=[(9, 0)],
    )
    committed = read_fetched(HERE, answer, 0, read_committed=True)
    assert [record.value for record in committed.records] == [b"plain", b"other", b"committed"]
    assert committed.next_offset == 7
    everything = read_fetched(HERE, answer, 0)
    assert [record.value for record in everything.records] == [b"aborted", b"plain", b"other", b"committed"]


def test_two_aborts_of_one_producer() -> None:
    answer = an_answer(
        a_batch(0, b"first", producer_id=9),
        a_marker(1, 9, is_commit=False),
        a_batch(2, b"second", producer_id=9),
        a_marker(3, 9, is_commit=False),
        aborted=[(9, 2), (9, 0)],
    )
    assert read_fetched(HERE, answer, 0, read_committed=True) == ([], 4)


def test_a_flipped_bit_is_found() -> None:
    batch = a_batch(0, b"a")
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="t-3: the batch at offset 0"):
        read_fetched(HERE, an_answer(batch), 0)
