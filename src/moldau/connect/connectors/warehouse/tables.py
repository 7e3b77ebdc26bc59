"""● The common base of sinks for table formats: records are gathered, and go into the table together with their offsets, as one commit.

Promise: once.  Reading begins where the table's own offsets say.  A commit fails if it finds other offsets than this task knows of: another
task has the partition by now.  With id columns, a row replaces the row of the same ids, and a record without a value deletes that row.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.connect.connectors.connector import SinkTask
from moldau.connect.connectors.warehouse.rows import key_of, row_of, table_of
from moldau.connect.data import Record, Schema
from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConnectError, DataError
from moldau.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

LOG: Final = logging.getLogger(__name__)
Offsets = Mapping[TopicPartition, int]


class Overtaken(ConnectError):
    """Another task has written these partitions."""

    def __init__(self, table: str, partition: TopicPartition, there: int | None, ours: int | None) -> None:
        topic, number = partition
        super().__init__(f"table {table}: {topic}-{number} stands at offset {there} and not at {ours}: another task has written it")


class TableSinkTask(SinkTask):
    """`_at`: each partition's offset in the table, as far as this task knows; None: the table has no offset of the partition."""

    columns: Sequence[str]
    """The columns that identify a row; empty: rows are only added."""
    limit: int
    """The most rows to gather before a commit."""

    def begin(self, config: Config, columns: Sequence[str], limit: int) -> None:
        self.connector = config.get("name") or ""
        self.columns, self.limit = columns, limit
        self._at: dict[TopicPartition, int | None] = {}
        self._gathered: list[Record] = []
        self._next: dict[TopicPartition, int] = {}

    @abstractmethod
    def read_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offsets that the table has.  The call blocks.  Errors: ConnectError, RetriableError."""

    @abstractmethod
    def write(self, added: "pa.Table | None", removed: "pa.Table | None", at: Mapping[TopicPartition, int | None], to: Offsets) -> None:
        """Delete the rows with the keys of `removed`, add `added` and move the offsets from `at` to `to`, in one commit.  The call blocks.
        Errors: ConnectError, Overtaken among them; RetriableError.
        """

    async def open(self, partitions: Collection[TopicPartition]) -> Offsets:
        found = await asyncio.to_thread(self.read_offsets, partitions)
        for one in partitions:
            self._at[one] = found.get(one)
        return {one: found[one] for one in partitions if one in found}

    async def close(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self._gathered = [one for one in self._gathered if _source(one) not in gone]
        for one in gone:
            self._at.pop(one, None)
            self._next.pop(one, None)

    async def put(self, records: Sequence[Record]) -> None:
        for record in records:
            source = _source(record)
            assert record.position is not None
            offset = record.position[2]
            if offset >= self._next.get(source, 0):
                self._check(record)
                self._gathered.append(record)
                self._next[source] = offset + 1
        if len(self._gathered) >= self.limit:
            await self._commit(dict(self._next))

    def _check(self, record: Record) -> None:
        """Errors: DataError, with where the record was."""
        assert record.position is not None
        topic, partition, offset = record.position
        try:
            if record.value is not None:
                row_of(record)
            elif not self.columns:
                raise DataError("a record without a value deletes a row, and this table has no id columns")
            if self.columns and record.value is None:
                key_of(record, self.columns)
        except DataError as error:
            raise DataError(f"offset {offset} of {topic}-{partition}: {error}") from error

    async def pre_commit(self, offsets: Offsets) -> Offsets:
        await self._commit(offsets)
        return offsets

    async def _commit(self, offsets: Offsets) -> None:
        if not self._gathered:
            return
        to = {**{source: self._next[source] for source in map(_source, self._gathered)}, **offsets}
        at = {one: self._at.get(one) for one in to}
        await asyncio.to_thread(lambda: self.write(*self._tables(), at, to))
        self._at.update(to)
        self._gathered.clear()

    def _tables(self) -> "tuple[pa.Table | None, pa.Table | None]":
        """The rows to add, and the keys of rows to delete.  Only the last record of each key counts."""
        if not self.columns:
            return _joined([(one.value_schema, row_of(one)) for one in self._gathered]), None
        last: dict[tuple[Any, ...], tuple[dict[str, Any], Record]] = {}
        for one in self._gathered:
            key = key_of(one, self.columns) if one.value is None else self._key_in_row(one)
            last[tuple(key.values())] = key, one
        kept = [(one.value_schema, row_of(one)) for _, one in last.values() if one.value is not None]
        return _joined(kept), table_of(None, [key for key, _ in last.values()])

    def _key_in_row(self, record: Record) -> dict[str, Any]:
        row = row_of(record)
        lost = [one for one in self.columns if row.get(one) is None]
        if lost:
            raise DataError(f"offset {record.offset} of {record.topic}: the row has no {', '.join(lost)}, which tells it from others")
        return {one: row[one] for one in self.columns}


def _source(record: Record) -> TopicPartition:
    assert record.position is not None
    return TopicPartition(*record.position[:2])


def _joined(rows: Sequence[tuple[Schema | None, dict[str, Any]]]) -> "pa.Table | None":
    """One table with the columns of all schemas, each column in its order of first appearance.  Rows of one schema are read together."""
    import pyarrow as pa

    groups: dict[Schema | None, list[dict[str, Any]]] = {}
    for schema, row in rows:
        groups.setdefault(schema, []).append(row)
    tables = [table_of(schema, some) for schema, some in groups.items()]
    if not tables:
        return None
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"records of different schemas do not fit into one table: {error}") from error


def shaped(table: "pa.Table", target: "pa.Schema") -> "pa.Table":
    """The rows with the columns and types of the target; missing columns are null.  Errors: DataError."""
    import pyarrow as pa

    extra = [name for name in table.column_names if name not in target.names]
    if extra:
        raise DataError(f"the table has no column {', '.join(extra)}: add it, or let the connector evolve the schema")
    try:
        arrays = [table[one.name].cast(one.type) if one.name in table.column_names else pa.nulls(len(table), one.type) for one in target]
        return pa.table(arrays, schema=pa.schema([pa.field(one.name, one.type, one.nullable) for one in target]))
    except pa.ArrowException as error:
        raise DataError(f"values do not fit into the table's columns: {error}") from error
