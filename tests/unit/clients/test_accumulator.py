"""Records wait for company, leave in order, and come back in order."""

from moldau.clients.accumulator import Accumulator, Batching, size_of
from moldau.protocol.records.batch import records_of
from moldau.protocol.records.builder import NewRecord, RecordBatchBuilder
from moldau.protocol.records.compression import Codec
from moldau.types import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def a_record(number: int = 0, size: int = 10) -> NewRecord:
    return NewRecord(number, None, b"%d" % number + bytes(size))


def values(batch: bytearray) -> list[int]:
    return [record.timestamp for record in records_of(batch)]


def test_a_batch_is_due_after_its_linger() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(linger_ms=5))
    assert accumulator.next_due_in_ms(0) is None
    accumulator.append(ONE, a_record(), 0, now_ms=100)
    assert (accumulator.due(104), accumulator.next_due_in_ms(104)) == ([], 1)
    assert (accumulator.due(105), accumulator.next_due_in_ms(109)) == ([ONE], 0)


def test_flush_makes_everything_due() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(linger_ms=1000))
    accumulator.append(ONE, a_record(), 0, now_ms=0)
    accumulator.append(OTHER, a_record(), 0, now_ms=0)
    assert accumulator.due(0) == []
    assert accumulator.due(0, flush=True) == [ONE, OTHER]


def test_a_full_batch_is_due_at_once_and_the_next_record_opens_another() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(batch_bytes=1000, linger_ms=1000))
    for number in range(3):
        accumulator.append(ONE, a_record(number, 400), number, now_ms=0)
    assert accumulator.due(0) == [ONE]
    batch = accumulator.take(ONE)
    assert (batch.tokens, values(batch.encode())) == ([0, 1], [0, 1])


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(batch_bytes=100, linger_ms=1000))
    accumulator.append(ONE, a_record(1, 5000), 1, now_ms=0)
    assert accumulator.due(0) == [ONE]
    assert values(accumulator.take(ONE).encode()) == [1]


def test_one_batch_of_a_partition_is_in_flight_and_retries_keep_the_order() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(linger_ms=0))
    accumulator.append(ONE, a_record(1), 1, now_ms=0)
    first = accumulator.take(ONE)
    accumulator.append(ONE, a_record(2), 2, now_ms=0)
    assert accumulator.due(10) == []
    assert not accumulator.is_empty
    accumulator.put_back(first)
    again = accumulator.take(ONE)
    assert (again is first, again.attempts, again.tokens) == (True, 2, [1])
    accumulator.done(again)
    assert accumulator.take(ONE).tokens == [2]


def test_a_batch_that_was_sent_takes_no_more_records() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(linger_ms=0))
    accumulator.append(ONE, a_record(1), 1, now_ms=0)
    accumulator.put_back(accumulator.take(ONE))
    accumulator.append(ONE, a_record(2), 2, now_ms=0)
    assert accumulator.take(ONE).tokens == [1]


def test_room_is_counted_and_given_back() -> None:
    record = a_record(0, 500)
    accumulator: Accumulator[int] = Accumulator(Batching(buffer_bytes=1000))
    assert accumulator.has_room_for(a_record(0, 5000)), "an empty accumulator takes any record"
    accumulator.append(ONE, record, 0, now_ms=0)
    assert accumulator.buffered_bytes >= 61 + 500
    assert not accumulator.has_room_for(record)
    accumulator.done(accumulator.take(ONE))
    assert (accumulator.buffered_bytes, accumulator.is_empty) == (0, True)


def test_the_codec_is_applied() -> None:
    accumulator: Accumulator[int] = Accumulator(Batching(codec=Codec.ZSTD))
    accumulator.append(ONE, a_record(7, 10_000), 0, now_ms=0)
    encoded = accumulator.take(ONE).encode()
    assert len(encoded) < 200
    assert values(encoded) == [7]


def test_size_is_never_underestimated() -> None:
    for record in (
        NewRecord(1 << 62, b"k" * 70, b"v" * 20_000, [("ü" * 40, b"h" * 300), ("n", None)]),
        NewRecord(0),
        NewRecord(-5, b"", b""),
    ):
        builder = RecordBatchBuilder()
        builder.append(NewRecord(0))
        before = builder.size
        builder.append(record)
        assert builder.size - before <= size_of(record)
