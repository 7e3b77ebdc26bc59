"""● A database of its own for one story."""

import asyncio
import contextlib
import time
from typing import Any, Final, LiteralString, Self

import psycopg

from proof.connect.debezium.oracle import Debezium, Reading
from proof.connect.postgres import Postgres
from proof.connect.stories import Story

END: Final = "story_end"
"""The table whose first row ends a reading."""
LOOK_S: Final = 0.05


class Stage(contextlib.ExitStack):
    """`with` makes the database and its tables."""

    db: "psycopg.Connection[Any]"
    other: "psycopg.Connection[Any]"

    def __init__(self, server: Postgres, told: Story, name: str) -> None:
        super().__init__()
        self._server, self._told, self.name = server, told, name
        self.end_topic = f"{name}.public.{END}"

    def __enter__(self) -> Self:
        with self._server.connect() as maker:
            maker.execute(f"CREATE DATABASE {self.name}")
        super().__enter__()
        self.db, self.other = (self.enter_context(self._server.connect(self.name)) for _ in range(2))
        self.db.execute(f"CREATE TABLE {END} (id int PRIMARY KEY)")
        for statement in self._told.before:
            self.db.execute(statement)
        return self

    @property
    def whole_topics(self) -> set[str]:
        """The topics of tables whose log tells whole rows."""
        names = (one.split('"')[1] for one in self._told.before if one.endswith("REPLICA IDENTITY FULL"))
        return {f"{self.name}.public.{one.replace(' ', '_')}" for one in names}

    def config(self, slot: str) -> dict[str, str]:
        """What both connectors are told."""
        common = {**self._server.options, "database.dbname": self.name, "topic.prefix": self.name, "plugin.name": "pgoutput"}
        return {**common, **self._told.options, "slot.name": self.slot(slot)}

    def slot(self, whose: str) -> str:
        return f"{whose}_{self.name}"

    def read_by(self, debezium: Debezium, slot: str = "dbz") -> Reading:
        return debezium.begin({**self.config(slot), "poll.interval.ms": "20"}, self.end_topic)

    def end_story(self) -> None:
        self.db.execute(f"INSERT INTO {END} VALUES (1)")

    async def wait_for(self, slot: str) -> None:
        """Wait until Debezium reads the slot's log.  A slot is active before, too, while it is made: the snapshot comes after that."""
        query = (
            "SELECT 1 FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid "
            "WHERE slot_name = %s AND r.state IN ('catchup', 'streaming')"
        )
        await asyncio.to_thread(self._until_found, query, slot)

    def _until_found(self, query: LiteralString, slot: str) -> None:
        with self._server.connect(self.name) as db:
            while db.execute(query, [self.slot(slot)]).fetchone() is None:
                time.sleep(LOOK_S)

    async def drop(self, slot: str) -> None:
        """Drop the slot once its reader has gone."""
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        with self._server.connect(self.name) as db:
            while True:
                with contextlib.suppress(psycopg.errors.ObjectInUse):
                    db.execute(query, [self.slot(slot)])
                    return
                await asyncio.sleep(LOOK_S)
