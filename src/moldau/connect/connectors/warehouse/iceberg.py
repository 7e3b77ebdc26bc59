"""● Records to an Iceberg table through PyIceberg; offsets stand in the table's properties and in each snapshot's summary.

Source: the options of org.apache.iceberg.connect.IcebergSinkConnector and of Tabular's connector before it.
"""

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moldau.connect.connectors.connector import Connector
from moldau.connect.connectors.warehouse.rows import missing
from moldau.connect.connectors.warehouse.tables import Offsets, Overtaken, TableSinkTask, shaped
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, RetriableError
from moldau.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table, Transaction

CATALOG: Final = "iceberg.catalog."
NO_RETRIES: Final = "commit.retry.num-retries"
TRIES: Final = 10
OPTIONS: Final = Definition(
    Key("iceberg.tables", Kind.LIST, REQUIRED, "HIGH", "The table, as namespace.name.", check.valid_list),
    Key("iceberg.catalog", Kind.STRING, "iceberg", "MEDIUM", "The catalog's name; iceberg.catalog.… are PyIceberg's options of it."),
    Key("iceberg.tables.auto-create-enabled", Kind.BOOLEAN, False, "MEDIUM", "Whether a table that is not there is made."),
    Key("iceberg.tables.evolve-schema-enabled", Kind.BOOLEAN, False, "MEDIUM", "Whether columns that are not there are added."),
    Key("iceberg.tables.upsert-mode-enabled", Kind.BOOLEAN, False, "MEDIUM", "Whether rows replace those with the same id columns."),
    Key("iceberg.tables.default-id-columns", Kind.LIST, [], "MEDIUM", "The columns that tell a row; for upserts."),
    Key("commit.max.records", Kind.INT, 50_000, "LOW", "How many records wait for a commit at most; ours.", check.at_least(1)),
)


class IcebergSinkTask(TableSinkTask):
    async def start(self, config: Config) -> None:
        self._options = options = OPTIONS.parse(config)
        if len(options["iceberg.tables"]) != 1:
            raise ConfigError.invalid("iceberg.tables", options["iceberg.tables"], "one table is expected")
        self._name = options["iceberg.tables"][0]
        columns = options["iceberg.tables.default-id-columns"] if options["iceberg.tables.upsert-mode-enabled"] else []
        if options["iceberg.tables.upsert-mode-enabled"] and not columns:
            raise ConfigError.invalid("iceberg.tables.default-id-columns", None, "upserts need the columns that tell a row")
        self.begin(config, columns, options["commit.max.records"])
        given = {key.removeprefix(CATALOG): value for key, value in config.items() if key.startswith(CATALOG) and value is not None}
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError as error:
            raise missing("pyiceberg", error) from error
        try:
            self._catalog = await asyncio.to_thread(lambda: load_catalog(options["iceberg.catalog"], **given))
        except ValueError as error:  # options that do not fit
            raise ConnectError(f"iceberg.catalog.…: the catalog cannot be opened: {error}") from error
        except Exception as error:  # a server that is away; another task that is making the catalog's tables
            raise RetriableError(f"iceberg.catalog.…: the catalog cannot be opened: {error}") from error

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        table = self._loaded()
        return {} if table is None else self._offsets(table)

    def _loaded(self) -> "Table | None":
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            return None
        except Exception as error:
            raise RetriableError(f"table {self._name} cannot be loaded: {error}") from error
        table.metadata.properties[NO_RETRIES] = "0"  # only in this copy: a commit that lost the race must look at the offsets again
        return table

    @property
    def _property(self) -> str:
        return f"moldau.connect.{self.connector}.offsets"

    def _offsets(self, table: "Table") -> dict[TopicPartition, int]:
        found = json.loads(table.properties.get(self._property, "{}"))
        return {TopicPartition(topic, int(number)): end for topic, ends in found.items() for number, end in ends.items()}

    def write(self, added: "pa.Table | None", removed: "pa.Table | None", at: Mapping[TopicPartition, int | None], to: Offsets) -> None:
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(TRIES):
            table = self._loaded() or self._created(added)
            if table is None:
                return  # there is no table that these keys could be removed from
            there = self._offsets(table)
            for one, ours in at.items():
                if there.get(one) != ours:
                    raise Overtaken(self._name, one, there.get(one), ours)
            try:
                with table.transaction() as transaction:
                    self._change(transaction, table, added, removed, _as_json({**there, **to}))
                return
            except CommitFailedException:
                continue  # another task with other partitions, or a cleanup of the table, was faster
        raise RetriableError(f"table {self._name} is being written by others all the time")

    def _change(
        self, transaction: "Transaction", table: "Table", added: "pa.Table | None", removed: "pa.Table | None", offsets: str
    ) -> None:
        if added is not None and self._options["iceberg.tables.evolve-schema-enabled"]:
            with transaction.update_schema() as update:
                update.union_by_name(added.schema)
        target = transaction.table_metadata.schema().as_arrow()
        summary = {self._property: offsets}
        if removed is not None and table.current_snapshot() is not None:
            transaction.delete(_is_one_of(shaped(removed, _only(target, removed.column_names))), snapshot_properties=summary)
        if added is not None:
            transaction.append(shaped(added, target), snapshot_properties=summary)
        transaction.set_properties({self._property: offsets})

    def _created(self, added: "pa.Table | None") -> "Table | None":
        """Errors: ConnectError."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        if not self._options["iceberg.tables.auto-create-enabled"]:
            raise ConnectError(f"there is no table {self._name}: make it, or set iceberg.tables.auto-create-enabled=true")
        if added is None:
            return None
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        with suppress(TableAlreadyExistsError):  # another task made it
            self._catalog.create_table(self._name, added.schema)
        return self._loaded()


def _as_json(offsets: Offsets) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), end in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = end
    return json.dumps(found)


def _only(schema: "pa.Schema", names: Collection[str]) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names if name in schema.names])


def _is_one_of(keys: "pa.Table") -> Any:
    """An expression that holds for rows with one of these keys."""
    from pyiceberg.expressions import AlwaysFalse, And, EqualTo, In, Or

    names = keys.column_names
    if len(names) == 1:
        return In(names[0], keys[names[0]].to_pylist())  # type: ignore[call-arg]  # mypy reads its fields as keyword-only
    found: Any = AlwaysFalse()
    for row in keys.to_pylist():
        same: Any = None
        for name in names:
            one = EqualTo(name, row[name])  # type: ignore[call-arg]  # as above
            same = one if same is None else And(same, one)
        found = Or(found, same)
    return found


class IcebergSink(Connector):
    names = ("org.apache.iceberg.connect.IcebergSinkConnector",)
    kind = "sink"
    definition = OPTIONS
    prefixes = (CATALOG,)
    task = IcebergSinkTask
    task_class = "org.apache.iceberg.connect.IcebergSinkTask"
