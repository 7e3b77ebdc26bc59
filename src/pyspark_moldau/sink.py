"""● The sink: one transaction a micro-batch, so that its output is there once, whatever is killed and started again.

    driver   plan      `begin`: a new epoch of the transactional id (fences and ends what was open), then the marker is read;
                       where the last micro-batch wrote nothing, its epoch was passed on, and is taken again (`epochs`)
    tasks    write     with the driver's (transactional id, producer id, epoch); they speak to partition leaders only
    driver   commit    records that tasks handed over are written, the marker is set to this micro-batch, the transaction is committed

Spark plans a micro-batch before it runs, and after a crash runs the newest one again with the same number and the same input.  The marker
is an offset of the group named like the transactional id.  It is set within the transaction, so it and the output become visible together.

    marker says this micro-batch             it is committed, Spark did not come to note it: nothing is written again
    marker says a later one                  the checkpoint is older than the output: refused
    marker is another query's                two queries, or a new checkpoint, under one name: refused

One producer's records in a partition are numbered, so only one task may write to a partition.  Tasks that do not know whether they are the
only ones hand their records to the driver: in files, where they run on the driver's machine (`spool`), else through Spark, up to
`maxBytesThroughDriver`.  Beyond that they write by themselves and hope: two tasks that wrote to one partition fail the commit.
`by_output_partition` arranges a frame so that tasks know.  A second try of a task cannot tell what the first try wrote: it fails the
micro-batch, which then begins anew with a new epoch.  Where Spark may run a whole stage again, and count its tasks' tries from 0 again,
tasks cannot know whether they are the first (`attempts`): they hand over everything.

Source: KIP-98, KIP-890.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.offsets import committed
from moldau.clients.blocking.produce import BatchWriter as PartitionsWriter
from moldau.clients.blocking.produce import Placed
from moldau.clients.blocking.transactions import (
    ADDS_PARTITIONS_ITSELF,
    OffsetMark,
    TransactionalProducer,
    add_offset,
    add_partitions,
    begin,
    end,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.builder import BatchOptions, seal_batch
from moldau.protocol.records.compression import Codec
from moldau.types import TopicPartition
from pyspark_moldau.arrow import to_records
from pyspark_moldau.attempts import RUN_ONCE, is_run_once
from pyspark_moldau.epochs import Epoch, epoch_for, pass_on
from pyspark_moldau.options import OptionError, Options
from pyspark_moldau.rows import NO_PARTITION, Rows, SinkError, by_partition, check_columns, partitions_of, rows_of, topics_of
from pyspark_moldau.session import cluster_of
from pyspark_moldau.spool import NOWHERE, Spool, batches_in, is_here, make, remove, remove_all

PREFIX: Final = "spark."
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
BUFFERED_BYTES: Final = 32 * 1024 * 1024
MARKED_TOPICS: Final = 16
DEFAULT_BATCH_BYTES: Final = 512 * 1024
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 600_000
DEFAULT_BYTES_THROUGH_DRIVER: Final = 32 * 1024 * 1024
LEAST_SPOOLED_BYTES: Final = 64 * 1024
"""A task that has less hands it through Spark: a file costs more."""

FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE})
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
SEVERAL_TASKS: Final = (
    "several tasks write to one partition, and nothing is committed: write pyspark_moldau.by_output_partition(frame, options) instead of "
    "the frame, or leave out option onePartitionOneTask"
)


class MarkerConflict(Exception):
    """The output of this sink does not fit this query's checkpoint."""


@dataclass(frozen=True)
class Marker:
    """The newest micro-batch that is committed: its number, its query, and how many rows it wrote."""

    batch_id: int
    query_id: str
    rows: int

    def to_metadata(self) -> str:
        return json.dumps({"queryId": self.query_id, "rows": self.rows})

    @classmethod
    def newest(cls, cluster: BlockingCluster, group_id: str) -> "Marker | None":
        """Errors: KafkaError, OSError, MarkerConflict."""
        found = committed(cluster, group_id)
        if not found:
            return None
        mark = max(found.values())
        try:
            said = json.loads(mark.metadata)
            return cls(mark.offset - 1, str(said["queryId"]), int(said["rows"]))
        except (ValueError, KeyError, TypeError):
            raise MarkerConflict(f"group {group_id} is not a sink's: choose another option 'sinkId'") from None

    def is_of(self, batch_id: int, query_id: str, sink: str) -> bool:
        """Whether the micro-batch is the one that is marked.  Errors: MarkerConflict."""
        ways_out = f"give the query a 'sinkId' of its own, or delete the group {sink} to write everything again"
        if self.query_id != query_id:
            raise MarkerConflict(
                f"the output of sink {sink} was written by another query, {self.query_id}, and this is {query_id}: {ways_out}"
            )
        if batch_id < self.batch_id:
            raise MarkerConflict(
                f"micro-batch {batch_id} is to be written, and sink {sink} has {self.batch_id} already: "
                f"the checkpoint is older than the output.  Restore the newest checkpoint, or {ways_out}"
            )
        return batch_id == self.batch_id


@dataclass(frozen=True)
class Plan:
    """The driver's decisions for one micro-batch, which every task gets."""

    epoch: Epoch
    marker: Marker | None
    added: frozenset[TopicPartition]
    """For brokers before transaction.version 2: the partitions that are part of the transaction already."""
    counts: Mapping[str, int]
    """The number of partitions of option `topic`'s topic; tasks ask for the numbers of topics that rows name."""
    spool: str = NOWHERE
    """The folder of this micro-batch's spool files on the driver's machine."""

    @property
    def producer(self) -> TransactionalProducer:
        return self.epoch.producer

    def may_write(self, one: TopicPartition) -> bool:
        return self.producer.transaction_version >= ADDS_PARTITIONS_ITSELF or one in self.added


@dataclass
class Written(WriterCommitMessage):
    """The result of one task."""

    plan: Plan
    query_id: str
    rows: int = 0
    was_there: bool = False
    """The micro-batch is committed already: rows were counted and nothing was written."""
    placed: dict[TopicPartition, Placed] = field(default_factory=dict)
    handed: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    """Batches that the driver is to write."""
    spooled: tuple[str, list[tuple[TopicPartition, int]]] | None = None
    """Further ones, in a file: its path, and the partition and size of each batch."""


class _Writer:
    """The common base of both writers.  It is pickled on its way to the tasks, when it is sure that there are tasks: pickling begins the
    transaction.
    """

    def __init__(self, options: Options, schema: StructType, given: Mapping[str, str]) -> None:
        self.options = options
        self.schema = schema
        self.topic: str | None = options.get("topic")
        self.given = {name.lower(): value for name, value in given.items()}
        self.plan: Plan | None = None
        check_columns(schema, self.topic)

    def __getstate__(self) -> dict[str, Any]:
        if self.plan is None:
            self.plan = self._begin()
        return self.__dict__

    @property
    def cluster(self) -> BlockingCluster:
        return cluster_of(self.options, "sink")

    def transactional_id(self) -> str:
        """Errors: OptionError."""
        raise NotImplementedError

    def _marker(self, transactional_id: str) -> Marker | None:
        return None

    def _begin(self) -> Plan:
        cluster, transactional_id = self.cluster, self.transactional_id()
        if self.topic is None:
            counts = {}
            cluster.retrying(lambda: cluster.refresh([]))
        else:
            counts = {self.topic: partition_count(cluster, self.topic)}
        epoch = self._epoch(cluster.view.cluster_id or "", transactional_id)
        producer = epoch.producer
        # The marker is read only now: the transaction before has ended one way or the other, so the marker is the last word.
        try:
            marker = self._marker(transactional_id)
        except KafkaError as error:
            raise explained(error, transactional_id) from error
        added: set[TopicPartition] = set()
        if producer.transaction_version < ADDS_PARTITIONS_ITSELF:
            added = {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}
            add_partitions(cluster, producer, added)
        return Plan(epoch, marker, frozenset(added), counts, self._spool(transactional_id, epoch.token))

    def _spool(self, transactional_id: str, token: str) -> str:
        """Only tasks that hand records to the driver need it, and a limit that the user set is a limit."""
        if self.options.get("onePartitionOneTask", False) or "maxBytesThroughDriver" in self.options:
            return NOWHERE
        return make(transactional_id, token)

    def _epoch(self, cluster_id: str, transactional_id: str) -> Epoch:
        timeout_ms = self.options.get("kafka.transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
        try:
            return epoch_for(self.cluster, cluster_id, transactional_id, timeout_ms=timeout_ms)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                reason = f"{timeout_ms} ms are more than the broker's transaction.max.timeout.ms: give less"
                raise OptionError("kafka.transaction.timeout.ms", reason) from error
            raise

    def _write(self, batches: Iterator[pa.RecordBatch], message: Written) -> Written:
        context = TaskContext.get()
        assert context is not None, "tasks write"
        if context.attemptNumber() > 0:
            raise SinkError("a failed task of this micro-batch was tried again: nobody knows what it wrote first, so all begins anew")
        if message.was_there:
            message.rows = sum(batch.num_rows for batch in batches)
            return message
        return _Task(self, context, message).write(batches)

    def _end(self, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Writes the records that were handed over, sets the marker, commits.  Errors: MarkerConflict, SinkError, KafkaError, OSError."""
        told = [one for one in messages if isinstance(one, Written)]
        if len(told) != len(messages):
            raise SinkError("a task did not say what it wrote: the micro-batch begins anew")
        if not told:
            return
        producer, rows = _the_one_producer(told), sum(one.rows for one in told)
        if told[0].was_there:
            _see_that_it_is_the_same(told[0].plan.marker, rows, producer.transactional_id)
            remove(told[0].plan.spool)
            return
        placed = _placed_once(told)
        marker = None if batch_id is None else Marker(batch_id, told[0].query_id, rows)
        try:
            handed = _write_handed(self.cluster, producer, told, placed)
            topics = {one.topic for one in (*placed, *handed)}
            if not topics and marker is not None:
                pass_on(told[0].plan.epoch)
            self._mark_and_commit(producer, topics, marker)
        except KafkaError as error:
            raise explained(error, producer.transactional_id) from error
        remove(told[0].plan.spool)

    def _mark_and_commit(self, producer: TransactionalProducer, topics: set[str], marker: Marker | None) -> None:
        if not topics:
            return  # nothing was written: there is no transaction to end
        if marker is not None:
            kept_for = tuple(sorted(topics)[:MARKED_TOPICS])
            add_offset(self.cluster, producer, OffsetMark(producer.transactional_id, kept_for, marker.batch_id + 1, marker.to_metadata()))
        end(self.cluster, producer, commit=True)

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A new epoch aborts the transaction, and fences tasks that still run."""
        plan = next((one.plan for one in messages if isinstance(one, Written)), self.plan)
        transactional_id = self.transactional_id() if plan is None else plan.producer.transactional_id
        with suppress(OSError):
            remove_all(transactional_id)
        begin(self.cluster, transactional_id, timeout_ms=self.options.get("kafka.transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of a streaming query."""

    def transactional_id(self) -> str:
        named = self.options.get("kafka.transactional.id")
        if named is not None:
            return str(named)
        sink_id = self.options.get("sinkId") or _id_of_checkpoint(self.given.get("checkpointlocation"))
        if sink_id is None:
            raise OptionError("sinkId", "it is needed where the query has no option checkpointLocation: a name for this output")
        return PREFIX + str(sink_id)

    def _marker(self, transactional_id: str) -> Marker | None:
        return Marker.newest(self.cluster, transactional_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context, plan = TaskContext.get(), self.plan
        assert context is not None and plan is not None, "planned by the driver"
        batch_id, query_id = context.getLocalProperty(BATCH_ID), context.getLocalProperty(QUERY_ID)
        if batch_id is None or query_id is None:
            raise SinkError(f"Spark does not say which micro-batch this is ({BATCH_ID}, {QUERY_ID}): this version of it is not known")
        marker = plan.marker
        was_there = marker is not None and marker.is_of(int(batch_id), query_id, plan.producer.transactional_id)
        return self._write(iterator, Written(plan, query_id, was_there=was_there))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._end(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(messages)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of one frame: all of it, or nothing.  Nobody knows whether the frame was written before, so no marker is set."""

    def __init__(self, options: Options, schema: StructType, given: Mapping[str, str]) -> None:
        super().__init__(options, schema, given)
        self.name = f"{PREFIX}batch.{uuid4()}"

    def transactional_id(self) -> str:
        named, sink_id = self.options.get("kafka.transactional.id"), self.options.get("sinkId")
        return str(named) if named is not None else PREFIX + str(sink_id) if sink_id is not None else self.name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        assert self.plan is not None, "planned by the driver"
        return self._write(iterator, Written(self.plan, ""))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._end(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class _Task:
    """One task's rows, gathered by partition until a batch is full."""

    def __init__(self, writer: _Writer, context: TaskContext, message: Written) -> None:
        options = writer.options
        self.cluster = writer.cluster
        self.topic = writer.topic
        self.message = message
        self.task = context.partitionId()
        self.is_run_once = is_run_once(context.getLocalProperty)
        self.keeps_to_one: bool = options.get("onePartitionOneTask", False)
        """Rows without a key go to the same partition all."""
        self.is_alone = self.keeps_to_one and self.is_run_once
        self.batch_bytes = options.get("kafka.batch.size", DEFAULT_BATCH_BYTES)
        self.most_handed = options.get("maxBytesThroughDriver", DEFAULT_BYTES_THROUGH_DRIVER)
        self.batch_options = BatchOptions(codec=Codec.from_name(options.get("kafka.compression.type", "none")), is_transactional=True)
        self.gathered: dict[TopicPartition, list[Rows]] = {}
        self.sizes: dict[TopicPartition, int] = {}
        self.handed_bytes = 0
        self.spool_folder = message.plan.spool if is_here(message.plan.spool) else NOWHERE
        self.spool: Spool | None = None
        self.turn = 0
        self.counts = dict(message.plan.counts)
        self.writer = PartitionsWriter(self.cluster, message.plan.producer)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Errors: SinkError, KafkaError, OSError."""
        try:
            for batch in batches:
                if batch.num_rows:
                    self._gather(batch)
                    self.message.rows += batch.num_rows
            for one in list(self.gathered):
                self._encode(one)
            self.message.placed = self.writer.flush()
            self._close_spool()
        except KafkaError as error:
            raise explained(error, self.message.plan.producer.transactional_id) from error
        return self.message

    def _gather(self, batch: pa.RecordBatch) -> None:
        everything = rows_of(batch, time.time_ns() // 1_000_000)
        given = batch.column("partition") if "partition" in batch.schema.names else None
        for topic, places in topics_of(batch, self.topic):
            rows = everything if places is None else everything.part(places)
            told = given if given is None or places is None else given.take(pa.array(places))
            count = self.counts[topic] = self.counts.get(topic) or partition_count(self.cluster, topic)
            partitions = partitions_of(rows, told, topic, count)
            # Rows that may go anywhere fill one partition's batch, then the next one's; a task that is alone keeps to one partition.
            own = (self.task + (0 if self.keeps_to_one else self.turn)) % count
            for partition, of_it in by_partition(np.where(partitions == NO_PARTITION, own, partitions)):
                self._keep(TopicPartition(topic, partition), rows.part(of_it))
        self.turn += 1

    def _keep(self, one: TopicPartition, rows: Rows) -> None:
        self.gathered.setdefault(one, []).append(rows)
        self.sizes[one] = self.sizes.get(one, 0) + int(rows.sizes.sum())
        if self.sizes[one] >= self.batch_bytes:
            self._encode(one)
        while sum(self.sizes.values()) >= BUFFERED_BYTES:
            self._encode(max(self.sizes, key=lambda each: self.sizes[each]))

    def _encode(self, one: TopicPartition) -> None:
        """Encode all gathered rows of a partition, in batches of at most `kafka.batch.size`, except single rows that are larger."""
        rows = Rows.joined(self.gathered.pop(one))
        del self.sizes[one]
        filled = np.cumsum(rows.sizes)
        first = 0
        while first < len(rows):
            room = self.batch_bytes + (int(filled[first - 1]) if first else 0)
            last = max(first + 1, int(np.searchsorted(filled, room, side="right")))
            self._send(one, rows.part(slice(first, last)))
            first = last

    def _send(self, one: TopicPartition, rows: Rows) -> None:
        records = to_records(rows.keys, rows.values, rows.headers, rows.timestamps)
        first_ms, last_ms = int(rows.timestamps[0]), int(rows.timestamps.max())
        batch = seal_batch(memoryview(records), self.batch_options, count=len(rows), base_timestamp=first_ms, max_timestamp=last_ms)
        handed = self.message.handed
        if self.spool is not None:
            self.spool.add(one, batch)
            return
        if one not in handed and self.message.plan.may_write(one) and (self.is_alone or self.handed_bytes > self.most_handed):
            self.writer.add(one, batch)
            return
        handed.setdefault(one, []).append(bytes(batch))
        self.handed_bytes += len(batch)
        if self.spool_folder != NOWHERE and self.handed_bytes > LEAST_SPOOLED_BYTES:
            self._begin_spool()
        elif self.handed_bytes > self.most_handed:
            self._write_what_was_kept()

    def _begin_spool(self) -> None:
        """The batches so far go first, so that each partition keeps its order."""
        self.spool = Spool(self.spool_folder, self.task)
        for one, batches in self.message.handed.items():
            for batch in batches:
                self.spool.add(one, batch)
        self.message.handed = {}

    def _close_spool(self) -> None:
        if self.spool is not None:
            self.spool.close()
            self.message.spooled = (self.spool.path, self.spool.spans)

    def _write_what_was_kept(self) -> None:
        """The driver cannot take more, so the task writes by itself.  The commit fails if another task wrote to the same partition."""
        handed = self.message.handed
        if not self.is_run_once:
            raise SinkError(
                f"task {self.task} has more than {self.most_handed} bytes for the driver (option maxBytesThroughDriver): {RUN_ONCE}"
            )
        for one in [one for one in handed if self.message.plan.may_write(one)]:
            for batch in handed.pop(one):
                self.writer.add(one, bytearray(batch))
        if handed:
            raise SinkError(
                f"task {self.task} has more than {self.most_handed} bytes for the driver (option maxBytesThroughDriver): give option "
                "'topic', which lets tasks write by themselves, or make micro-batches smaller"
            )


def explained(error: KafkaError, sink: str) -> Exception:
    """The error with the way out, if there is one."""
    if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return SinkError(f"{error.detail}: {SEVERAL_TASKS}")
    if error.code in FENCED:
        return SinkError(
            f"{error.detail}: sink {sink} was taken over by another query of the same sinkId, or the micro-batch took longer than option "
            "kafka.transaction.timeout.ms; nothing of it is visible"
        )
    if error.code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
        return SinkError(
            f"{error.detail}  All transactions of sink {sink} have ended, so the group's coordinator has lost the end of one, as Apache "
            "Kafka's may when it is killed; nothing of this micro-batch is written.  A new option 'sinkId' goes on without the mark of the "
            "micro-batch before, which is written again if the query was stopped in the middle of it"
        )
    if error.code in TOO_LARGE:
        return SinkError(f"{error.detail}: give less as option kafka.batch.size, or raise the topic's max.message.bytes")
    return error


def partition_count(cluster: BlockingCluster, topic: str) -> int:
    """The topic's present number of partitions.  Brokers that make missing topics make this one.  Errors: KafkaError, OSError."""

    def attempt() -> int:
        view = cluster.refresh([topic], creates=True)
        code = view.error_of(topic)
        count = len(view.partitions_of(topic))
        if code or not count:
            code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, f"topic {topic}: {code.text}")
        return count

    return cluster.retrying(attempt)


def _the_one_producer(told: list[Written]) -> TransactionalProducer:
    producers = {one.plan.producer for one in told}
    if len(producers) != 1:
        raise SinkError("tasks of this micro-batch wrote with several epochs: it begins anew")
    return producers.pop()


def _placed_once(told: list[Written]) -> dict[TopicPartition, Placed]:
    """Errors: SinkError if two tasks wrote to one partition: their records have the same numbers, and some may be taken for others."""
    placed: dict[TopicPartition, Placed] = {}
    for one in told:
        for partition, what in one.placed.items():
            if partition in placed:
                raise SinkError(f"{partition}: {SEVERAL_TASKS}")
            placed[partition] = what
    return placed


def _write_handed(
    cluster: BlockingCluster, producer: TransactionalProducer, told: list[Written], placed: Mapping[TopicPartition, Placed]
) -> dict[TopicPartition, Placed]:
    """Errors: SpoolDamaged, KafkaError, OSError."""
    handed = {partition for one in told for partition in _handed_partitions(one)}
    if not handed:
        return {}
    if producer.transaction_version < ADDS_PARTITIONS_ITSELF:
        add_partitions(cluster, producer, handed)
    writer = PartitionsWriter(cluster, producer, sequences={one: what.next_sequence for one, what in placed.items()})
    for one in told:
        for partition, batch in _handed_batches(one):
            writer.add(partition, batch)
    return writer.flush()


def _handed_partitions(one: Written) -> Iterator[TopicPartition]:
    yield from one.handed
    if one.spooled is not None:
        yield from (partition for partition, _ in one.spooled[1])


def _handed_batches(one: Written) -> Iterator[tuple[TopicPartition, bytearray]]:
    for partition, batches in one.handed.items():
        for batch in batches:
            yield partition, bytearray(batch)
    if one.spooled is not None:
        yield from batches_in(*one.spooled)


def _see_that_it_is_the_same(marker: Marker | None, rows: int, sink: str) -> None:
    """Errors: MarkerConflict."""
    assert marker is not None
    if marker.rows != rows:
        raise MarkerConflict(
            f"sink {sink} has micro-batch {marker.batch_id} with {marker.rows} rows, and now it has {rows}: the checkpoint is older than "
            "the output, or the query gives other rows from the same input.  Restore the newest checkpoint, or start with a new one and "
            "another 'sinkId'"
        )


def _id_of_checkpoint(location: str | None) -> str | None:
    """The query's id if the checkpoint can be read, else a name made of the checkpoint's location."""
    if location is None:
        return None
    url = urlparse(location)
    if url.scheme in ("", "file"):
        try:
            return str(json.loads((Path(url.path) / "metadata").read_text(encoding="utf-8"))["id"])
        except (OSError, ValueError, KeyError):
            pass
    return sha256(location.encode()).hexdigest()[:32]
