"""● PostgreSQL → topic → PostgreSQL, OpenSearch and Iceberg while processes are killed: each copy must end equal to the table.

    python -m proof.connect.chain --rounds 5 --seed 1
    python -m proof.connect.chain --rounds 1 --copies postgres --kinds worker,broker --changes 50

One thread changes two tables at random: rows come, change, go and get other keys, alone and in transactions that are partly rolled back.
A round kills one process of each kind at a random moment, and starts it again.  A row that is written last shows that a copy has come to
the end.  Both workers write with transactions (`exactly.once.source.support`).

| table | what is special |
|---|---|
| plain | the log names a row by its key |
| wide | REPLICA IDENTITY FULL, with a value so large that an update does not repeat it |
"""

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import psycopg

from moldau.testing.child import ChildProcess
from moldau.testing.process import BrokerProcess
from proof.connect.opensearch import OpenSearch
from proof.connect.own_worker import WorkerProcess
from proof.connect.postgres import Postgres

TABLES: Final = ("plain", "wide")
COLUMNS: Final = ("id", "name", "amount", "big")
LAST: Final = 1_000_000
WITHIN_S: Final = 180.0
LOOK_S: Final = 0.3
SHOWN: Final = 8
Row = tuple[Any, ...]
Rows = dict[int, Row]
TRANSFORMS: Final = {
    "transforms": "unwrap,route",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": r".*\.(\w+)",
    "transforms.route.replacement": "$1",
}
TOPICS: Final = ",".join(f"db.public.{one}" for one in TABLES)


class Writer(threading.Thread):
    """Changes the tables until it is stopped.  While the database is away it tries again."""

    def __init__(self, server: Postgres, random: Random, changes: int) -> None:
        super().__init__(daemon=True)
        self._server, self._random, self._most = server, random, changes
        self.changes = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while self.changes < self._most:
                with contextlib.suppress(psycopg.OperationalError, psycopg.InterfaceError):
                    self._change()
                time.sleep(0.01)
        except BaseException as error:
            self.failure = error

    def _change(self) -> None:
        with self._server.connect() as db:
            while self.changes < self._most:
                self.changes += 1
                self._step(db)

    def _step(self, db: "psycopg.Connection[Any]") -> None:
        random = self._random
        table = random.choice(TABLES)
        one, other = random.randrange(1, 60), random.randrange(1, 60)
        ways: tuple[Callable[[], Any], ...] = (
            lambda: db.execute(_INSERT.format(table), [one, f"new {self.changes}", self.changes, "x" * random.choice((1, 5000))]),
            lambda: db.execute(f"UPDATE {table} SET name = %s, amount = amount + 1 WHERE id %% 5 = %s", [f"step {self.changes}", one % 5]),
            lambda: db.execute(f"DELETE FROM {table} WHERE id = %s", [one]),
            lambda: db.execute(
                f"UPDATE {table} SET id = %s WHERE id = %s AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = %s)", [other, one, other]
            ),
        )
        if random.random() < 0.7:
            random.choice(ways)()
            return
        with db.transaction(force_rollback=random.random() < 0.2):
            for _ in range(random.randrange(1, 5)):
                with db.transaction(force_rollback=random.random() < 0.2):
                    random.choice(ways)()


_INSERT: Final = "INSERT INTO {} VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET name = excluded.name, big = excluded.big"


class Chain:
    """All processes, and how the connectors are set up.  `copies`: postgres, search, iceberg."""

    def __init__(self, copies: list[str], stack: contextlib.ExitStack) -> None:
        self.copies = copies
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chain-")))
        self.server = stack.enter_context(Postgres())
        self.broker = stack.enter_context(BrokerProcess())
        self.search = stack.enter_context(OpenSearch()) if "search" in copies else None
        properties = {
            "exactly.once.source.support": "enabled",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1500",
            "offset.flush.interval.ms": "500",
        }
        self.workers = [stack.enter_context(WorkerProcess(self.broker.bootstrap, properties=properties)) for _ in range(2)]
        with self.server.connect() as db:
            for table in TABLES:
                db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name text, amount bigint NOT NULL, big text)")
                db.execute(f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL")
                db.execute(f"INSERT INTO {table} SELECT n, 'row ' || n, n, repeat('y', 3000) FROM generate_series(1, 30) n")
            db.execute("ALTER TABLE wide REPLICA IDENTITY FULL")
        for name, config in self._connectors():
            self._put(name, config)

    def _connectors(self) -> Iterator[tuple[str, dict[str, str]]]:
        source = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "db",
            "table.include.list": ",".join(f"public.{one}" for one in TABLES), "poll.interval.ms": "50", "max.batch.size": "20",
            **self.server.options,
        }  # fmt: skip
        yield "source", source
        sink = {"topics": TOPICS, "tasks.max": "2", "consumer.override.isolation.level": "read_committed", **TRANSFORMS}
        if "postgres" in self.copies:
            host, port = self.server.options["database.hostname"], self.server.options["database.port"]
            yield "copy", {
                **sink, "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "insert.mode": "upsert", "pk.mode": "record_key",
                "connection.url": f"jdbc:postgresql://{host}:{port}/postgres?user=postgres", "delete.enabled": "true",
                "auto.create": "true", "table.name.format": "copy_${topic}",
            }  # fmt: skip
        if self.search is not None:
            yield "search", {
                **sink, "connector.class": "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector", "connection.url": self.search.url,
                "behavior.on.null.values": "delete", "transforms": "unwrap,route,id", "transforms.id.field": "id",
                "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
            }  # fmt: skip
        if "iceberg" in self.copies:
            yield "iceberg", {
                **sink, "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "topics": "db.public.plain",
                "iceberg.tables": "db.plain", "iceberg.tables.auto-create-enabled": "true", "iceberg.tables.upsert-mode-enabled": "true",
                "iceberg.tables.default-id-columns": "id", **{f"iceberg.catalog.{name}": one for name, one in self._catalog().items()},
            }  # fmt: skip

    def _catalog(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}/warehouse"}

    def _put(self, name: str, config: Mapping[str, str]) -> None:
        url = f"{self.workers[0].url}/connectors/{name}/config"
        until(lambda: httpx.put(url, json=config, timeout=60).status_code in (200, 201), f"connector {name} is made")

    def victims(self, kind: str) -> list[ChildProcess]:
        """The processes of a kind."""
        found: dict[str, list[ChildProcess]] = {
            "worker": [*self.workers], "workers": [*self.workers], "broker": [self.broker], "database": [self.server],
            "search": [self.search] if self.search is not None else [],
        }  # fmt: skip
        return found[kind]

    def kill(self, kind: str, random: Random) -> None:
        """Kill one process of this kind, or all workers, and start it again after a moment."""
        victims = self.victims(kind)
        chosen = victims if kind == "workers" else victims[:1] if len(victims) < 2 else [random.choice(victims)]
        for one in chosen:
            one.kill()
        time.sleep(random.random() * 3)
        for one in chosen:
            one.start()

    # ------------------------------------------------------------ tables and copies

    def table(self, name: str) -> Rows:
        with self.server.connect() as db:
            return {row[0]: row for row in db.execute(f"SELECT {', '.join(COLUMNS)} FROM {name}").fetchall()}

    def copies_of(self, name: str) -> dict[str, Rows]:
        """What each copy of a table holds now.  A large value that the log did not repeat stands as a placeholder in the copies of
        `plain`, so their last column is left out.
        """
        found: dict[str, Rows] = {}
        if "postgres" in self.copies:
            found["postgres"] = self.table(f"copy_{name}")
        if self.search is not None:
            found["search"] = self._documents(name)
        if "iceberg" in self.copies and name == "plain":
            found["iceberg"] = self._warehouse()
        return found

    def _documents(self, index: str) -> Rows:
        assert self.search is not None
        httpx.post(f"{self.search.url}/{index}/_refresh", timeout=30)
        found = httpx.get(f"{self.search.url}/{index}/_search?size=10000", timeout=30).json()["hits"]["hits"]
        return {int(one["_id"]): tuple(one["_source"][name] for name in COLUMNS) for one in found}

    def _warehouse(self) -> Rows:
        from pyiceberg.catalog import load_catalog

        rows = load_catalog("iceberg", **self._catalog()).load_table("db.plain").scan().to_arrow().to_pylist()
        found = {row["id"]: tuple(row[name] for name in COLUMNS) for row in rows}
        return found if len(found) == len(rows) else {**found, -len(rows): ("a row is there twice",)}

    def failed(self) -> list[str]:
        """Connectors and tasks that have failed, with the ends of their traces."""
        for worker in self.workers:
            with contextlib.suppress(httpx.HTTPError):
                told = httpx.get(f"{worker.url}/connectors?expand=status", timeout=30).json()
                parts = [(name, part) for name, one in told.items() for part in [one["status"]["connector"], *one["status"]["tasks"]]]
                return [f"{name}: {part.get('trace', '')[-600:]}" for name, part in parts if part["state"] == "FAILED"]
        return []


def until(holds: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> None:
    """Errors: AssertionError."""
    deadline = time.monotonic() + within_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except (httpx.HTTPError, psycopg.Error, KeyError, ValueError, OSError) as error:
            last = error
        time.sleep(LOOK_S)
    raise AssertionError(f"not within {within_s:.0f} s: {what}; last: {last!r}")


def differences(table: Rows, copy: Rows, *, columns: int) -> list[str]:
    """At most a few rows that differ."""
    found = [
        f"row {one}: table {_short(table.get(one), columns)}, copy {_short(copy.get(one), columns)}"
        for one in sorted({*table, *copy})
        if (table.get(one) or ())[:columns] != (copy.get(one) or ())[:columns]
    ]
    return [*found[:SHOWN], *([f"{len(found)} rows differ"] if len(found) > SHOWN else [])]


def _short(row: Row | None, columns: int) -> str:
    return "none" if row is None else str(tuple(str(one)[:20] for one in row[:columns]))


def play(chain: Chain, kinds: list[str], random: Random, changes: int, mark: int) -> list[str]:
    """One round: change, kill one process of each kind, wait for the copies.  `mark` makes the last row of the round its own."""
    each = changes // max(1, len(kinds))
    for kind in kinds:
        writer = Writer(chain.server, Random(random.random()), each)
        writer.start()
        time.sleep(random.random() * 2)
        chain.kill(kind, random)
        writer.join()
        print(f"{kind} killed, {writer.changes} changes", file=sys.stderr, flush=True)
        if writer.failure is not None:
            raise writer.failure
    with chain.server.connect() as db:
        for one in TABLES:
            db.execute(_INSERT.format(one), [LAST, f"mark {mark}", mark, None])
    tables = {name: chain.table(name) for name in TABLES}

    def found() -> list[str]:
        return [
            f"{where}, {name}: {one}"
            for name, table in tables.items()
            for where, copy in chain.copies_of(name).items()
            for one in differences(table, copy, columns=len(COLUMNS) - (name == "plain"))
        ]

    try:
        until(lambda: not found(), "the copies are equal to their tables")
    except AssertionError as error:
        with contextlib.suppress(Exception):
            return [str(error), *chain.failed(), *found()]
        return [str(error), *chain.failed()]
    return chain.failed()


def run(copies: list[str], kinds: list[str], rounds: int, seed: int, changes: int) -> int:
    """Returns the number of rounds in which a copy ended different."""
    wrong = 0
    with contextlib.ExitStack() as stack:
        chain = Chain(copies, stack)
        for number in range(seed, seed + rounds):
            random = Random(number)
            order = random.sample(kinds, len(kinds))
            begin = time.monotonic()
            found = play(chain, order, random, changes, number)
            wrong += bool(found)
            print(f"round {number}: {', '.join(order)} killed, {time.monotonic() - begin:.0f} s", *found, sep="\n  ", flush=True)
            if found:
                for process in (*chain.workers, chain.broker):
                    print(f"--- {process.name}\n{process.log_text[-3000:]}", flush=True)
                break
    print(f"{copies}: {wrong} rounds differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill processes around a chain of connectors and compare its copies with the table.")
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds (5)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first round; each next one has the next number (1)")
    parser.add_argument("--copies", default="postgres,search,iceberg", help="copies to keep (postgres,search,iceberg)")
    parser.add_argument("--kinds", default="worker,workers,broker,database,search", help="kinds of processes to kill (all)")
    parser.add_argument("--changes", type=int, default=400, help="changes of the tables in a round (400)")
    options = parser.parse_args()
    copies = options.copies.split(",")
    kinds = [one for one in options.kinds.split(",") if one != "search" or "search" in copies]
    return 1 if run(copies, kinds, options.rounds, options.seed, options.changes) else 0


if __name__ == "__main__":
    sys.exit(main())
