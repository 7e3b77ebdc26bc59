"""● Records to a Delta table through delta-rs; a partition's offset is the version of an application transaction (`txn` in Delta's log).

Delta refuses a commit whose application has moved on since the table was read, so two tasks cannot both write a partition.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.connect.connectors.connector import Connector
from moldau.connect.connectors.warehouse.rows import missing
from moldau.connect.connectors.warehouse.tables import Offsets, Overtaken, TableSinkTask, shaped
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConnectError, RetriableError
from moldau.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

STORAGE: Final = "delta.storage."
OPTIONS: Final = Definition(
    Key("delta.table", Kind.STRING, REQUIRED, "HIGH", "The table's folder, as /path or s3://bucket/path.", check.non_empty),
    Key(
        "delta.id.columns",
        Kind.LIST,
        [],
        "MEDIUM",
        "The columns that tell a row: a row replaces the one before it, no value deletes it.",
    ),
    Key("delta.auto.create", Kind.BOOLEAN, True, "MEDIUM", "Whether a table that is not there is made."),
    Key("delta.evolve.schema", Kind.BOOLEAN, False, "MEDIUM", "Whether columns that are not there are added."),
    Key("commit.max.records", Kind.INT, 50_000, "LOW", "How many records wait for a commit at most.", check.at_least(1)),
)


GONE: Final = "moldau_is_gone"
"""The column of a merge's source that is true for keys whose rows are deleted, and false for rows that are written."""


class DeltaSinkTask(TableSinkTask):
    async def start(self, config: Config) -> None:
        self._options = options = OPTIONS.parse(config)
        self.begin(config, options["delta.id.columns"], options["commit.max.records"])
        self._place = options["delta.table"]
        self._storage = {key.removeprefix(STORAGE): value for key, value in config.items() if key.startswith(STORAGE) and value is not None}
        try:
            await asyncio.to_thread(__import__, "deltalake")
        except ImportError as error:
            raise missing("deltalake", error) from error

    def _application(self, partition: TopicPartition) -> str:
        return f"moldau/{self.connector}/{partition.topic}-{partition.partition}"

    def _loaded(self) -> "DeltaTable | None":
        """Errors: RetriableError."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(self._place, storage_options=self._storage or None)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise RetriableError(f"table {self._place} cannot be opened: {error}") from error

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        table = self._loaded()
        if table is None:
            return {}
        found = {one: table.transaction_version(self._application(one)) for one in partitions}
        return {one: end for one, end in found.items() if end is not None}

    def write(self, added: "pa.Table | None", removed: "pa.Table | None", at: Mapping[TopicPartition, int | None], to: Offsets) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError

        table = self._loaded()
        if table is None:
            if not self._options["delta.auto.create"]:
                raise ConnectError(f"there is no table {self._place}: make it, or set delta.auto.create=true")
            if added is None:
                return  # there is no table that these keys could be removed from
            table = DeltaTable.create(self._place, added.schema, mode="ignore", storage_options=self._storage or None)
        for one, ours in at.items():
            there = table.transaction_version(self._application(one))
            if there != ours:
                raise Overtaken(self._place, one, there, ours)
        marks = CommitProperties(app_transactions=[Transaction(self._application(one), end) for one, end in to.items()])
        try:
            if removed is None:
                self._append(table, added, marks)
            else:
                self._merge(table, added, removed, marks)
        except CommitFailedError as error:
            raise RetriableError(f"table {self._place} was written by somebody else meanwhile: {error}") from error
        except (DeltaError, OSError) as error:
            raise ConnectError(f"table {self._place} cannot be written: {error}") from error

    def _target(self, table: "DeltaTable", added: "pa.Table | None") -> "pa.Schema":
        import pyarrow as pa

        found = pa.schema(table.schema().to_arrow())
        if added is None or not self._options["delta.evolve.schema"]:
            return found
        return pa.unify_schemas([found, pa.schema([one for one in added.schema if one.name not in found.names])])

    def _append(self, table: "DeltaTable", added: "pa.Table | None", marks: "CommitProperties") -> None:
        from deltalake import write_deltalake

        assert added is not None, "without id columns there are only rows to add"
        evolves: Any = "merge" if self._options["delta.evolve.schema"] else None
        write_deltalake(table, shaped(added, self._target(table, added)), mode="append", schema_mode=evolves, commit_properties=marks)

    def _merge(self, table: "DeltaTable", added: "pa.Table | None", removed: "pa.Table", marks: "CommitProperties") -> None:
        """Merge one source into the table: rows to add, and keys whose rows are deleted.  `GONE` tells them apart."""
        import pyarrow as pa

        target = self._target(table, added)
        open_to_null = pa.schema([one.with_nullable(True) for one in target])
        rows = shaped(removed if added is None else _with_removed(added, removed), open_to_null)
        coming = 0 if added is None else len(added)
        rows = rows.append_column(GONE, pa.array([False] * coming + [True] * (len(rows) - coming), pa.bool_()))
        same = " AND ".join(f's."{name}" = t."{name}"' for name in self.columns)
        columns = {f'"{name}"': f's."{name}"' for name in target.names}
        merger = table.merge(
            rows, same, source_alias="s", target_alias="t", merge_schema=self._options["delta.evolve.schema"], commit_properties=marks
        )
        merger = merger.when_matched_delete(f"s.{GONE} = true")
        merger = merger.when_matched_update(columns, f"s.{GONE} = false")
        merger.when_not_matched_insert(columns, f"s.{GONE} = false").execute()


def _with_removed(added: "pa.Table", removed: "pa.Table") -> "pa.Table":
    """The added rows, and behind them the removed keys that no added row has."""
    import pyarrow as pa

    names = removed.column_names
    there = {tuple(row.values()) for row in added.select(names).to_pylist()}
    gone = [row for row in removed.to_pylist() if tuple(row.values()) not in there]
    return pa.concat_tables([added, pa.Table.from_pylist(gone, removed.schema)], promote_options="permissive")


class DeltaSink(Connector):
    names = ("moldau.connect.DeltaSinkConnector",)
    kind = "sink"
    definition = OPTIONS
    prefixes = (STORAGE,)
    task = DeltaSinkTask
    task_class = "moldau.connect.DeltaSinkTask"
