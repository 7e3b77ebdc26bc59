"""● Our task alone, without a worker: it is cut off and begins again at the offset of its last record."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from moldau.connect.connectors.postgres.source import PostgresTask
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.converters.json_schema import schema_to_json
from moldau.connect.data import Record
from proof.connect.debezium.records import Records


class Ours:
    """Our task, and what it has told so far."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = {**config, "poll.interval.ms": "1"}
        self.restarts = 0
        self._told = _Shown()
        self._last: Sequence[Record] = ()
        """The records of the last poll.  They are not in `_told` yet: they may be lost."""
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
            self._told.add(self._last)
            self._last = await self._task.poll()
            if self._last:
                self._committed = self._last[-1].source_offset

    async def end(self) -> None:
        if self._task is not None:
            await self._task.stop()
            self._task = None

    async def cut_off(self, random: Random) -> None:
        """End the task.  Some records of its last poll are taken to be lost, as those that no broker has acknowledged."""
        await self.end()
        if len(self._last) > 1 and "lsn" in (self._last[-2].source_offset or {}) and random.random() < 0.5:
            self._last = self._last[:-1]
            self._committed = self._last[-1].source_offset
        self._told.add(self._last)
        self._last = ()
        self.restarts += 1

    async def read_snapshot(self) -> None:
        await self.read(1)
        while self._task is not None and self._task._messages is not None:
            await self.read(1)

    async def read_to(self, topic: str) -> None:
        while not any(record.topic == topic for record in self._last):
            await self.read(1)

    def records(self) -> Records:
        self._told.add(self._last)
        self._last = ()
        return self._told.records


class _Shown:
    """Connect's records as lines."""

    def __init__(self) -> None:
        self.records = Records()
        self._payloads = JsonConverter(schemas_enable=False, replace_null_with_default=False)
        self._numbers: dict[int, tuple[int, Any]] = {}
        """By the identity of a schema: its number, and the schema, so that the identity stays its own."""

    def add(self, records: Sequence[Record]) -> None:
        for one in records:
            headers = ", ".join(f'"{header.key}": {self._tree(header.schema, header.value)}' for header in one.headers)
            key, value = self._tree(one.key_schema, one.key), self._tree(one.value_schema, one.value)
            self.records.add(one.topic, f'{{"topic": "{one.topic}", "key": {key}, "value": {value}, "headers": {{{headers}}}}}')

    def _tree(self, schema: Any, value: Any) -> str:
        if schema is None and value is None:
            return "null"
        if id(schema) not in self._numbers:
            self._numbers[id(schema)] = len(self._numbers), schema
            self.records.schemas[len(self._numbers) - 1] = schema_to_json(schema, self._payloads.to_json)
        data = self._payloads.to_bytes("", schema, value)
        payload = "null" if data is None else data.decode("utf-8")
        return f'{{"schema": {self._numbers[id(schema)][0]}, "payload": {payload}}}'
