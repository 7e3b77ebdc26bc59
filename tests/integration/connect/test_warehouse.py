"""Warehouses whose tasks are cut off at random: every record is there once, or every row is as the topic left it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from json import loads
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from moldau.clients.producer import Producer
from moldau.connect import data
from moldau.connect.connectors.connector import SinkTask
from moldau.connect.connectors.warehouse.delta import DeltaSinkTask
from moldau.connect.connectors.warehouse.iceberg import IcebergSinkTask
from moldau.connect.connectors.warehouse.parquet import ParquetSinkTask, S3SinkTask
from moldau.connect.connectors.warehouse.tables import Overtaken
from moldau.connect.data import Record, Struct
from moldau.connect.errors import DataError
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.connect.own_worker import WorkerProcess
from tests.integration.connect.test_workers import PLAIN_JSON, cluster_of, put, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ROW = data.struct({"id": data.INT64, "name": data.OPTIONAL_STRING, "price": data.decimal(2, optional=True), "at": data.timestamp()})
KEY = data.struct({"id": data.INT64})
Truth = dict[int, dict[str, Any]]


def record(offset: int, number: int, *, gone: bool = False, partition: int = 0, topic: str = "t") -> Record:
    at = datetime(2026, 1, 1, 0, 0, offset % 60, tzinfo=UTC)
    value = Struct(ROW, {"id": number, "name": f"n{offset}", "price": Decimal(offset) / 100, "at": at})
    return Record(
        topic, partition, KEY, Struct(KEY, {"id": number}), ROW, None if gone else value, timestamp=offset,
        offset=offset, position=(topic, partition, offset),
    )  # fmt: skip


class Life:
    """A connector's life: its tasks are cut off anywhere, and some commits of their offsets are lost."""

    def __init__(self, make: Callable[[], SinkTask], config: Mapping[str, str], records: Mapping[TopicPartition, list[Record]]) -> None:
        self.make, self.config, self.records = make, config, records
        self.committed = dict.fromkeys(records, 0)

    async def run(self, random: Random, steps: int | None) -> None:
        """`steps` puts, then an end without a last commit.  None: all records and an orderly end."""
        task = self.make()
        await task.start({"name": "c", **self.config})
        at = {**self.committed, **await task.open(list(self.records))}
        put: dict[TopicPartition, int] = {}
        left = steps
        while (left is None or left) and any(at[one] < len(some) for one, some in self.records.items()):
            one = random.choice([one for one, some in self.records.items() if at[one] < len(some)])
            size = random.randrange(1, 40)
            await task.put(self.records[one][at[one] : at[one] + size])
            at[one] = put[one] = min(at[one] + size, len(self.records[one]))
            left = None if left is None else left - 1
            if random.random() < 0.2:
                await self._commit(task, put, is_heard=random.random() < 0.7)
        if steps is None:
            await self._commit(task, put, is_heard=True)
        await task.stop()

    async def _commit(self, task: SinkTask, put: dict[TopicPartition, int], *, is_heard: bool) -> None:
        found = await task.pre_commit(dict(put))
        if is_heard:
            self.committed.update(found)
            put.clear()


def story(random: Random, steps: int, *, deletes: bool) -> dict[TopicPartition, list[Record]]:
    """Two partitions with different keys."""
    found: dict[TopicPartition, list[Record]] = {}
    for partition in (0, 1):
        numbers = [random.randrange(30) * 2 + partition for _ in range(steps)]
        found[TopicPartition("t", partition)] = [
            record(offset, number, gone=deletes and random.random() < 0.3, partition=partition) for offset, number in enumerate(numbers)
        ]
    return found


def rows_of(records: Mapping[TopicPartition, list[Record]], *, last: bool) -> list[tuple[Any, ...]]:
    """The rows that are to be there: all of them, or the last one of each key."""
    found: dict[Any, Record] = {}
    for some in records.values():
        for one in some:
            found[one.key.values["id"] if last else one.position] = one
    return sorted(tuple(one.value.values.values()) for one in found.values() if one.value is not None)


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def iceberg(folder: Path, **more: str) -> dict[str, str]:
    return {
        "iceberg.tables": "shop.rows", "iceberg.catalog.type": "sql", "iceberg.catalog.uri": f"sqlite:///{folder}/catalog.db",
        "iceberg.catalog.warehouse": f"file://{folder}/warehouse", "iceberg.tables.auto-create-enabled": "true",
        "commit.max.records": "60", **more,
    }  # fmt: skip


def iceberg_rows(folder: Path) -> pa.Table:
    catalog = load_catalog("iceberg", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    return catalog.load_table("shop.rows").scan().to_arrow()


def delta(folder: Path, **more: str) -> dict[str, str]:
    return {"delta.table": str(folder / "rows"), "commit.max.records": "60", **more}


def delta_rows(folder: Path) -> pa.Table:
    return DeltaTable(folder / "rows").to_pyarrow_table()


def parquet_rows(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in sorted(folder.rglob("*.parquet"))])


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}


async def lived(life: Life, seed: int) -> None:
    random = Random(seed)
    for _ in range(5):
        await life.run(random, random.randrange(1, 7))
    await life.run(random, None)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
async def test_every_record_is_a_row_once_wherever_tasks_are_cut_off(tmp_path: Path, kind: str) -> None:
    records = story(Random(1), 250, deletes=False)
    if kind == "iceberg":
        await lived(Life(IcebergSinkTask, iceberg(tmp_path), records), 2)
    else:
        await lived(Life(DeltaSinkTask, delta(tmp_path), records), 2)
    assert listed((iceberg_rows if kind == "iceberg" else delta_rows)(tmp_path)) == rows_of(records, last=False)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
async def test_rows_replace_each_other_and_go(tmp_path: Path, kind: str) -> None:
    records = story(Random(3), 250, deletes=True)
    if kind == "iceberg":
        upserts = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "id"}
        await lived(Life(IcebergSinkTask, iceberg(tmp_path, **upserts), records), 4)
    else:
        await lived(Life(DeltaSinkTask, delta(tmp_path, **{"delta.id.columns": "id"}), records), 4)
    assert listed((iceberg_rows if kind == "iceberg" else delta_rows)(tmp_path)) == rows_of(records, last=True)


async def test_every_record_is_in_one_file(tmp_path: Path) -> None:
    records = story(Random(5), 250, deletes=False)
    config = {"store.url": f"file://{tmp_path}", "flush.size": "25", "rotate.interval.ms": "20"}
    await lived(Life(ParquetSinkTask, config, records), 6)
    whole = {one: some[:240] for one, some in records.items()}  # the last ten records of each partition wait for more
    assert listed(parquet_rows(tmp_path)) == rows_of(whole, last=False)
    assert names(tmp_path) == {
        f"topics/t/partition={partition}/t+{partition}+{start:010d}.parquet" for partition in (0, 1) for start in range(0, 240, 20)
    }


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
async def test_a_task_that_others_have_overtaken_writes_nothing(tmp_path: Path, kind: str) -> None:
    source = TopicPartition("t", 0)
    config = {"name": "c", **(iceberg(tmp_path) if kind == "iceberg" else delta(tmp_path))}
    tasks = [IcebergSinkTask() if kind == "iceberg" else DeltaSinkTask() for _ in range(2)]
    for task in tasks:
        await task.start(config)
        await task.open([source])
        await task.put([record(0, 7)])
    await tasks[1].pre_commit({source: 1})
    with pytest.raises(Overtaken, match="t-0 stands at offset 1 and not at None: another task has written it"):
        await tasks[0].pre_commit({source: 1})
    assert len((iceberg_rows if kind == "iceberg" else delta_rows)(tmp_path)) == 1


async def test_columns_that_come_later_are_added_when_that_is_allowed(tmp_path: Path) -> None:
    wider = data.struct({**{one.name: one.schema for one in ROW.fields}, "more": data.of(data.Type.INT32, optional=True)})
    first = record(0, 1)
    second = Record("t", 0, value_schema=wider, value=Struct(wider, {**first.value.values, "more": 5}), offset=1, position=("t", 0, 1))
    evolves = {"iceberg.tables.evolve-schema-enabled": "true", "delta.evolve.schema": "true"}
    for make, config, read in ((IcebergSinkTask, iceberg, iceberg_rows), (DeltaSinkTask, delta, delta_rows)):
        task = make()
        await task.start({"name": "c", **config(tmp_path)})
        for one in (first, second):
            await task.put([one])
            if one is second:
                with pytest.raises(DataError, match="no column more"):
                    await task.pre_commit({TopicPartition("t", 0): one.offset + 1})
            else:
                await task.pre_commit({TopicPartition("t", 0): one.offset + 1})
        again = make()
        await again.start({"name": "c", **config(tmp_path, **evolves)})
        assert await again.open([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 1}
        await again.put([second])
        await again.pre_commit({TopicPartition("t", 0): 2})
        assert sorted(read(tmp_path)["more"].to_pylist(), key=str) == [5, None]


async def test_what_is_no_row_is_told_with_its_place(tmp_path: Path) -> None:
    task = DeltaSinkTask()
    await task.start({"name": "c", **delta(tmp_path)})
    for value, why in (("text", "type str is no row"), ({}, "without fields"), (None, "no id columns")):
        with pytest.raises(DataError, match=f"offset 9 of t-0: .*{why}"):
            await task.put([Record("t", 0, value=value, offset=9, position=("t", 0, 9))])


@pytest.fixture
def s3() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


async def test_files_in_s3(s3: str) -> None:
    async with httpx.AsyncClient(base_url=s3) as client:
        assert (await client.put("/bucket")).status_code == 200
        task = S3SinkTask()
        keys = {"aws.access.key.id": "k", "aws.secret.access.key": "s", "s3.region": "us-east-1"}
        await task.start({"s3.bucket.name": "bucket", "store.url": s3, "flush.size": "2", **keys})
        await task.put([record(offset, offset) for offset in range(5)])
        assert await task.pre_commit({TopicPartition("t", 0): 5}) == {TopicPartition("t", 0): 4}
        for start in (0, 2):
            content = (await client.get(f"/bucket/topics/t/partition=0/t+0+{start:010d}.parquet")).content
            assert pq.read_table(pa.BufferReader(content))["id"].to_pylist() == [start, start + 1]


async def test_lines_of_json_in_s3(s3: str) -> None:
    async with httpx.AsyncClient(base_url=s3) as client:
        assert (await client.put("/lines")).status_code == 200
        task = S3SinkTask()
        keys = {"aws.access.key.id": "k", "aws.secret.access.key": "s", "s3.region": "us-east-1"}
        json = {"format.class": "io.confluent.connect.s3.format.json.JsonFormat"}
        await task.start({"s3.bucket.name": "lines", "store.url": s3, "flush.size": "2", **keys, **json})
        await task.put([record(offset, offset) for offset in range(2)])
        content = (await client.get("/lines/topics/t/partition=0/t+0+0000000000.json")).text
    assert [loads(line)["id"] for line in content.splitlines()] == [0, 1]


def test_a_worker_that_is_killed_leaves_every_record_in_one_file(tmp_path: Path) -> None:
    count = 3000

    async def produce(bootstrap: str, start: int) -> None:
        async with Producer(bootstrap) as producer:
            for number in range(start, start + count // 3):
                producer.send("rows", b'{"n": %d}' % number, partition=number % 2)
            await producer.flush()

    def stored() -> list[int]:
        return sorted(row["n"] for row in parquet_rows(tmp_path).to_pylist()) if names(tmp_path) else []

    allowed = {"group.min.session.timeout.ms": "1000", "num.partitions": "2"}
    soon = {"consumer.session.timeout.ms": "3000", "consumer.heartbeat.interval.ms": "500"}
    config = {
        "connector.class": "moldau.connect.ParquetSinkConnector", "topics": "rows", "store.url": f"file://{tmp_path}",
        "flush.size": "50", **PLAIN_JSON,
    }  # fmt: skip
    with BrokerProcess(properties=allowed) as broker, WorkerProcess(broker.bootstrap, properties=cluster_of("files", **soon)) as worker:
        for round_ in range(3):
            asyncio.run(produce(broker.bootstrap, round_ * count // 3))
            if round_ == 0:
                put(worker.url, "files", config)
            if round_ < 2:
                before = len(names(tmp_path))
                until(lambda before=before: len(names(tmp_path)) > before, "it works")
                worker.kill()
                worker.start()
        until(lambda: len(stored()) >= count, "all files")
    assert stored() == list(range(count))
