"""◇ The forms of files: Parquet, or a line of JSON a record.  Source: the formats of Confluent's S3 sink."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from moldau.connect.connectors.warehouse.rows import row_of, table_of
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import Record, Schema

PARQUET: Final = "io.confluent.connect.s3.format.parquet.ParquetFormat"
JSON: Final = "io.confluent.connect.s3.format.json.JsonFormat"
_JSON: Final = JsonConverter(schemas_enable=False)


class Format(Protocol):
    """A record becomes a row when it is taken, and the rows a file when the file is whole."""

    @property
    def suffix(self) -> str:
        """The end of a file's name."""

    def row(self, record: Record) -> Any:
        """Errors: DataError."""

    def file(self, schema: Schema | None, rows: Sequence[Any]) -> bytes:
        """Errors: DataError."""


@dataclass(frozen=True, slots=True)
class Parquet:
    codec: str
    suffix: str = ".parquet"

    def row(self, record: Record) -> Any:
        return row_of(record)

    def file(self, schema: Schema | None, rows: Sequence[Any]) -> bytes:
        import pyarrow.parquet

        content = io.BytesIO()
        pyarrow.parquet.write_table(table_of(schema, rows), content, compression=self.codec)
        return content.getvalue()


@dataclass(frozen=True, slots=True)
class Json:
    suffix: str = ".json"

    def row(self, record: Record) -> Any:
        return _JSON.to_bytes(record.topic, record.value_schema, record.value)

    def file(self, schema: Schema | None, rows: Sequence[Any]) -> bytes:
        return b"".join(row + b"\n" for row in rows)


def format_of(options: Mapping[str, Any]) -> Format:
    return Json() if options.get("format.class") == JSON else Parquet(options["parquet.codec"])
