"""● `moldau pipelines table`: the row of a table, asked from outside.

    moldau pipelines table spent-by-customer anna --value-type long

The table is read into a view, a SQLite file or a PostgreSQL database, which is brought up to date first: only new records are read.  Exit
codes: 0 found, 1 no such row, or refused.
"""

import argparse
import json
import struct
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau.clients.errors import ClientError
from moldau.errors import KafkaError
from moldau.pipelines.streams.serdes import BYTES, DOUBLE, JSON, LONG, STRING, Serde

if TYPE_CHECKING:
    from moldau.pipelines.streams.view import View

SERDES: Final[dict[str, Serde]] = {"string": STRING, "long": LONG, "double": DOUBLE, "json": JSON, "bytes": BYTES}
FROM_TEXT: Final[dict[str, Callable[[str], Any]]] = {
    "string": str,
    "long": int,
    "double": float,
    "json": json.loads,
    "bytes": bytes.fromhex,
}
VIEW: Final = "tables.db"


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments, and its `action`."""
    parser.add_argument("name", metavar="NAME", help="the table's topic")
    parser.add_argument("key", metavar="KEY", nargs="?", help="the row's key; without it all rows are printed")
    parser.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT", default="localhost:9092", help="(%(default)s)")
    parser.add_argument("--view", metavar="VIEW", default=VIEW, help="a SQLite file, or postgresql://user@host/name (%(default)s)")
    parser.add_argument("--key-type", choices=SERDES, default="string", help="how keys are written (%(default)s); bytes: hexadecimal")
    parser.add_argument("--value-type", choices=SERDES, default="json", help="how values are written (%(default)s)")
    parser.add_argument("--offline", action="store_true", help="ask the view as it is, without the broker")
    parser.set_defaults(action=table, config="")


def table(given: argparse.Namespace) -> int:
    """Print one row, or all of them."""
    if find_spec("sqlalchemy") is None:
        return _refused('sqlalchemy is not installed: pip install "moldau[pipelines]"')
    from moldau.pipelines.streams.view import View, ViewError, is_address

    key_serde, value_serde = SERDES[given.key_type], SERDES[given.value_type]
    try:
        key = None if given.key is None else key_serde.write(FROM_TEXT[given.key_type](given.key))
    except (ValueError, struct.error) as error:
        return _refused(f"KEY {given.key!r} is no {given.key_type}: {error}; --key-type says what keys are")
    if given.offline and not is_address(given.view) and not Path(given.view).exists():
        return _refused(f"there is no view {given.view}: leave out --offline once, or give --view")
    try:
        with View(given.view) as view:
            if not given.offline:
                view.follow(given.bootstrap_server, given.name)
            rows = view.rows(given.name) if key is None else _one(view, given.name, key)
    except (ViewError, ClientError, KafkaError, OSError) as error:
        return _refused(str(error))
    if key is not None and not rows:
        return _refused(f"table {given.name} has no row {given.key}")
    try:
        lines = [(key_serde.read(one), value_serde.read(value)) for one, value in rows.items()]
    except Exception as error:  # a serde may raise anything
        return _refused(f"a row of {given.name} is not as the types say ({error}): see --key-type and --value-type")
    for one, value in lines:
        print(_printed(value) if key is not None else f"{_printed(one)}\t{_printed(value)}")
    return 0


def _one(view: "View", topic: str, key: bytes) -> dict[bytes, bytes]:
    kept = view.get(topic, key)
    return {} if kept is None else {key: kept.value}


def _printed(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _refused(reason: str) -> int:
    print(f"moldau: {reason}", file=sys.stderr)
    return 1
