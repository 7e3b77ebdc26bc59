"""Changes of a real PostgreSQL 15: the events add up to the table, whatever happened and wherever reading begins again."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest

from moldau.connect.connectors.postgres import source
from moldau.connect.connectors.postgres.source import PostgresTask
from moldau.connect.data import Record
from moldau.connect.errors import ConnectError, RetriableError
from proof.connect.postgres import IS_INSTALLED, MISSING, Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.skipif(not IS_INSTALLED, reason=MISSING)]
STEPS = 120
UNAVAILABLE = "__debezium_unavailable_value"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server that ends with the module."""
    with Postgres() as one:
        yield one


class Story:
    """A connector's life: its offsets, and what its events add up to."""

    def __init__(self, server: Postgres, name: str, **options: str) -> None:
        self.config = {
            **server.options, "topic.prefix": "db",
            "table.include.list": f"public.{name}", "slot.name": name, "publication.name": name, "poll.interval.ms": "1", **options,
        }  # fmt: skip
        self.committed: Mapping[str, Any] | None = None
        self.rows: dict[Any, dict[str, Any]] = {}
        self.ops: list[str] = []

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.committed

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            key = None if record.key is None else tuple(record.key.values.values())
            if record.topic.startswith("__debezium-heartbeat"):
                assert record.value is not None and record.value.values["ts_ms"] > 0
            elif record.value is None:
                assert key not in self.rows, "a tombstone comes behind a deletion"
            else:
                event = record.value.values
                self.ops.append(event["op"])
                if event["op"] == "d":
                    self.rows.pop(key, None)  # a log read again may delete rows that a second snapshot did not have
                else:
                    kept = {name: old for name, old in self.rows.get(key, {}).items() if event["after"].values[name] == UNAVAILABLE}
                    self.rows[key] = {**event["after"].values, **kept}
            self.committed = record.source_offset

    async def read(self, *, polls: int | None = None) -> None:
        """Reads on from the last offset until nothing comes, or for `polls` polls; then the task ends wherever it is."""
        task = PostgresTask()
        await task.start(self.config, self)
        while polls is None or polls > 0:
            polls = None if polls is None else polls - 1
            records = await task.poll()
            self.take(records)
            if not records and task._messages is None:
                break
            await task.commit()
        await task.stop()


async def test_a_random_story_adds_up_to_the_table_wherever_reading_was_cut_off(server: Postgres) -> None:
    random = Random(7)
    with server.connect() as db:
        db.execute("CREATE TABLE story (id int PRIMARY KEY, name text, big text)")
        db.execute("ALTER TABLE story ALTER COLUMN big SET STORAGE EXTERNAL")
        db.execute("INSERT INTO story SELECT n, 'row ' || n, repeat('x', 5000) FROM generate_series(1, 50) n")
        story = Story(server, "story", **{"max.batch.size": "7"})
        await story.read(polls=3)
        assert len(story.rows) == 21, "reading was cut off within the snapshot"
        for step in range(STEPS):
            one = random.randrange(1, 80)
            what = random.choice(["insert", "update", "delete", "rename", "rolled back", "read"])
            if what == "insert":
                db.execute("INSERT INTO story VALUES (%s, %s, NULL) ON CONFLICT DO NOTHING", [one, f"new {step}"])
            elif what == "update":
                db.execute("UPDATE story SET name = %s WHERE id = %s", [f"step {step}", one])
            elif what == "delete":
                db.execute("DELETE FROM story WHERE id = %s", [one])
            elif what == "rename":
                db.execute("UPDATE story SET id = %s WHERE id = %s", [1000 + step, one])
            elif what == "rolled back":
                with db.transaction():
                    db.execute("UPDATE story SET name = 'kept' WHERE id = %s", [one])
                    with db.transaction(force_rollback=True):
                        db.execute("DELETE FROM story")
            else:
                await story.read(polls=random.randrange(1, 4))
        with db.transaction():
            db.execute("UPDATE story SET name = name || '!'")
        await story.read()
        table = {(row[0],): dict(zip(("id", "name", "big"), row, strict=True)) for row in db.execute("SELECT * FROM story")}
    assert story.rows == table
    assert {"r", "c", "u", "d"} <= set(story.ops)


async def test_a_change_while_the_snapshot_is_taken_is_told_once(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE busy (id int PRIMARY KEY)")
        db.execute("INSERT INTO busy SELECT generate_series(1, 20)")
        story = Story(server, "busy", **{"max.batch.size": "5"})
        task = PostgresTask()
        await task.start(story.config, story)
        db.execute("INSERT INTO busy VALUES (21)")  # in the log and in the snapshot
        story.take(await task.poll())
        db.execute("INSERT INTO busy VALUES (22)")  # in the log alone
        while records := await task.poll():
            story.take(records)
        while records := await task.poll():
            story.take(records)
        await task.stop()
    assert story.ops == ["r"] * 21 + ["c"]


@pytest.mark.parametrize("change", ["ALTER TABLE held_b ADD COLUMN n positive", "TRUNCATE held_b"])
async def test_rows_of_a_table_that_is_written_anew_or_truncated_while_the_snapshot_is_taken_are_told(
    server: Postgres, change: str
) -> None:
    waits = "SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted"
    with server.connect() as db, server.connect() as other, ThreadPoolExecutor(1) as pool:
        db.execute("DROP DOMAIN IF EXISTS positive CASCADE")
        db.execute("CREATE DOMAIN positive AS int CHECK (value > 0)")
        for table in ("held_a", "held_b"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
            db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
            db.execute(f"INSERT INTO {table} SELECT generate_series(1, 5)")
        story = Story(server, "held", **{"table.include.list": "public.held_.", "max.batch.size": "1", "slot.name": f"held_{len(change)}"})
        task = PostgresTask()
        await task.start(story.config, story)
        story.take(await task.poll())
        changing = pool.submit(other.execute, change)
        while not changing.done() and db.execute(waits, [other.info.backend_pid]).fetchone() is None:
            db.execute("SELECT pg_sleep(0.01)")
        while len(story.ops) < 10 and (records := await task.poll()):
            story.take(records)
        await task.stop()
        changing.result()
    assert story.ops == ["r"] * 10


async def test_a_snapshot_is_whole_when_the_server_is_killed_within(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE broken (id int PRIMARY KEY, name text)")
        db.execute("INSERT INTO broken SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n")
    story = Story(server, "broken", **{"max.batch.size": "7"})
    task = PostgresTask()
    await task.start(story.config, story)
    story.take(await task.poll())
    server.kill()
    server.start()
    with server.connect() as db:
        db.execute("DELETE FROM broken WHERE id = 1")
    failures = 0
    while len(story.rows) < 4999 or (1,) in story.rows:
        try:
            story.take(await task.poll())
        except RetriableError:
            failures += 1
    await task.stop()
    assert failures > 0, "the server's end was seen within the snapshot"
    assert sorted(story.rows) == [(number,) for number in range(2, 5001)]


async def test_records_at_hand_are_told_when_a_heartbeat_fails(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE beaten (id int PRIMARY KEY)")
        beats = {"heartbeat.interval.ms": "1", "heartbeat.action.query": "SELECT 1 / count(*) FROM beaten WHERE id > 1"}
        story = Story(server, "beaten", **{"snapshot.mode": "never", **beats})
        task = PostgresTask()
        await task.start(story.config, story)
        db.execute("INSERT INTO beaten VALUES (1)")
        story.take(await task.poll())
        assert story.ops == ["c"]
        with pytest.raises(ConnectError, match="division by zero"):
            await task.poll()
        await task.stop()


async def test_types_are_those_of_debezium(server: Postgres) -> None:
    with server.connect() as db:
        db.execute(
            "CREATE TABLE kinds (id bigint PRIMARY KEY, small smallint, price numeric(10, 2), yes boolean, day date, at timestamp, "
            "zoned timestamptz, raw bytea, ratio float8, doc jsonb)"
        )
        values = "1.50, true, '2024-02-29', '2024-02-29 12:00:00.25', '2024-02-29 12:00:00+02', '\\x00ff', 0.5, '{\"a\": 1}'"
        db.execute(f"INSERT INTO kinds VALUES (1, 2, {values})")
        story = Story(server, "kinds")
        await story.read()
        db.execute(f"INSERT INTO kinds VALUES (2, 2, {values})")
        await story.read()
    first, second = ({name: value for name, value in row.items() if name != "id"} for row in story.rows.values())
    assert first == second, "the snapshot and the log say the same"
    assert {name: str(value) for name, value in first.items()} == {
        "small": "2", "price": "1.50", "yes": "True", "day": "19782", "at": "1709208000250000", "zoned": "2024-02-29T10:00:00.000000Z",
        "raw": "b'\\x00\\xff'", "ratio": "0.5", "doc": '{"a": 1}',
    }  # fmt: skip


def confirmed(db: "psycopg.Connection[Any]", slot: str) -> int:
    row = db.execute("SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("beats", [True, False])
async def test_the_slot_advances_while_only_other_tables_change(server: Postgres, monkeypatch: pytest.MonkeyPatch, beats: bool) -> None:
    name = f"quiet_{beats}".lower()
    monkeypatch.setattr(source, "IDLE_ADVANCE_S", 0.0)
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
        db.execute(f"CREATE TABLE {name}_other (id int)")
        story = Story(server, name, **({"heartbeat.interval.ms": "1"} if beats else {}))
        task = PostgresTask()
        await task.start(story.config, story)
        db.execute(f"INSERT INTO {name} VALUES (1)")
        topics = set()
        for round_ in range(3):
            db.execute(f"INSERT INTO {name}_other SELECT generate_series(1, 1000)")
            behind = confirmed(db, name)
            row = db.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8").fetchone()
            assert row is not None
            for _ in range(6):
                records = await task.poll()
                topics |= {record.topic for record in records}
                story.take(records)
                if records:
                    await task.commit()
            assert confirmed(db, name) >= row[0] > behind
            db.execute(f"INSERT INTO {name} VALUES ({round_ + 2})")
        await task.stop()
        await story.read(polls=4)
    assert sorted(story.rows) == [(1,), (2,), (3,), (4,)]
    assert story.ops == ["r", "c", "c", "c"]
    assert ("__debezium-heartbeat.db" in topics) is beats


async def test_a_transaction_is_told_whole_whichever_of_its_changes_reading_ended_behind(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE cut (id int PRIMARY KEY)")
        story = Story(server, "cut", **{"snapshot.mode": "never", "max.batch.size": "3"})
        await story.read()
        total = 0
        for size in (1, 1, 7, 1, 2, 8, 1):
            db.execute("INSERT INTO cut SELECT generate_series(%s::int, %s::int)", [total, total + size - 1])
            total += size
            await story.read(polls=1)
        await story.read()
    assert len(story.ops) == total
    assert sorted(story.rows) == [(number,) for number in range(total)]


async def test_each_record_of_a_changed_key_comes_once_wherever_reading_ends(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE halves (id int PRIMARY KEY)")
        story = Story(server, "halves", **{"snapshot.mode": "never", "max.batch.size": "1"})
        await story.read()
        db.execute("INSERT INTO halves VALUES (1)")
        await story.read()
        db.execute("UPDATE halves SET id = 2")
        told: list[str] = []
        for _ in range(5):
            told += await read_once(story)
    assert told == ["d", "tombstone", "c"]


async def read_once(story: Story) -> list[str]:
    """What one poll tells, of a task that ends before its slot advances.  Returns the operations."""
    task = PostgresTask()
    await task.start(story.config, story)
    records: Sequence[Record] = []
    for _ in range(3):  # changes that were told before give no records
        records = records or await task.poll()
    story.take(records)
    await task.stop()
    return ["tombstone" if one.value is None else one.value.values["op"] for one in records]


async def test_a_transaction_that_was_told_in_part_goes_on_there_while_the_slot_is_behind_older_ones(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE behind (id int PRIMARY KEY)")
        story = Story(server, "behind", **{"snapshot.mode": "never", "max.batch.size": "5"})
        await story.read()
        db.execute("INSERT INTO behind VALUES (1)")
        db.execute("INSERT INTO behind SELECT generate_series(2, 7)")
        for _ in range(4):
            await read_once(story)
    assert story.ops == ["c"] * 7
    assert sorted(story.rows) == [(number,) for number in range(1, 8)]


@pytest.mark.parametrize("restarts", [True, False])
async def test_reading_goes_on_when_the_slot_is_behind_more_known_changes_than_one_read_asks_for(server: Postgres, restarts: bool) -> None:
    """PostgreSQL keeps a slot's advance at checkpoints only: a server that is killed has the slot as it was before."""
    name = f"back_{restarts}".lower()
    copy = "SELECT pg_copy_logical_replication_slot(%s, %s)"
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
        story = Story(server, name, **{"max.batch.size": "5"})
        task = PostgresTask()
        await task.start(story.config, story)
        story.take(await task.poll())
        db.execute(copy, [name, f"{name}_before"])
        for number in range(40):
            db.execute(f"INSERT INTO {name} VALUES (%s)", [number])
        await read_to(task, story, 40)
        db.execute("SELECT pg_drop_replication_slot(%s)", [name])
        db.execute(copy, [f"{name}_before", name])
        db.execute("SELECT pg_drop_replication_slot(%s)", [f"{name}_before"])
        if restarts:
            await task.stop()
            task = PostgresTask()
            await task.start(story.config, story)
        db.execute(f"INSERT INTO {name} VALUES (40)")
        await read_to(task, story, 41)
        await task.stop()
    assert story.ops == ["c"] * 41


async def read_to(task: PostgresTask, story: Story, rows: int) -> None:
    """Poll until the story has so many rows.  Errors: AssertionError after 200 polls."""
    for _ in range(200):
        records = await task.poll()
        story.take(records)
        if records:
            await task.commit()
        if len(story.rows) >= rows:
            return
    raise AssertionError(f"{len(story.rows)} rows of {rows}")


@pytest.mark.parametrize("change", ["DROP TABLE {}", "ALTER TABLE {} RENAME TO {}_too"])
async def test_changes_of_a_table_that_is_gone_are_told(server: Postgres, change: str) -> None:
    gone = "dropped" if change.startswith("DROP") else "renamed"
    with server.connect() as db:
        db.execute(f"CREATE TABLE {gone} (id int PRIMARY KEY, name text)")
        db.execute(f"CREATE TABLE {gone}_not (id int PRIMARY KEY)")
        story = Story(server, gone, **{"table.include.list": f"public.{gone}.*"})
        await story.read()
        db.execute(f"INSERT INTO {gone} VALUES (1, 'a')")
        db.execute(f"UPDATE {gone} SET id = 2")
        db.execute(change.format(gone, gone))
        db.execute(f"INSERT INTO {gone}_not VALUES (7)")
        await story.read()
    assert story.rows == {(2,): {"id": 2, "name": "a"}, (7,): {"id": 7}}
    assert [one for one in story.ops if one != "r"] == ["c", "d", "c", "c"]


async def test_only_included_tables_and_columns_are_told_whatever_the_publication_has(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE chosen (id int PRIMARY KEY, open text, secret text)")
        db.execute("CREATE TABLE chosen_not (id int PRIMARY KEY)")
        db.execute("CREATE PUBLICATION chosen FOR TABLE chosen, chosen_not")
        options = {"column.exclude.list": r"public\.chosen\.SECRET", "publication.autocreate.mode": "disabled"}
        story = Story(server, "chosen", **{"snapshot.mode": "never", **options})
        await story.read()
        db.execute("INSERT INTO chosen VALUES (1, 'o', 's')")
        db.execute("INSERT INTO chosen_not VALUES (7)")
        await story.read()
    assert story.rows == {(1,): {"id": 1, "open": "o"}}


async def test_a_table_that_is_made_later_is_told_from_the_next_start_on(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE later (id int PRIMARY KEY)")
        story = Story(server, "later", **{"table.include.list": "public.later.*"})
        await story.read()
        db.execute("CREATE TABLE later_too (id int PRIMARY KEY)")
        await story.read(polls=1)
        db.execute("INSERT INTO later_too VALUES (5)")
        await story.read()
    assert sorted(story.rows) == [(5,)]


async def test_truncations_are_told_on_request(server: Postgres) -> None:
    with server.connect() as db:
        db.execute("CREATE TABLE cleared (id int PRIMARY KEY)")
        story = Story(server, "cleared", **{"skipped.operations": "none", "snapshot.mode": "never"})
        task = PostgresTask()
        await task.start(story.config, story)
        db.execute("INSERT INTO cleared VALUES (1)")
        db.execute("TRUNCATE cleared")
        records = list(await task.poll())
        await task.stop()
    assert [(record.value.values["op"], record.key is None) for record in records] == [("c", False), ("t", True)]
