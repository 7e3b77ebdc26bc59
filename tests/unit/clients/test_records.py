"""A consumer sees no markers in a partition's answer, nothing aborted, and nothing before the offset asked for."""

import random
from typing import Any, NamedTuple

import pytest

from moldau.clients.records import ConsumerRecord, Records, read_columns, read_partition
from moldau.protocol.messages.fetch import AbortedTransaction, PartitionData
from moldau.protocol.records.batch import HEADER_SIZE, CorruptBatch, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
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


def read(*given: Any, **named: Any) -> tuple[list[ConsumerRecord], int]:
    fetched = read_partition(*given, **named)
    found = [record for records in fetched.records for record in records]
    assert len(found) == sum(map(len, fetched.records))
    return Read(found, fetched.next_offset)


class Read(NamedTuple):
    records: list[ConsumerRecord]
    next_offset: int


def test_records_are_copied_out() -> None:
    fetched = read(HERE, an_answer(a_batch(7, b"a", b"b")), 7)
    assert fetched.next_offset == 9
    assert fetched.records[1] == ("t", 3, 8, 1007, 0, b"k", b"b", (("h", b"x"), ("n", None)), 5, None)
    assert isinstance(fetched.records[1].value, bytes)


def test_nothing_before_the_offset_asked_for() -> None:
    fetched = read(HERE, an_answer(a_batch(0, b"a", b"b", b"c")), 2)
    assert [record.offset for record in fetched.records] == [2]


def test_a_torn_batch_is_left_for_the_next_fetch() -> None:
    fetched = read(HERE, an_answer(a_batch(0, b"a"), a_batch(1, b"b")[:-1]), 0)
    assert (len(fetched.records), fetched.next_offset) == (1, 1)


def test_markers_move_the_position_only() -> None:
    fetched = read(HERE, an_answer(a_batch(0, b"a", producer_id=9), a_marker(1, 9, is_commit=True)), 0)
    assert ([record.value for record in fetched.records], fetched.next_offset) == ([b"a"], 2)


def test_no_answer_is_no_records() -> None:
    assert read(HERE, PartitionData(partition_index=3, high_watermark=0, aborted_transactions=None, records=None), 4) == ([], 4)


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
    committed = read(HERE, answer, 0, read_committed=True)
    assert [record.value for record in committed.records] == [b"plain", b"other", b"committed"]
    assert committed.next_offset == 7
    everything = read(HERE, answer, 0)
    assert [record.value for record in everything.records] == [b"aborted", b"plain", b"other", b"committed"]


def test_two_aborts_of_one_producer() -> None:
    answer = an_answer(
        a_batch(0, b"first", producer_id=9),
        a_marker(1, 9, is_commit=False),
        a_batch(2, b"second", producer_id=9),
        a_marker(3, 9, is_commit=False),
        aborted=[(9, 2), (9, 0)],
    )
    assert read(HERE, answer, 0, read_committed=True) == ([], 4)


def test_a_flipped_bit_is_found() -> None:
    batch = a_batch(0, b"a")
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="t-3: the batch at offset 0"):
        read(HERE, an_answer(batch), 0)


@pytest.mark.parametrize("seed", range(40))
def test_columns_are_what_records_are_one_by_one(seed: int) -> None:
    choice = random.Random(seed)
    made = [
        NewRecord(
            choice.choice((1000, 1001, 1_750_000_000_000, 5)),
            choice.choice((None, b"", b"k", bytes(100))),
            choice.choice((None, b"", b"value", bytes(70), bytes(20_000))),
            [("h", b"1")] if choice.random() < 0.1 and seed % 2 else (),
        )
        for _ in range(choice.choice((1, 3, 300)))
    ]
    batch = memoryview(build_batch(made, base_offset=7, codec=choice.choice(list(Codec))))
    found = list(Records(HERE, read_header(batch), batch, 0))
    assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in found] == [
        (7 + number, one.timestamp, one.key, one.value, tuple(one.headers)) for number, one in enumerate(made)
    ]


@pytest.mark.parametrize("seed", range(300))
def test_damaged_bytes_are_records_or_corrupt(seed: int) -> None:
    """Both readers say the same of damaged bytes."""
    choice = random.Random(seed)
    batch = build_batch([NewRecord(1000 + number, b"key", bytes(number)) for number in range(choice.randint(1, 20))])
    for _ in range(choice.randint(1, 3)):
        batch[choice.randrange(HEADER_SIZE, len(batch))] = choice.choice((0, 1, 0x7F, 0x80, 0xFF, choice.randrange(256)))
    view = memoryview(batch)
    try:
        expected = [(one.offset, one.key and bytes(one.key), one.value and bytes(one.value)) for one in records_of(view)]
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            read_columns(read_header(view), view)
        return
    columns = read_columns(read_header(view), view)
    assert list(zip(columns.offsets, [one and bytes(one) for one in columns.keys], columns.values, strict=True)) == expected


def test_a_record_that_cannot_be_deserialized_keeps_its_bytes() -> None:
    def read_number(value: bytes) -> int:
        return int(value)

    fetched = read_partition(HERE, an_answer(a_batch(0, b"1", b"x", b"3")), 0, value_deserializer=read_number)
    found = list(fetched.records[0])
    assert [record.value for record in found] == [1, b"x", 3]
    assert [isinstance(record.error, ValueError) for record in found] == [False, True, False]
    with pytest.raises(ValueError, match="invalid literal"):
        _ = fetched.records[0].values
    assert fetched.records[0].raw_values == [b"1", b"x", b"3"]


def test_a_poll_of_few_records_cuts_a_batch() -> None:
    (whole,) = read_partition(HERE, an_answer(a_batch(5, b"a", b"b", b"c")), 5).records
    head, rest = whole.first(2)
    assert rest is not None
    assert (head.values, head.next_offset, rest.values, rest.next_offset, len(head), len(rest)) == ([b"a", b"b"], 7, [b"c"], 8, 2, 1)


def test_arrow() -> None:
    pytest.importorskip("pyarrow", reason="an extra")
    (records,) = read_partition(HERE, an_answer(a_batch(5, b"a", b"b")), 5).records
    table = records.to_arrow().to_pydict()
    assert (table["value"], table["offset"], table["partition"]) == ([b"a", b"b"], [5, 6], [3, 3])


def test_a_batch_is_cut_as_often_as_it_has_records() -> None:
    values = [b"%d" % number for number in range(3000)]
    records = read_partition(TopicPartition("t", 0), an_answer(a_batch(5, *values)), 0).records[0]
    rest: Records | None = records
    found = []
    while rest is not None:
        head, rest = rest.first(1)
        found += head.values
        last = head
    assert found == values
    assert (last.offsets, len(last.timestamps), last.headers) == ([3004], 1, records.headers[-1:])
    assert records.after(3003) is not None
    assert records.after(3004) is None
