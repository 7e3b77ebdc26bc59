"""● Connections by JDBC's addresses, and Connect's types for SQL's types.  Source and sink share them.

`jdbc:postgresql://host/db`, `jdbc:sqlite:/path` and SQLAlchemy's own addresses are accepted; a Python driver of the database has to be
installed.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import sqlalchemy as sql
from sqlalchemy.engine import URL, make_url

from moldau.connect import data
from moldau.connect.data import DATE, DECIMAL, EPOCH, TIME, TIMESTAMP, Schema, Type
from moldau.connect.declare.definition import REQUIRED, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, RetriableError

DRIVERS: Final = {"postgresql": "postgresql+psycopg"}
ADDRESS: Final = (
    Key("connection.url", Kind.STRING, REQUIRED, "HIGH", "The database, as jdbc:postgresql://host:5432/name or jdbc:sqlite:/path."),
    Key("connection.user", Kind.STRING, None, "HIGH", "The user."),
    Key("connection.password", Kind.PASSWORD, None, "HIGH", "The user's password."),
)


def address(options: Mapping[str, Any]) -> URL:
    """Errors: ConfigError."""
    text = options["connection.url"].removeprefix("jdbc:")
    user, password = options["connection.user"], options["connection.password"]
    try:
        if text.startswith("sqlite:") and not text.startswith("sqlite://"):
            return URL.create("sqlite", database=text.removeprefix("sqlite:"))
        scheme = text.partition(":")[0]
        if text != options["connection.url"] and "?" in text:  # JDBC has user and password among the parameters
            parts = urlsplit(text)
            query = dict(parse_qsl(parts.query))
            user, password = user or query.pop("user", None), password or query.pop("password", None)
            text = text.partition("?")[0]
        found = make_url(text).set(drivername=DRIVERS.get(scheme, scheme))
    except (sql.exc.ArgumentError, ValueError) as error:
        raise ConfigError.invalid("connection.url", options["connection.url"], f"this is not an address of a database: {error}") from error
    return found.set(username=user or found.username, password=password or found.password)


def engine(options: Mapping[str, Any]) -> sql.Engine:
    """An engine of one connection, which is made when it is needed.  Errors: ConfigError."""
    try:
        return sql.create_engine(address(options), pool_size=1, max_overflow=0, pool_pre_ping=True)
    except (sql.exc.ArgumentError, sql.exc.NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError.invalid("connection.url", options["connection.url"], f"no driver for it is installed: {error}") from error


def in_words(error: sql.exc.SQLAlchemyError) -> ConnectError:
    """A RetriableError if the connection broke: it may be there again later.  A ConnectError if the database refuses: it will again."""
    text = str(getattr(error, "orig", None) or error).strip()
    is_file = type(getattr(error, "orig", None)).__module__ == "sqlite3"  # sqlite3 calls a missing table operational, too
    if isinstance(error, sql.exc.OperationalError | sql.exc.InterfaceError | sql.exc.TimeoutError) and (not is_file or "locked" in text):
        return RetriableError(f"the database cannot be asked: {text}")
    return ConnectError(f"the database refuses: {text}")


def schema_of(column: sql.Column[Any] | Mapping[str, Any]) -> Schema:
    """The schema of a column as SQLAlchemy reflects it."""
    kind, nullable = (column.type, bool(column.nullable)) if isinstance(column, sql.Column) else (column["type"], column["nullable"])
    return _plain(kind, optional=nullable)


def _plain(kind: Any, *, optional: bool) -> Schema:
    if isinstance(kind, sql.Boolean):
        return Schema(Type.BOOLEAN, optional)
    if isinstance(kind, sql.SmallInteger):
        return Schema(Type.INT16, optional)
    if isinstance(kind, sql.BigInteger):
        return Schema(Type.INT64, optional)
    if isinstance(kind, sql.Integer):
        return Schema(Type.INT32, optional)
    if isinstance(kind, sql.Float):
        return Schema(Type.FLOAT64, optional)
    if isinstance(kind, sql.Numeric):
        return data.decimal(kind.scale or 0, optional=optional) if kind.scale is not None else Schema(Type.FLOAT64, optional)
    if isinstance(kind, sql.LargeBinary):
        return Schema(Type.BYTES, optional)
    if isinstance(kind, sql.DateTime):
        return data.timestamp(optional=optional)
    if isinstance(kind, sql.Date):
        return data.date(optional=optional)
    if isinstance(kind, sql.Time):
        return data.time_of_day(optional=optional)
    return Schema(Type.STRING, optional)


def to_connect(schema: Schema, value: Any) -> Any:
    """Connect's value for a value as the driver gives it.  Times without a zone are taken to be UTC."""
    if value is None:
        return None
    if schema.name == DECIMAL:
        return Decimal(value).quantize(Decimal(1).scaleb(-int(schema.parameter("scale") or 0)))
    if schema.name == TIMESTAMP and isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    if schema.name == DATE and isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if schema.name == TIME and isinstance(value, time):
        return EPOCH.replace(hour=value.hour, minute=value.minute, second=value.second, microsecond=value.microsecond)
    if schema.type is Type.BYTES:
        return bytes(value)
    if schema.type is Type.FLOAT64:
        return float(value)
    return value if isinstance(value, bool | int | str) and schema.type is not Type.STRING else str(value)


def column_of(schema: Schema) -> sql.types.TypeEngine[Any]:
    """The type of a column that the sink makes."""
    logical: dict[str | None, sql.types.TypeEngine[Any]] = {
        DECIMAL: sql.Numeric(38, int(schema.parameter("scale") or 0)), DATE: sql.Date(), TIME: sql.Time(), TIMESTAMP: sql.DateTime()
    }  # fmt: skip
    plain: dict[Type, sql.types.TypeEngine[Any]] = {
        Type.INT8: sql.SmallInteger(), Type.INT16: sql.SmallInteger(), Type.INT32: sql.Integer(), Type.INT64: sql.BigInteger(),
        Type.FLOAT32: sql.Float(), Type.FLOAT64: sql.Double(), Type.BOOLEAN: sql.Boolean(), Type.BYTES: sql.LargeBinary(),
        Type.STRING: sql.Text(),
    }  # fmt: skip
    if schema.name in logical:
        return logical[schema.name]
    if schema.type not in plain:
        raise ConnectError(f"a column cannot hold a {schema.type}: flatten it first, by the transform Flatten")
    return plain[schema.type]


def to_column(schema: Schema, value: Any) -> Any:
    """The value as the driver takes it."""
    if isinstance(value, datetime):
        if schema.name == DATE:
            return value.date()
        return value.time() if schema.name == TIME else value.replace(tzinfo=None)
    return value
