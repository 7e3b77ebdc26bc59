"""● Values to files of Parquet or JSON in a folder or an object store that speaks S3.

Promise: once.  A file's name is its topic, partition and first offset.  Its records alone decide where the file ends (flush.size,
rotate.interval.ms, another schema).  Offsets are committed behind whole files, so a task that begins again writes the same files again.

Source: Confluent's S3 sink.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.config import ConfigError as StoreConfigError
from moldau.connect.connectors.connector import Connector, SinkTask
from moldau.connect.connectors.warehouse.formats import JSON, PARQUET, Format, format_of
from moldau.connect.connectors.warehouse.rows import missing
from moldau.connect.data import Record, Schema
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, DataError, RetriableError
from moldau.storage.tiered.config import STORAGE_URL, StoreConfig
from moldau.storage.tiered.store import Obstore
from moldau.types import TopicPartition

PARTITIONER: Final = "io.confluent.connect.storage.partitioner.DefaultPartitioner"
STORAGE: Final = "io.confluent.connect.s3.storage.S3Storage"
CODECS: Final = ("none", "snappy", "gzip", "zstd", "lz4")
FILES: Final = (
    Key("flush.size", Kind.INT, REQUIRED, "HIGH", "How many records a file has.", check.at_least(1)),
    Key("rotate.interval.ms", Kind.LONG, -1, "HIGH", "The time that a file's records may span, by their own timestamps; "
        "-1: no limit."),
    Key("topics.dir", Kind.STRING, "topics", "HIGH", "The folder above those of the topics."),
    Key("parquet.codec", Kind.STRING, "snappy", "LOW", "How columns are compressed.", check.one_of(*CODECS)),
    Key("behavior.on.null.values", Kind.STRING, "fail", "LOW", "What a record without a value does.", check.one_of("fail", "ignore")),
)  # fmt: skip
FOLDER: Final = Definition(
    Key("store.url", Kind.STRING, REQUIRED, "HIGH", "The folder, as file:///path; or s3://bucket/folder.", check.non_empty), *FILES
)
S3: Final = Definition(
    Key("s3.bucket.name", Kind.STRING, REQUIRED, "HIGH", "The bucket.", check.non_empty),
    Key("s3.region", Kind.STRING, "us-west-2", "MEDIUM", "The bucket's region."),
    Key("store.url", Kind.STRING, None, "LOW", "The S3 server, as https://host; that of AWS without it."),
    Key("s3.path.style.access.enabled", Kind.BOOLEAN, True, "LOW", "Whether the bucket is part of the path, and not of the server's name."),
    Key("aws.access.key.id", Kind.STRING, None, "HIGH", "The access key; without it, that of the environment or the machine."),
    Key("aws.secret.access.key", Kind.PASSWORD, None, "HIGH", "Goes with the access key."),
    Key("format.class", Kind.STRING, PARQUET, "HIGH", "The form of files.", check.one_of(PARQUET, JSON)),
    Key("partitioner.class", Kind.STRING, PARTITIONER, "MEDIUM", "What names the folders below a topic's.", check.one_of(PARTITIONER)),
    Key("storage.class", Kind.STRING, STORAGE, "HIGH", "Where files go.", check.one_of(STORAGE)),
    *FILES,
)


@dataclass(slots=True)
class _File:
    """An unfinished file of one partition.  `folder`: the topic that transforms gave the records."""

    source: TopicPartition
    folder: str
    schema: Schema | None
    start: int
    first_ms: int | None
    suffix: str
    rows: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        topic, partition = self.source
        return f"{self.folder}/partition={partition}/{topic}+{partition}+{self.start:010d}{self.suffix}"


class ParquetSinkTask(SinkTask):
    definition = FOLDER

    async def start(self, config: Config) -> None:
        self._options = self.definition.parse(config)
        self._format: Format = format_of(self._options)
        try:
            import pyarrow.parquet  # noqa: F401 - fails where pyarrow is missing
        except ImportError as error:
            raise missing("pyarrow", error) from error
        self._store = await asyncio.to_thread(self._opened)
        self._growing: dict[tuple[TopicPartition, str], _File] = {}
        self._whole: list[_File] = []
        """The files to be stored."""
        self._next: dict[TopicPartition, int] = {}
        """The next offset to take.  It shows which records are put again."""

    def _opened(self) -> Obstore:
        try:
            return Obstore.open(self.place(), "")
        except StoreConfigError as error:
            raise ConfigError(str(error)) from error

    def place(self) -> StoreConfig:
        """Errors: moldau.config.ConfigError."""
        return StoreConfig.behind("", {STORAGE_URL: self._options["store.url"]})

    async def close(self, partitions: Collection[TopicPartition]) -> None:
        """Give the partitions up.  Their records that are not stored come again, in the next task that gets the partitions."""
        gone = set(partitions)
        self._growing = {key: one for key, one in self._growing.items() if key[0] not in gone}
        self._whole = [one for one in self._whole if one.source not in gone]
        for one in gone:
            self._next.pop(one, None)

    async def put(self, records: Sequence[Record]) -> None:
        for record in records:
            assert record.position is not None
            topic, partition, offset = record.position
            source = TopicPartition(topic, partition)
            if offset >= self._next.get(source, 0):
                self._take(source, offset, record)
                self._next[source] = offset + 1
        await self._store_whole()

    def _take(self, source: TopicPartition, offset: int, record: Record) -> None:
        """Errors: DataError."""
        if record.value is None:
            if self._options["behavior.on.null.values"] == "fail":
                raise DataError(
                    f"a record without a value, at offset {offset} of {source.topic}: behavior.on.null.values=ignore passes it over"
                )
            return
        row = self._format.row(record)
        key = source, record.topic
        file = self._growing.get(key)
        if file is not None and (file.schema != record.value_schema or self._is_late(file, record)):
            self._whole.append(self._growing.pop(key))
            file = None
        if file is None:
            file = self._growing[key] = _File(source, record.topic, record.value_schema, offset, record.timestamp, self._format.suffix)
        file.rows.append(row)
        if len(file.rows) >= self._options["flush.size"]:
            self._whole.append(self._growing.pop(key))

    def _is_late(self, file: _File, record: Record) -> bool:
        interval = self._options["rotate.interval.ms"]
        return (
            interval >= 0 and None not in (file.first_ms, record.timestamp) and (record.timestamp or 0) - (file.first_ms or 0) >= interval
        )

    async def _store_whole(self) -> None:
        while self._whole:
            await asyncio.to_thread(self._write, self._whole[0])
            self._whole.pop(0)

    def _write(self, file: _File) -> None:
        """Errors: DataError, RetriableError."""
        content = self._format.file(file.schema, file.rows)
        name = "/".join(part for part in (self._options["topics.dir"].strip("/"), file.name) if part)
        try:
            self._store.put(name, [content])
        except OSError as error:
            raise RetriableError(str(error)) from error

    async def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets to commit.  For a partition with records in no stored file yet, that is the first of their offsets."""
        starts: dict[TopicPartition, int] = {}
        for one in [*self._growing.values(), *self._whole]:
            starts[one.source] = min(one.start, starts.get(one.source, one.start))
        return {source: starts.get(source, end) for source, end in offsets.items()}


class S3SinkTask(ParquetSinkTask):
    definition = S3

    def place(self) -> StoreConfig:
        options = self._options
        given = {
            STORAGE_URL: f"s3://{options['s3.bucket.name']}",
            "storage.s3.endpoint.url": options["store.url"],
            "storage.s3.region": options["s3.region"],
            "storage.s3.path.style.access.enabled": str(options["s3.path.style.access.enabled"]).lower(),
            "storage.aws.access.key.id": options["aws.access.key.id"],
            "storage.aws.secret.access.key": options["aws.secret.access.key"],
        }
        return StoreConfig.behind("", {key: value for key, value in given.items() if value is not None})


class ParquetSink(Connector):
    names = ("moldau.connect.ParquetSinkConnector",)
    kind = "sink"
    definition = FOLDER
    task = ParquetSinkTask
    task_class = "moldau.connect.ParquetSinkTask"


class S3Sink(Connector):
    names = ("io.confluent.connect.s3.S3SinkConnector",)
    kind = "sink"
    definition = S3
    task = S3SinkTask
    task_class = "io.confluent.connect.s3.S3SinkTask"
