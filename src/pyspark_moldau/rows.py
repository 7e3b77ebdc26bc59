"""◇ The rows of one task on their way to partitions: the meaning of columns, and the partition that a row goes to.

Columns are those of the stock sink, and `timestamp` beside them: `value` alone is needed.  A row that names its partition goes there.  A
row with a key goes where Java's producer would put it, and a row with neither may go to any partition.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampNTZType, TimestampType

from moldau.protocol.murmur_columns import murmur2_of
from moldau.protocol.records.columns import Int64s
from pyspark_moldau.arrow import sizes_of

_BYTES: Final = (BinaryType, StringType)
_TYPES: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "topic": (StringType,),
    "key": _BYTES,
    "value": _BYTES,
    "partition": (IntegerType,),
    "headers": (ArrayType,),
    "timestamp": (TimestampType, TimestampNTZType),
}
NO_PARTITION: Final = -1
EPOCH_US: Final = 1000


class SinkError(ValueError):
    """The frame cannot be written; the message names the column and the way out."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Errors: SinkError."""
    present = {field.name: field.dataType for field in schema.fields}
    if "value" not in present:
        raise SinkError(f"column 'value' is missing, there are {', '.join(present) or 'none'}: select what is to be written as value")
    if topic is None and "topic" not in present:
        raise SinkError("nothing says which topic to write to: give option 'topic' or a column 'topic'")
    for name, kinds in _TYPES.items():
        if name in present and not isinstance(present[name], kinds):
            names = " or ".join(
                kind().simpleString() if kind is not ArrayType else "array<struct<key:string,value:binary>>" for kind in kinds
            )
            raise SinkError(f"column {name!r} is {present[name].simpleString()}: cast it to {names}")
    headers = present.get("headers")
    if isinstance(headers, ArrayType):
        element = headers.elementType
        shape = [type(field.dataType) for field in element.fields] if isinstance(element, StructType) else []
        if shape != [StringType, BinaryType]:
            raise SinkError(f"column 'headers' is {headers.simpleString()}: cast it to array<struct<key:string,value:binary>>")


class Rows(NamedTuple):
    """The rows of one Arrow batch, in columns of the kinds that records have."""

    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None
    timestamps: Int64s

    def part(self, rows: Any) -> "Rows":
        """Some of the rows.  `rows`: their places, or a slice."""
        if isinstance(rows, slice):
            count = rows.stop - rows.start
            keys, values, headers = (None if one is None else one.slice(rows.start, count) for one in self[:3])
        else:
            places = pa.array(rows)
            keys, values, headers = (None if one is None else one.take(places) for one in self[:3])
        return Rows(keys, values, headers, self.timestamps[rows])

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def sizes(self) -> Int64s:
        """About how many bytes each row takes as a record."""
        return np.maximum(sizes_of(self.keys), 0) + np.maximum(sizes_of(self.values), 0) + 16

    @classmethod
    def joined(cls, parts: list["Rows"]) -> "Rows":
        if len(parts) == 1:
            return parts[0]
        columns: list[Any] = [pa.concat_arrays([part[index] for part in parts]) for index in (0, 1)]
        headers = None if parts[0].headers is None else pa.concat_arrays([part.headers for part in parts])
        return cls(columns[0], columns[1], headers, np.concatenate([part.timestamps for part in parts]))


def rows_of(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """`now_ms`: the time of rows that have none."""
    names = batch.schema.names
    keys = _bytes(batch.column("key")) if "key" in names else pa.nulls(batch.num_rows, pa.binary())
    headers = batch.column("headers") if "headers" in names else None
    timestamps = np.full(batch.num_rows, now_ms, np.int64)
    if "timestamp" in names:
        told = batch.column("timestamp").cast(pa.timestamp("us", batch.column("timestamp").type.tz)).cast(pa.int64())
        timestamps = pc.fill_null(told, now_ms * EPOCH_US).to_numpy(zero_copy_only=False) // EPOCH_US
    return Rows(keys, _bytes(batch.column("value")), headers, timestamps)


def _bytes(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def topics_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, Any]]:
    """Each topic and the places of its rows (None: all).  Errors: SinkError."""
    if topic is not None:
        yield topic, None
        return
    encoded = batch.column("topic").dictionary_encode()
    if encoded.null_count:
        raise SinkError("a row has no topic: give option 'topic', or a topic in each row")
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], None
        return
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    for number, name in enumerate(names):
        yield name, np.flatnonzero(indices == number)


def partitions_of(rows: Rows, given: pa.Array | None, topic: str, count: int) -> npt.NDArray[np.int64]:
    """The partition of each row, `NO_PARTITION` where it may go anywhere.  Errors: SinkError."""
    partitions = np.full(len(rows), NO_PARTITION, np.int64)
    if given is not None:
        partitions = pc.fill_null(given, NO_PARTITION).to_numpy(zero_copy_only=False).astype(np.int64)
        outside = partitions[(partitions >= count) | (partitions < NO_PARTITION)]
        if len(outside):
            raise SinkError(f"column 'partition' holds {outside[0]}: topic {topic} has partitions 0 to {count - 1}")
    keyed = np.flatnonzero((partitions == NO_PARTITION) & (sizes_of(rows.keys) >= 0))
    if len(keyed):
        partitions[keyed] = partitions_for_keys(rows.keys.take(pa.array(keyed)), count)
    return partitions


def partitions_for_keys(keys: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """The partitions as Java's producer chooses them.  No key may be null."""
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32, count=len(keys) + 1, offset=4 * keys.offset).astype(np.int64)
    view = memoryview(data if data is not None else b"")
    return (murmur2_of(view, bounds[:-1], np.diff(bounds)) & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def by_partition(partitions: npt.NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
    """Each partition and the places of its rows, in their order; one slice where all rows go to the same partition."""
    if len(partitions) and (partitions == partitions[0]).all():
        yield int(partitions[0]), slice(0, len(partitions))
        return
    order = np.argsort(partitions, kind="stable")
    ordered = partitions[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.array([], np.int64)
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield int(ordered[start]), order[start:end]
