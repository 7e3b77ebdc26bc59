"""◇ One batch from columns of keys and values: no object and no call per record.  The records have neither headers nor offsets of their
own.

    batch = build_columns(Columns([b"k"], [b"v"], [now_ms]), BatchOptions(codec=Codec.ZSTD))

A record is nine pieces at most, each looked up in a table by a length or a position.  The pieces are laid out and joined without a Python
loop over them.  A record of 100 bytes takes about 0.3 µs; `RecordBatchBuilder` needs several times that, and takes every kind of record.

Guarantee: the same bytes as `RecordBatchBuilder` makes.  Called by producers.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, repeat
from operator import add
from typing import Final, NamedTuple

from moldau.protocol.records.builder import BatchOptions, NewRecord, RecordBatchBuilder, seal_batch
from moldau.protocol.records.offset_deltas import WIDTHS, offset_deltas
from moldau.protocol.varint import write_signed

Headers = Sequence[tuple[str, bytes | None]]

NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\x00"
_MOST_TABLED: Final = 1 << 13
"""Larger records are written without tables: their own bytes cost more than their numbers."""
_MOST_NUMBER_BYTES: Final = 5 + 5 + 3
"""Two lengths, and a time that is found in a table."""
_FIXED_BYTES: Final = 2
"""Attributes and the count of headers."""
_SHORTEST_RUN: Final = 8
"""Shorter runs of equal times, on average, are written a record at a time."""

Run = tuple[int, int]
"""Neighbouring records with one timestamp: how far it is from the first one, and how many records have it."""


class Columns(NamedTuple):
    """Records side by side; all lists have the same length.  `keys` and `headers` None: no record has any."""

    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers] | None = None


def build_columns(columns: Columns, options: BatchOptions) -> bytearray:
    """The whole batch, with its CRC."""
    return sealing_of(columns, options)()


def sealing_of(columns: Columns, options: BatchOptions) -> Callable[[], bytearray]:
    """Lay the records out.  Returns what is left to do for the batch: compression and checksum, which any thread may do."""
    keys, values, timestamps, headers = columns
    if headers is not None or None in values or (keys is not None and None in keys):
        return _sealing_one_by_one(columns, options)
    base, latest = timestamps[0], timestamps[-1]
    if latest == base and timestamps.count(base) == len(timestamps):
        runs: list[Run] | None = []
    else:
        runs = _runs(timestamps)
        latest = latest if runs is not None else max(timestamps)
    data = _encode(keys, values, timestamps, runs)  # type: ignore[arg-type]  # no None is among them
    return partial(seal_batch, data, options, count=len(values), base_timestamp=base, max_timestamp=latest)


def _sealing_one_by_one(columns: Columns, options: BatchOptions) -> Callable[[], bytearray]:
    keys, values, timestamps, headers = columns
    builder = RecordBatchBuilder(options)
    for key, value, timestamp, of_record in zip(keys or repeat(None), values, timestamps, headers or repeat(()), strict=False):
        builder.append(NewRecord(timestamp, key, value, of_record))
    return builder.sealing()


def _runs(timestamps: Sequence[int]) -> list[Run] | None:
    """The runs of equal timestamps: a program that sends in a loop sends many records within a millisecond.

    None: the times fall somewhere, or the runs are too short to be worth it.
    """
    if sorted(timestamps) != timestamps:
        return None
    base, count, end, runs = timestamps[0], len(timestamps), 0, list[Run]()
    while end < count and len(runs) * _SHORTEST_RUN < count:
        start = end
        end = bisect_right(timestamps, timestamps[start], start)
        runs.append((timestamps[start] - base, end - start))
    return runs if end == count else None


def _encode(keys: Sequence[bytes] | None, values: Sequence[bytes], timestamps: Sequence[int], runs: Sequence[Run] | None) -> bytes:
    """The records' bytes: length, attributes, timestamp delta, offset delta, key, value, no headers.

    `runs`: of the timestamps, if they are known; empty: all are equal.
    """
    sizes = list(map(len, values))
    key_sizes = None if keys is None else list(map(len, keys))
    most = max(sizes) + (0 if key_sizes is None else max(key_sizes)) + _MOST_NUMBER_BYTES
    is_tabled = most <= _MOST_TABLED
    if runs is not None and not runs:
        return _encode_tabled(keys, values, None, sizes, key_sizes, most) if is_tabled else _encode_any(keys, values, None)
    base = timestamps[0]
    if runs is not None and is_tabled and (latest := runs[-1][0]) <= _MOST_TABLED:
        written = _tables(1 << latest.bit_length())[1]
        times = list(chain.from_iterable(repeat(written[delta], count) for delta, count in runs))
        return _encode_tabled(keys, values, times, sizes, key_sizes, most, len(times[-1]) if len(times[-1]) == len(times[0]) else 0)
    deltas = [timestamp - base for timestamp in timestamps]
    latest = max(deltas)
    if not is_tabled or min(deltas) < 0 or latest > _MOST_TABLED:
        return _encode_any(keys, values, deltas)
    times = list(map(_tables(1 << latest.bit_length())[1].__getitem__, deltas))
    return _encode_tabled(keys, values, times, sizes, key_sizes, most)


def _encode_tabled(
    keys: Sequence[bytes] | None,
    values: Sequence[bytes],
    times: Sequence[bytes] | None,
    sizes: Sequence[int],
    key_sizes: Sequence[int] | None,
    most: int,
    time_size: int = 0,
) -> bytes:  # hot: 0.2 µs a record
    """Records whose numbers are found in tables.  No key and value with their lengths have more than `most` bytes.

    `time_size`: the bytes of each time; 0: they differ.
    """
    count = len(values)
    offsets = offset_deltas(count)
    limit = 1 << most.bit_length()
    with_length, lengths, null_and_lengths = _tables(limit)
    fields: Iterable[int] = map(with_length.__getitem__, sizes)
    if key_sizes is not None:
        fields = map(add, fields, map(with_length.__getitem__, key_sizes))
    if times is not None and not time_size:
        fields = map(add, fields, map(len, times))
    fields = list(fields)
    fixed = (time_size if times is not None else 1) + (0 if keys is not None else 1) + _FIXED_BYTES
    heads: list[bytes] = []
    start = 0
    for width, end in enumerate((*WIDTHS, count), 1):
        table = _heads(limit, fixed + width, times is not None)
        heads += map(table.__getitem__, fields[start:end])
        start = end
        if end >= count:
            break
    heads[0] = heads[0][1:]  # no record ends before the first
    parts: list[Iterable[bytes]] = [heads] if times is None else [heads, times]
    parts.append(offsets)
    if keys is None:
        parts.append(map(null_and_lengths.__getitem__, sizes))
    else:
        parts += [map(lengths.__getitem__, key_sizes or ()), keys, map(lengths.__getitem__, sizes)]
    parts.append(values)
    return b"".join(chain(chain.from_iterable(zip(*parts, strict=True)), (_NO_HEADERS,)))


def _encode_any(keys: Sequence[bytes] | None, values: Sequence[bytes], timestamp_deltas: Sequence[int] | None) -> bytes:
    """The same without tables, for large records and times that are not in the tables.  The parts give the body's size."""
    count = len(values)
    offsets = offset_deltas(count)
    value_sizes = list(map(len, values))
    value_heads = list(map(_length, value_sizes))
    sizes: Iterable[int] = map(add, value_sizes, map(len, value_heads))
    sizes = map(add, sizes, map(len, offsets))
    if keys is None:
        key_parts: tuple[Iterable[bytes], ...] = (repeat(NULL, count),)
        key_size = 1
    else:
        key_sizes = list(map(len, keys))
        key_heads = list(map(_length, key_sizes))
        sizes = map(add, map(add, sizes, key_sizes), map(len, key_heads))
        key_parts = (key_heads, keys)
        key_size = 0
    if timestamp_deltas is None:
        times: Iterable[bytes] = repeat(b"\x00", count)
        fixed = key_size + 3
    else:
        times = list(map(_time, timestamp_deltas))
        sizes = map(add, sizes, map(len, times))
        fixed = key_size + 2
    heads = map(_record_head, map(add, sizes, repeat(fixed, count)))
    pieces = zip(heads, times, offsets, *key_parts, value_heads, values, repeat(_NO_HEADERS, count), strict=True)
    return b"".join(chain.from_iterable(pieces))


_time: Final = lru_cache(maxsize=8192)(write_signed)
_length: Final = lru_cache(maxsize=8192)(write_signed)


@lru_cache(maxsize=8192)
def _record_head(size: int) -> bytes:
    """A record's length and its attributes, of which Kafka defines none."""
    return write_signed(size) + b"\x00"


# Tables are never changed, because producers on several threads share them.  Their limits are powers of two, so that they are few.


@cache
def _tables(limit: int) -> tuple[list[int], list[bytes], list[bytes]]:
    """By the size of a key or value: its bytes together with its length's, the length as it is written, and that behind no key."""
    lengths = list(map(write_signed, range(limit)))
    return [size + len(written) for size, written in enumerate(lengths)], lengths, [NULL + written for written in lengths]


@cache
def _heads(limit: int, fixed: int, is_timed: bool) -> list[bytes]:
    """By the size of what takes no fixed place: the end of the record before, a record's length and attributes, and time 0 unless
    `is_timed`.
    """
    tail = b"\x00" if is_timed else b"\x00\x00"
    return [_NO_HEADERS + write_signed(size + fixed) + tail for size in range(limit)]
