"""◇ Turns one partition's part of a Fetch response into batches for a consumer.  Their columns are read when they are asked for.

    fetched = read_partition(topic_partition, answer, fetch_offset, read_committed=True)
    for records in fetched.records:                 # one `Records` a stored batch
        records.values                              # decompressed and read now, once, as lists side by side
        for record in records: …                    # or one by one

Control records are left out; with read_committed the records of aborted transactions are, too.  A transaction of `producer_id` that the
response lists as aborted covers its records from `first_offset` up to its ABORT marker.

Source: CompletedFetch.java, KIP-98.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

from moldau.clients.aborted import Aborted
from moldau.clients.columns import Columns, read_columns
from moldau.protocol.messages.fetch import PartitionData
from moldau.protocol.records.batch import BatchHeader, CorruptBatch, batches, verify_crc
from moldau.types import TopicPartition

Deserializer = Callable[[bytes], Any]
NO_HEADERS: Final[tuple[tuple[str, bytes | None], ...]] = ()


class ConsumerRecord(NamedTuple):
    """One record as a consumer gets it.

    `timestamp`: milliseconds; `timestamp_type`: 0 CreateTime, 1 LogAppendTime.  Key and value are copies: they outlive the response.

    `error`: the reason why the key or the value could not be deserialized; the field then has the raw bytes.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int
    error: Exception | None = None


_new_record: Final[Callable[[Iterable[Any]], ConsumerRecord]] = partial(tuple.__new__, ConsumerRecord)


class Records:
    """Neighbouring records of one batch, in order; read when first asked for.

    `keys` and `values` are deserialized; `raw_keys` and `raw_values` are bytes.  Errors of reading: CorruptBatch; of `keys` and `values`:
    whatever a deserializer raises.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        header: BatchHeader,
        batch: memoryview,
        from_offset: int,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> None:
        self.topic, self.partition = topic_partition
        self.timestamp_type = header.timestamp_type
        self.leader_epoch = header.partition_leader_epoch
        self.next_offset = header.next_offset
        """The offset to read after these records."""
        self.size = header.size
        self._header = header
        self._batch: memoryview | None = batch
        self._from_offset = from_offset
        self._columns: Columns | None = None
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer

    def __repr__(self) -> str:
        return f"Records({self.topic}-{self.partition}, {self._header.base_offset} to {self._header.last_offset})"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            assert self._batch is not None
            columns = read_columns(self._header, self._batch)
            self._columns = columns if self._header.base_offset >= self._from_offset else _from(columns, self._from_offset)
            self._batch = None
        return self._columns

    @property
    def offsets(self) -> list[int]:
        return self.columns.offsets

    @property
    def timestamps(self) -> list[int]:
        return self.columns.timestamps

    @property
    def raw_keys(self) -> list[bytes | None]:
        return self.columns.keys

    @property
    def raw_values(self) -> list[bytes | None]:
        return self.columns.values

    @property
    def keys(self) -> list[Any]:
        return _deserialized(self.columns.keys, self._key_deserializer)

    @property
    def values(self) -> list[Any]:
        return _deserialized(self.columns.values, self._value_deserializer)

    @property
    def headers(self) -> list[tuple[tuple[str, bytes | None], ...]]:
        return self.columns.headers if self.columns.headers is not None else [NO_HEADERS] * len(self)

    def __len__(self) -> int:
        if self._columns is None and self._from_offset <= self._header.base_offset:
            return self._header.records_count
        return len(self.columns)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        columns = self.columns
        headers: Iterable[tuple[tuple[str, bytes | None], ...]] = repeat(NO_HEADERS) if columns.headers is None else columns.headers
        fields = (columns.offsets, columns.timestamps, columns.keys, columns.values, headers)
        if self._key_deserializer is not None or self._value_deserializer is not None:
            return map(self._record, *fields)
        offsets, timestamps, keys, values, _ = fields
        topic, partition, kind, epoch = map(repeat, (self.topic, self.partition, self.timestamp_type, self.leader_epoch))
        # Not a line of Python runs for a record.
        rows = zip(topic, partition, offsets, timestamps, kind, keys, values, headers, epoch, repeat(None), strict=False)
        return map(_new_record, rows)

    def _record(self, offset: int, timestamp: int, key: Any, value: Any, headers: tuple[tuple[str, bytes | None], ...]) -> ConsumerRecord:
        """One record.  Its deserialization error concerns only itself."""
        error: Exception | None = None
        try:
            if key is not None and self._key_deserializer is not None:
                key = self._key_deserializer(key)
            if value is not None and self._value_deserializer is not None:
                value = self._value_deserializer(value)
        except Exception as failure:
            error = failure
        kind, epoch = self.timestamp_type, self.leader_epoch
        return ConsumerRecord(self.topic, self.partition, offset, timestamp, kind, key, value, headers, epoch, error)

    def after(self, offset: int) -> "Records | None":
        """The records behind this offset; None if there are none."""
        count = bisect_right(self.columns.offsets, offset)
        return self.first(count)[1]

    def first(self, count: int) -> "tuple[Records, Records | None]":
        """The first `count` records, and the rest."""
        if count >= len(self):
            return self, None
        columns = self.columns
        head, rest = self._part(columns.rows(0, count)), self._part(columns.rows(count, len(columns)))
        head.next_offset = columns.offset(count)
        head.size = rest.size = self.size // 2
        return head, rest

    def _part(self, columns: Columns) -> "Records":
        part = Records.__new__(Records)
        part.__dict__.update(self.__dict__)
        part._columns = columns
        part._from_offset = self._header.base_offset + 1  # the columns determine its length
        return part

    def to_arrow(self) -> Any:
        """A `pyarrow.RecordBatch` with the columns of Spark's Kafka source.  Errors: ImportError without pyarrow (`moldau[arrow]`)."""
        import pyarrow as pa

        columns, count = self.columns, len(self)
        kinds = [pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("ms", "UTC"), pa.int32()]
        lists: list[list[Any]] = [
            columns.keys,
            columns.values,
            [self.topic] * count,
            [self.partition] * count,
            columns.offsets,
            columns.timestamps,
            [self.timestamp_type] * count,
        ]
        arrays = [pa.array(column, kind) for column, kind in zip(lists, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"])


class Fetched(NamedTuple):
    records: list[Records]
    next_offset: int
    """The next offset to fetch; it lies beyond the last record if a consumer does not see what follows."""


def read_partition(
    topic_partition: TopicPartition,
    answer: PartitionData,
    fetch_offset: int,
    *,
    read_committed: bool = False,
    check_crc: bool = True,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
) -> Fetched:
    """The batches of one answer that a consumer sees.

    Errors: CorruptBatch if the first batch is corrupt.  A corrupt batch behind good ones is met by the next fetch.
    """
    view = _view_of(answer.records)
    aborted = Aborted(answer.aborted_transactions or ()) if read_committed else None
    found: list[Records] = []
    next_offset = fetch_offset
    try:
        for position, header in batches(view):
            if check_crc and not verify_crc(view, position, header):
                raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its CRC")
            batch = view[position : position + header.size]
            is_shown = (aborted is None or not aborted.covers(header, batch)) and not header.is_control
            if is_shown and header.next_offset > next_offset and header.records_count:
                found.append(
                    Records(
                        topic_partition,
                        header,
                        batch,
                        fetch_offset,
                        key_deserializer=key_deserializer,
                        value_deserializer=value_deserializer,
                    )
                )
            next_offset = max(next_offset, header.next_offset)
    except CorruptBatch as error:
        if next_offset == fetch_offset:
            raise CorruptBatch(f"{topic_partition}: {error}") from None
    return Fetched(found, next_offset)


def read_records(topic_partition: TopicPartition, records: object, *, check_crc: bool = True) -> list[ConsumerRecord]:
    """All records that a consumer sees, whatever their offset.  Errors: CorruptBatch."""
    view = _view_of(records)
    found: list[ConsumerRecord] = []
    for position, header in batches(view):
        if check_crc and not verify_crc(view, position, header):
            raise CorruptBatch(f"{topic_partition}: the batch at offset {header.base_offset} does not match its CRC")
        if not header.is_control:
            found += Records(topic_partition, header, view[position : position + header.size], 0)
    return found


def _view_of(records: object) -> memoryview:
    return memoryview(records) if isinstance(records, bytes | bytearray | memoryview) else memoryview(b"")


def _from(columns: Columns, from_offset: int) -> Columns:
    """The columns without the records before `from_offset`: a batch begins at its own offset, which may lie before it."""
    return columns.rows(bisect_left(columns.offsets, from_offset), len(columns))


def _deserialized(column: list[bytes | None], deserializer: Deserializer | None) -> list[Any]:
    if deserializer is None:
        return column
    return [None if one is None else deserializer(one) for one in column]
