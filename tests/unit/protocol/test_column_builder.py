"""Columns become the same bytes as records one by one."""

import random
import sys
import threading

import pytest

from moldau.protocol.records import column_builder, offset_deltas
from moldau.protocol.records.batch import read_header, verify_crc
from moldau.protocol.records.builder import BatchOptions, NewRecord, RecordBatchBuilder, stamp_producer
from moldau.protocol.records.column_builder import Columns, build_columns
from moldau.protocol.records.compression import Codec


def one_by_one(columns: Columns, options: BatchOptions) -> bytearray:
    builder = RecordBatchBuilder(options)
    for index, value in enumerate(columns.values):
        key = None if columns.keys is None else columns.keys[index]
        headers = () if columns.headers is None else columns.headers[index]
        builder.append(NewRecord(columns.timestamps[index], key, value, headers))
    return builder.build()


@pytest.mark.parametrize("seed", range(150))
def test_the_same_bytes(seed: int) -> None:
    choice = random.Random(seed)
    count = choice.choice((1, 2, 63, 64, 65, 300, 9000))
    sizes = choice.choice(((0, 1), (63, 65), (100, 100), (0, 400), (4085, 4100), (8170, 8195)))
    late_ms = choice.choice(((0, 0), (0, 63), (0, 64), (64, 8191), (64, 8192), (-5000, 5000)))

    def some(nulls: bool) -> list[bytes | None]:
        return [None if nulls and choice.random() < 0.1 else bytes(choice.randint(*sizes)) for _ in range(count)]

    now_ms = 1_750_000_000_000
    times = [now_ms, *(now_ms + choice.randint(*late_ms) for _ in range(count - 1))]
    if seed % 2:  # as a program sends: neighbours share a time
        times = sorted(choice.choice(times[: choice.choice((2, 5, count))]) for _ in times)
    columns = Columns(
        None if choice.random() < 0.3 else some(choice.random() < 0.3),
        some(choice.random() < 0.3),
        times,
        None if choice.random() < 0.7 else [[("h", b"1")] * choice.randint(0, 2) for _ in range(count)],
    )
    options = BatchOptions(codec=choice.choice(list(Codec)), producer_id=7, producer_epoch=1, base_sequence=5, is_transactional=True)
    assert build_columns(columns, options) == one_by_one(columns, options)


def test_a_stamp_is_as_if_it_had_been_there_from_the_start() -> None:
    columns = Columns([b"k"], [b"v"], [5])
    batch = build_columns(columns, BatchOptions())
    stamp_producer(batch, 1 << 40, 3, 77)
    assert batch == build_columns(columns, BatchOptions(producer_id=1 << 40, producer_epoch=3, base_sequence=77))
    assert verify_crc(memoryview(batch), 0, read_header(batch))


def test_threads_that_fill_the_tables_at_once_build_good_batches() -> None:
    """Producers on the loops of several threads share the tables."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            for table in (column_builder._tables, column_builder._heads, offset_deltas._known):
                table.cache_clear()
            begin = threading.Barrier(4)
            good: list[bool] = []

            def work(begin: threading.Barrier, good: list[bool]) -> None:
                columns = Columns(None, [bytes(size) for size in range(0, 6000, 7)], [1_750_000_000_000] * 858)
                begin.wait()
                good.append(build_columns(columns, BatchOptions()) == one_by_one(columns, BatchOptions()))

            threads = [threading.Thread(target=work, args=(begin, good)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert good == [True] * 4
    finally:
        sys.setswitchinterval(interval)
