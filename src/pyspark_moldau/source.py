"""● The source: batch reads and streams, whose tasks hand out Arrow record batches.

One reader lives in the driver for each stream and asks for offsets; tasks read ranges in worker processes over connections that stay open.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from moldau.clients.blocking.fetch import OffsetGone, PartitionReader
from moldau.clients.blocking.offsets import EARLIEST, LATEST, NOT_FOUND, commit_offsets, list_offsets
from moldau.errors import ErrorCode, KafkaError
from moldau.types import ZERO_UUID, TopicPartition
from pyspark_moldau.arrow import to_record_batch
from pyspark_moldau.filters import Bounds, bounds_of
from pyspark_moldau.options import OptionError, Options
from pyspark_moldau.ranges import OffsetRange, cut, gathered, limited
from pyspark_moldau.session import cluster_of
from pyspark_moldau.topics import DataLoss, Positions, Subscription, TopicMadeAnew, check_subscription, refuse_other_topics

log: Final = logging.getLogger(__name__)

DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000
COMMIT_WITHIN_S: Final = 2.0
WORTH_A_TASK: Final = 1_000
"""Offsets of a micro-batch.  A task of a Python source costs about as much as reading and parsing so many records."""
BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
STREAM_ONLY: Final = ("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay")


class TopicRange(NamedTuple):
    """A range of a partition of one topic, which may be gone while another has its name."""

    of: OffsetRange
    topic_id: UUID


class Ranges(InputPartition):
    """The input of one task."""

    def __init__(self, ranges: Sequence[TopicRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = ranges


class _Reader:
    """The common base of batch and stream readers.  It is pickled to the tasks, which look connections up again."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_subscription(options)
        self.options = options
        self.schema = schema
        self.fails_on_data_loss: bool = options.get("failOnDataLoss", True)

    def subscription(self) -> Subscription:
        return Subscription(cluster_of(self.options, "source"), self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Ranges):  # otherwise there is nothing to read at all
            schema = to_arrow_schema(self.schema, timezone="UTC")
            for one in partition.ranges:
                yield from self._read_range(one, schema)

    def _read_range(self, ranged: TopicRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        (topic, number), first, end = ranged.of
        position = first
        while True:
            reader = self._partition_reader(ranged, position)
            try:
                for columns in reader.read():
                    yield to_record_batch(columns, topic, number, schema)
                return
            except OffsetGone as gone:
                position = self._after_loss(gone, reader.position, end)
            except KafkaError as error:
                if error.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
                    raise TopicMadeAnew(topic) from error
                raise

    def _partition_reader(self, ranged: TopicRange, position: int) -> PartitionReader:
        options = self.options
        return PartitionReader(
            cluster_of(options, "task"),
            ranged.of.topic_partition,
            ranged.topic_id,
            position,
            ranged.of.end,
            read_committed=options.get("kafka.isolation.level") == "read_committed",
            fetch_bytes=options.get("kafka.max.partition.fetch.bytes", 8 * 1024 * 1024),
            fetch_wait_ms=options.get("kafka.fetch.max.wait.ms", 500),
        )

    def _after_loss(self, gone: OffsetGone, position: int, end: int) -> int:
        """The offset at which to go on; at `end` there is nothing left.  Errors: DataLoss."""
        if self.fails_on_data_loss:
            raise DataLoss(str(gone)) from gone
        log.warning("%s: going on with what there is", gone)
        earliest = list_offsets(cluster_of(self.options, "task"), {gone.topic_partition: EARLIEST})[gone.topic_partition]
        return end if earliest <= position else min(earliest, end)

    def data_loss(self, what: str) -> None:
        """Errors: DataLoss."""
        if self.fails_on_data_loss:
            raise DataLoss(what)
        log.warning("%s: going on with what there is", what)

    def tasks(self, ranges: list[OffsetRange], ids: dict[str, UUID], *, worth_a_task: int = 0) -> list[InputPartition]:
        """`worth_a_task`: ranges share a task while they have at most so many offsets."""
        least, most = self.options.get("minPartitions"), self.options.get("maxRecordsPerPartition")
        cut_up = cut(ranges, least_tasks=least, most_offsets=most)
        most_shared = 0 if least is not None else worth_a_task if most is None else min(worth_a_task, most)
        return [
            Ranges([TopicRange(one, ids.get(one.topic_partition.topic, ZERO_UUID)) for one in task])
            for task in gathered(cut_up, most_shared)
        ]


class BatchReader(_Reader, DataSourceReader):
    """A table: the records between the starting and the ending offsets at this moment."""

    def __init__(self, options: Options, schema: StructType) -> None:
        for name in STREAM_ONLY:
            if name in options:
                raise OptionError(name, "it is for streams: a batch read takes all between its starting and ending offsets")
        if options.get("startingOffsets") == LATEST:
            raise OptionError("startingOffsets", "a batch read from latest on is empty: give earliest or offsets")
        super().__init__(options, schema)
        self.bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        subscription = self.subscription()
        partitions, ids = subscription.partitions()
        first, end = subscription.starting(partitions, EARLIEST), subscription.ending(partitions)
        wanted = [one for one in partitions if self.bounds.has(one)]
        if self.bounds.from_ms is not None:
            # If no record of a partition is as new, there is nothing to read from it.
            since = subscription.since(wanted, self.bounds.from_ms)
            first |= {one: end[one] if offset == NOT_FOUND else max(first[one], offset) for one, offset in since.items()}
        return self.tasks([self.bounds.cut(OffsetRange(one, first[one], end[one])) for one in wanted], ids)


class PushedReader(BatchReader):
    """A batch read that gets its filters from Spark.  Only for Spark that tells filters: otherwise Spark takes the method for a mistake."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes bounds from the filters; Spark looks at every row again."""
        self.bounds = bounds_of(filters)
        return filters


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream, which goes on where its checkpoint says."""

    def __init__(self, options: Options, schema: StructType) -> None:
        for name in BATCH_ONLY:
            if name in options:
                raise OptionError(name, "it is for batch reads: a stream has no end; trigger(availableNow=True) stops at what there is now")
        super().__init__(options, schema)
        self._pinned: Positions | None = None
        self._latest: Positions | None = None
        self._triggered_s = time.monotonic()

    # where it is

    def initialOffset(self) -> dict[str, Any]:
        subscription = self.subscription()
        partitions, ids = subscription.partitions()
        return Positions(subscription.starting(partitions, LATEST), ids).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        least, most = self.options.get("minOffsetsPerTrigger"), self.options.get("maxOffsetsPerTrigger")
        if least is not None:
            if most is not None and most < least:
                raise OptionError("maxOffsetsPerTrigger", f"it is below minOffsetsPerTrigger, {most} < {least}")
            return ReadMinRows(least)
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Errors: DataLoss, TopicMadeAnew."""
        known = Positions.from_json(start)
        latest = self._latest = self._pinned or self._now()
        refuse_other_topics(known.ids, latest.ids)
        first = self._with_new_partitions(known, latest)
        end = {one: max(offset, first[one]) for one, offset in latest.offsets.items()}
        end = self._within(limit, first, end)
        return Positions(end, {**known.ids, **latest.ids}).to_json()

    def _within(self, limit: ReadLimit, first: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if isinstance(limit, ReadMaxRows):
            return limited(limit.max_rows, first, end)
        if not isinstance(limit, ReadMinRows):
            return end
        most = self.options.get("maxOffsetsPerTrigger")
        delay_ms = self.options.get("maxTriggerDelay", DEFAULT_TRIGGER_DELAY_MS)
        is_late = (time.monotonic() - self._triggered_s) * 1000 >= delay_ms
        is_last = self._pinned is not None
        if not is_late and not is_last and sum(end[one] - first[one] for one in end) < limit.min_rows:
            return first
        self._triggered_s = time.monotonic()
        return end if most is None else limited(most, first, end)

    def _now(self) -> Positions:
        subscription = self.subscription()
        partitions, ids = subscription.partitions()
        return Positions(subscription.ends(partitions), ids)

    def _with_new_partitions(self, known: Positions, latest: Positions) -> dict[TopicPartition, int]:
        """The first offset to read of each partition in `latest`: new ones are read from their beginning.  Errors: DataLoss."""
        gone = sorted(set(known.offsets) - set(latest.offsets))
        if gone and self._pinned is None:
            self.data_loss(f"{', '.join(map(str, gone))} {'is' if len(gone) == 1 else 'are'} gone")
        new = [one for one in latest.offsets if one not in known.offsets]
        beginnings = self.subscription().beginnings(new)
        for one, offset in latest.offsets.items():
            if offset < known.offsets.get(one, 0):
                self.data_loss(f"{one} ends at offset {offset}, and was read up to {known.offsets[one]}")
        return {one: known.offsets[one] if one in known.offsets else beginnings[one] for one in latest.offsets}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._pinned = self._now()

    # what a micro-batch is

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Errors: DataLoss, TopicMadeAnew."""
        first, last = Positions.from_json(start), Positions.from_json(end)
        refuse_other_topics(first.ids, last.ids)
        new = [one for one in last.offsets if one not in first.offsets]
        beginnings = self.subscription().beginnings(new)
        for one, offset in beginnings.items():
            if offset > 0:
                self.data_loss(f"{one} is new and begins at offset {offset}")
        ranges = [
            OffsetRange(one, first.offsets[one] if one in first.offsets else beginnings[one], offset)
            for one, offset in last.offsets.items()
        ]
        return self.tasks(ranges, last.ids, worth_a_task=WORTH_A_TASK)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits offsets to the group, so that tools see how far the query is; the checkpoint alone decides."""
        group_id = self.options.get("kafka.group.id") or self.options.get("groupIdPrefix")
        if group_id is None:
            return
        try:
            commit_offsets(cluster_of(self.options, "source"), group_id, Positions.from_json(end).offsets, within_s=COMMIT_WITHIN_S)
        except (OSError, KafkaError) as error:
            log.warning("offsets are not committed to group %s: %s", group_id, error)

    def stop(self) -> None:
        cluster_of(self.options, "source").close()
