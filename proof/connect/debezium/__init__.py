"""● Debezium's PostgreSQL connector and ours read the same random stories: their records must be equal, field by field, schemas too.

    python -m proof.connect.debezium --stories 50 --seed 1

`oracle/Debezium.java` runs Debezium's own task.  Ours is cut off at random and begins again at the offset of its last record.

DIFFERENCES that are left out of the comparison
- when a connector saw a change: `ts_ms`, `ts_us` and `ts_ns` of the envelope
- `source.version`
- in a snapshot: its time, its transaction and its place in the log, as each connector takes its own snapshot
- `source.sequence` in the first transaction behind a restart of ours: the offset of a record names the commit before the record's own
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from moldau.connect.connectors.postgres.source import PostgresTask
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.converters.json_schema import schema_to_json
from moldau.connect.data import Record
from moldau.pipelines.provision.jars import jar_set
from proof.connect.postgres import Postgres
from proof.connect.stories import LARGE, Story, story
from proof.kafka.apache import java_command
from proof.metadata.oracle import compiled

SOURCE: Final = Path(__file__).parent / "oracle" / "Debezium.java"
FLAGS: Final = ("-XX:+UseSerialGC", "-Xmx512m", "-XX:TieredStopAtLevel=1")
OF_THE_READER: Final = ("ts_ms", "ts_us", "ts_ns")
OF_THE_SNAPSHOT: Final = (*OF_THE_READER, "sequence", "txId", "lsn")
SEQUENCE: Final = ".value.payload.source.sequence:"
END: Final = "story_end"
MOST: Final = 30
OF_A_FLOAT: Final = 1e-7
Shown = dict[str, Any]


class Debezium:
    """The child process.  It reads one story at a time."""

    def __enter__(self) -> Self:
        command = java_command("Debezium", flags=FLAGS)
        at = command.index("-cp") + 1
        classpath = os.pathsep.join([*map(str, jar_set("debezium-3.3.2")), command[at]])
        command[at] = os.pathsep.join([str(compiled(SOURCE, classpath)), classpath])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, config: Mapping[str, str], until: str) -> "Reading":
        """Read from now on, up to the first record of the topic `until`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        own = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "task.id": "0", "name": "story"}
        self._process.stdin.write(json.dumps({"config": {**own, "database.password": "", **config}, "until": until}) + "\n")
        self._process.stdin.flush()
        return Reading(self._process.stdout)


class Reading:
    """The records of one story, collected in a thread."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._found: list[Shown] = []
        self._schemas: dict[int, Any] = {}
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        for line in self._lines:
            if not line.strip():
                return
            one = json.loads(line)
            if "is" in one:
                self._schemas[one["schema"]] = one["is"]
            else:
                self._found.append(self._whole(one))

    def _whole(self, record: Shown) -> Shown:
        """The record with its schemas in place of their numbers."""
        if "error" in record:
            return record
        for part in (record["key"], record["value"], *record["headers"].values()):
            if part is not None:
                part["schema"] = self._schemas[part["schema"]]
        return record

    def records(self, within_s: float = 600.0) -> list[Shown]:
        """Errors: AssertionError."""
        self._thread.join(within_s)
        assert not self._thread.is_alive(), f"Debezium has not come to the end: {len(self._found)} records"
        assert all("error" not in one for one in self._found), self._found[-1]
        return self._found


class Ours:
    """Our task, and what it has told so far."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = {**config, "poll.interval.ms": "1"}
        self.told: list[Record] = []
        self._last: list[Record] = []
        self.begun: list[int] = []
        """How many records had been told at each restart."""
        self._committed: Mapping[str, Any] | None = None
        self._task: PostgresTask | None = None

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._committed

    async def read(self, polls: int) -> None:
        if self._task is None:
            self._task = PostgresTask()
            await self._task.start(self.config, self)
        for _ in range(polls):
            await self._task.commit()  # of the records so far; those of the poll behind it may still be lost
            self._last = list(await self._task.poll())
            self.told += self._last
            if self._last:
                self._committed = self._last[-1].source_offset

    async def end(self) -> None:
        if self._task is not None:
            await self._task.stop()
            self._task = None

    async def cut_off(self, random: Random) -> None:
        """End the task.  Some records of its last poll are taken to be lost, as those that no broker has acknowledged."""
        await self.end()
        if len(self._last) > 1 and "lsn" in (self.told[-2].source_offset or {}) and random.random() < 0.5:
            self.told.pop()
            self._committed = self.told[-1].source_offset
        self._last = []
        self.begun.append(len(self.told))

    async def read_snapshot(self) -> None:
        await self.read(1)
        while self._task is not None and self._task._messages is not None:
            await self.read(1)

    async def read_to(self, topic: str) -> None:
        while not any(record.topic == topic for record in self.told[-self.batch :]):
            await self.read(1)

    @property
    def batch(self) -> int:
        return int(self.config.get("max.batch.size", "2048")) + 8

    def shown(self) -> list[Shown]:
        payloads = JsonConverter(schemas_enable=False, replace_null_with_default=False)
        schemas: dict[int, Any] = {}

        def tree(schema: Any, value: Any) -> Any:
            if schema is None and value is None:
                return None
            if id(schema) not in schemas:
                schemas[id(schema)] = schema_to_json(schema, payloads.to_json)
            data = payloads.to_bytes("", schema, value)
            return {"schema": schemas[id(schema)], "payload": None if data is None else json.loads(data)}

        return [
            {
                "topic": one.topic,
                "key": tree(one.key_schema, one.key),
                "value": tree(one.value_schema, one.value),
                "headers": {header.key: tree(header.schema, header.value) for header in one.headers},
            }
            for one in self.told
        ]


class Schemas:
    """Compares schemas.  Records share theirs, so each pair of schemas is compared once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[str]] = {}

    def different(self, their: Shown, own: Shown) -> list[str]:
        """The paths that differ.  The records' schemas must live as long as this object."""
        found = []
        for name, a, b in ((one, their[one], own[one]) for one in ("key", "value")):
            if a is None or b is None:
                continue
            pair = id(a["schema"]), id(b["schema"])
            if pair not in self._known:
                self._known[pair] = list(differing(a["schema"], b["schema"], f".{name}.schema"))
            found += self._known[pair]
        return found


def comparable(record: Shown) -> Shown:
    """A record without the points under DIFFERENCES, and without the schemas of its key and its value."""
    record = {**record, "key": record["key"] and {**record["key"], "schema": None}}
    if record["value"] is None:
        return record
    value = dict(record["value"]["payload"])
    source = {**value["source"], "version": ""}
    for name in OF_THE_READER:
        value[name] = 0
    if value["op"] == "r":
        source |= dict.fromkeys(OF_THE_SNAPSHOT, 0)
    return {**record, "value": {"schema": None, "payload": {**value, "source": source}}}


def differences(theirs: Sequence[Shown], own: Sequence[Shown], begun: Sequence[int]) -> list[str]:
    """The differences, as paths with both values, each with the number of the first record that has it.  `begun`: restarts of ours."""
    found: dict[str, int] = {}
    schemas = Schemas()
    behind = {number for first in begun for number in _same_transaction(own, first)}
    for number, (their, our) in enumerate(zip(theirs, own, strict=False)):
        if _place(their) != _place(our):
            found[f" Debezium {_place(their)}, ours {_place(our)}"] = number
            break
        for path in (*schemas.different(their, our), *differing(comparable(their), comparable(our))):
            if number in behind and path.startswith(SEQUENCE):
                continue
            found.setdefault(f"{their['topic']}{path}", number)
    listed = [f"record {number} {path}" for path, number in found.items()]
    if len(theirs) != len(own):
        listed.append(f"{len(theirs)} records of Debezium, {len(own)} of ours")
    return listed[:MOST]


def _same_transaction(records: Sequence[Shown], first: int) -> Iterator[int]:
    """The numbers of the records from `first` on that are of one transaction."""
    wanted = None
    for number in range(first, len(records)):
        value = records[number]["value"]
        if value is None:
            continue
        transaction = value["payload"]["source"]["txId"]
        if wanted not in (None, transaction):
            return
        wanted = transaction
        yield number


def _place(record: Shown) -> tuple[Any, ...]:
    """What tells a record from others."""
    value = record["value"] and record["value"]["payload"]
    key = record["key"] and record["key"]["payload"]
    return record["topic"], str(key), value and value["op"], value and value["op"] != "r" and value["source"]["lsn"]


def differing(their: Any, our: Any, path: str = "") -> Iterator[str]:
    """The paths at which two trees differ, with both values."""
    if isinstance(their, dict) and isinstance(our, dict):
        for name in sorted({*their, *our}):
            yield from differing(their.get(name, "(none)"), our.get(name, "(none)"), f"{path}.{name}")
    elif isinstance(their, list) and isinstance(our, list) and len(their) == len(our):
        for number, (a, b) in enumerate(zip(their, our, strict=True)):
            label = a.get("field", number) if isinstance(a, dict) else number
            yield from differing(a, b, f"{path}[{label}]")
    elif isinstance(their, float) and isinstance(our, float | int) and math.isclose(their, our, rel_tol=OF_A_FLOAT):
        return  # Java 17 prints more digits of a float than it has (JDK-4511638)
    elif their != our:
        yield f"{path}: Debezium {str(their)[:200]}, ours {str(our)[:200]}"


def wait_for_slot(db: "psycopg.Connection[Any]", slot: str) -> None:
    """Wait until the slot's log is read.  A slot is active before, too, while it is made: the snapshot comes after that."""
    query = (
        "SELECT 1 FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid "
        "WHERE slot_name = %s AND r.state IN ('catchup', 'streaming')"
    )
    while db.execute(query, [slot]).fetchone() is None:
        db.execute("SELECT pg_sleep(0.05)")


async def compare(server: Postgres, debezium: Debezium, told: Story, name: str) -> tuple[int, list[str]]:
    """Play one story in a database of its own.  Returns the number of records, and the differences."""
    with server.connect() as maker:
        maker.execute(f"CREATE DATABASE {name}")
    random = Random(name)
    common = {**server.options, "database.dbname": name, "topic.prefix": "db", "plugin.name": "pgoutput", **told.options}
    with server.connect(name) as db, server.connect(name) as other:
        db.execute(f"CREATE TABLE {END} (id int PRIMARY KEY)")
        for statement in told.before:
            db.execute(statement)
        reading = debezium.begin({**common, "slot.name": f"dbz_{name}", "poll.interval.ms": "20"}, f"db.public.{END}")
        ours = Ours({**common, "slot.name": f"own_{name}", "publication.name": "own", "max.batch.size": str(random.choice((3, 50, 2048)))})
        await ours.read_snapshot()
        await asyncio.to_thread(wait_for_slot, db, f"dbz_{name}")
        for step in told.steps:
            step(db, other)
            if random.random() < 0.2:
                await ours.read(random.randrange(1, 4))
            if random.random() < 0.1:
                await ours.cut_off(random)
        db.execute(f"INSERT INTO {END} VALUES (1)")
        await ours.read_to(f"db.public.{END}")
        await ours.end()
        theirs = await asyncio.to_thread(reading.records)
        for slot in (f"dbz_{name}", f"own_{name}"):
            await asyncio.to_thread(drop_slot, db, slot)
    return len(theirs), differences(theirs, ours.shown(), ours.begun)


def drop_slot(db: "psycopg.Connection[Any]", slot: str) -> None:
    """Drop the slot once its reader has gone."""
    while True:
        with contextlib.suppress(psycopg.errors.ObjectInUse):
            db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot])
            return
        db.execute("SELECT pg_sleep(0.05)")


async def run(stories: int, seed: int, large: int | None) -> int:
    """Returns the number of stories that differ."""
    wrong = records = 0
    with Postgres() as server, Debezium() as debezium:
        for number in range(seed, seed + stories):
            told = story(Random(number), large=large or LARGE, has_large=large is not None)
            count, found = await compare(server, debezium, told, f"story_{number}")
            records += count
            wrong += bool(found)
            print(f"story {number}: {count} records" + "".join(f"\n  {one}" for one in found), flush=True)
    print(f"{stories} stories, {records} records: {wrong} stories differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare Debezium's records with ours on random stories.")
    parser.add_argument("--stories", type=int, default=10, help="how many stories (10)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first story; each next one has the next number (1)")
    parser.add_argument("--large", type=int, metavar="ROWS", help="each story has one transaction of so many rows")
    options = parser.parse_args()
    return 1 if asyncio.run(run(options.stories, options.seed, options.large)) else 0


if __name__ == "__main__":
    sys.exit(main())
