"""● Puts many cases at once through all operators on Spark, and compares the results with those of Kafka's TopologyTestDriver.

    python -m proof.streams.on_spark --cases 200

A case is a partition.  Its keys and values begin with its number (`17:k1`), so that keys of two cases never meet where an operator
repartitions.  All operators of a group read the same records, in a few micro-batches, and the query is started again on its checkpoint
before the last one.  An operator with sizes and graces is there several times with other ones, and each of these takes its share of the
cases: a case goes through each operator once.
"""

import argparse
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import proof.streams
from moldau.pipelines.session import SHORT_LIVED, open_session
from moldau.pipelines.streams import STRING, KStream, StreamsBuilder
from moldau.pipelines.streams.arrival import Arrived, in_turn
from moldau.pipelines.streams.processor import partition_of
from moldau.pipelines.streams.spark import applied
from proof.kafka.provision import streams_jars
from proof.metadata.oracle import Oracle
from proof.streams.cases import COGROUPED, NULLS, OPERATORS, Case, Piped, random_options, random_records
from proof.streams.comparison import rows_that_differ, wired
from proof.streams.listed import is_listed

SOURCE: Final = Path(proof.streams.__file__).parent / "oracle" / "Operators.java"
TOPICS: Final = ("a", "b")
BATCHES: Final = 3
ATTEMPTS: Final = 8
MOST_RECORDS: Final = 30
SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
READ: Final = (
    "partition INT, offset BIGINT, key BINARY, value BINARY, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
TIMED: Final = frozenset({"windowed", "sliding", "sessions", "streams", "versioned", "limit"})
"""Words in the names of operators that have options."""
VARIANTS: Final = 8
MARK: Final = re.compile(r"(\d+):")


@dataclass(frozen=True)
class Group:
    """Operators that read the same records."""

    name: str
    like: str
    """The operator whose records all of them get."""
    topics: int
    operators: tuple[dict[str, Any], ...]
    is_table_only: bool = False
    """Whether only the tables at the end are compared: Spark takes a micro-batch's left rows before the right side's answers."""
    partitions: int | None = None
    """The number of partitions; None: one a case.  Only operators without a time of their own can share one."""


def _of(*names: str) -> tuple[dict[str, Any], ...]:
    """The operators with these names.  Those that end the query on a full buffer stand alone, in a test of their own."""
    return tuple(one for one, _ in OPERATORS if one["operator"] in names and one.get("final") != "bounded" and not one.get("stops"))


GROUPS: Final = (
    Group("one topic", "windowed", 1, _of("grouped", "regrouped", "windowed", "sliding", "sessions", "time limit")),
    Group("one table", "table grouped", 1, _of("table grouped", "count grouped", "table filtered", "stateless", "versioned grouped")),
    Group("streams", "streams", 2, _of("streams", "stream table", "versioned", "versioned filtered")),
    Group("tables", "tables", 2, _of("tables", "tables grouped", "versioned tables")),
    Group("cogroups", "cogrouped", 2, _of("cogrouped", *COGROUPED)),
    Group("foreign keys", "foreign key", 2, _of("foreign key", "versioned foreign key"), is_table_only=True),
    Group("global", "global", 2, _of("global"), partitions=2),
)


class Share(NamedTuple):
    """Each `step`th case, from number `first` on."""

    first: int = 0
    step: int = 1

    def has(self, number: int) -> bool:
        return number % self.step == self.first

    def has_record(self, key: str | None, value: str | None) -> bool:
        """Whether the record belongs to such a case.  A record that tells no case may: it is passed to all."""
        mark = MARK.search(f"{key} {value}")
        return mark is None or self.has(int(mark[1]))


class Shared(StreamsBuilder):
    """A builder whose operators read a topic together, and of it the records of their `share` of the cases."""

    def __init__(self) -> None:
        super().__init__()
        self.share = Share()
        self._shared: dict[tuple[str, Share], KStream] = {}

    def stream(self, topic: str, **given: Any) -> KStream:
        if (topic, Share()) not in self._shared:
            self._shared[topic, Share()] = super().stream(topic, **given)
        if (topic, self.share) not in self._shared:
            self._shared[topic, self.share] = self._shared[topic, Share()].filter(self.share.has_record)
        return self._shared[topic, self.share]


class Trial:
    """One group: its operators with their options and shares, and the records of each case."""

    def __init__(self, group: Group, count: int, variants: int, seed: int) -> None:
        self.group = group
        # Each topic lies by cases, not by its keys: a stream that goes through a repartition would meet no other.
        shared = {"topics": group.topics, "store": "memory", "repartitions": False}
        self.operators = [
            (Share(variant, own), {**fixed, **shared, **random_options(Random(f"{fixed} {variant} {seed}"))})
            for fixed in group.operators
            for own in (min(variants, count) if TIMED & set(fixed["operator"].split()) else 1,)
            for variant in range(own)
        ]
        if group.is_table_only:  # foreign rows of several cases share a partition, and so would share the time of a history
            self.operators = [(share, {**one, "both": False}) for share, one in self.operators]
        self.cases = [list(self._records(turn, seed)) for turn in range(count)]

    def _records(self, turn: int, seed: int) -> Iterator[Piped]:
        # Null values make the time of Kafka's window store in memory go on, and not that of RocksDB, which is slow to open.
        nulls = 0.0 if self.group.name == "streams" and turn % 8 else NULLS
        return random_records(Random(f"{self.group.name} {turn} {seed}"), self.group.like, self.group.topics, nulls, MOST_RECORDS)

    def batches(self, number: int) -> list[list[Piped]]:
        records = self.cases[number]
        return [records[len(records) * part // BATCHES : len(records) * (part + 1) // BATCHES] for part in range(BATCHES)]

    def taken(self, number: int) -> list[Piped]:
        """The case's records in the order in which a task takes them."""
        first = {"b"} if self.group.name == "global" else set[str]()
        taken = []
        for batch in self.batches(number):
            rows = [Arrived(row[0], 0, place, None, None, row[3], row, None) for place, row in enumerate(batch)]
            taken += [row.headers for row in in_turn(rows, TOPICS, first)]
        return taken

    def write(self, folder: Path) -> None:
        """The files that Spark reads: one for each topic and micro-batch."""
        offsets: dict[tuple[str, int], int] = defaultdict(int)
        for part in range(BATCHES):
            rows: dict[str, list[dict[str, Any]]] = {topic: [] for topic in TOPICS}
            for number in range(len(self.cases)):
                own = number if self.group.partitions is None else number % self.group.partitions
                for topic, key, value, timestamp, header in self.batches(number)[part]:
                    # A foreign row is where its key says, as in a topic: subscriptions go there.
                    is_foreign = self.group.is_table_only and topic == "b" and key is not None
                    partition = partition_of(STRING, f"{number}:{key}", len(self.cases)) if is_foreign else own
                    rows[topic].append(
                        {
                            "partition": partition,
                            "offset": offsets[topic, partition],
                            "key": _marked(number, key),
                            "value": _marked(number, value),
                            "timestamp": timestamp * 1000,
                            "headers": [{"key": "h", "value": header.encode()}],
                        }
                    )
                    offsets[topic, partition] += 1
            for topic in TOPICS:
                (folder / topic).mkdir(exist_ok=True)
                path = folder / topic / f"{part}.parquet"
                pq.write_table(pa.Table.from_pylist(rows[topic], schema=SCHEMA), path)
                os.utime(path, (1_700_000_000 + part, 1_700_000_000 + part))  # Spark takes the oldest file first

    def on_spark(self, spark: SparkSession, folder: Path) -> dict[tuple[int, int], list[list[Any]]]:
        """The results `[key, value, timestamp, header]` by operator and case."""
        self.write(folder)
        builder = Shared()
        for place, (builder.share, options) in enumerate(self.operators):
            wired(builder, options, f"o{place}")
        topology = builder.build()
        batches: dict[int, list[Row]] = {}
        later = [folder / topic / f"{BATCHES - 1}.parquet" for topic in TOPICS]
        for path in later:
            path.rename(folder / f"{path.parent.name}-later")
        for is_last in (False, True):
            for path in later if is_last else ():
                (folder / f"{path.parent.name}-later").rename(path)
            read = spark.readStream.schema(READ).option("maxFilesPerTrigger", 1)
            frames = {topic: read.parquet(str(folder / topic)) for topic in TOPICS[: self.group.topics]}
            out = applied(topology, frames, self.group.partitions or len(self.cases))
            writer = out.writeStream.foreachBatch(lambda frame, number: batches.update({number: frame.collect()}))
            _run(writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True))
        return _sorted_out([row for _, rows in sorted(batches.items()) for row in rows])

    def question(self, place: int, number: int) -> Case:
        options = dict(self.operators[place][1])
        if options["operator"] == "streams" and any(value is None for _, _, value, _, _ in self.cases[number]):
            options["store"] = "rocksdb"
        # A record without a key ends Kafka Streams in a left join with a grace.
        taken = [one for one in self.taken(number) if one[1] is not None or not _has_grace(options)]
        return Case(options, taken)

    def differences(self, results: dict[tuple[int, int], list[list[Any]]], oracle: Oracle) -> Iterator[tuple[str, bool]]:
        """The differences in words, and whether docs/reference/streams.md lists them."""
        for place, (share, options) in enumerate(self.operators):
            for number in filter(share.has, range(len(self.cases))):
                ours, case = results.get((place, number), []), self.question(place, number)
                answer = oracle.answer(case.question())
                theirs = [row[1:] for row in answer["written"]]
                if _has_grace(options):
                    ours = [row for row in ours if row[0] is not None]
                if self.group.is_table_only:
                    found = [] if _last(ours) == answer["table"] else [f"the table: ours {_last(ours)}, Kafka's {answer['table']}"]
                else:
                    found = rows_that_differ([[0, *row] for row in ours], [[0, *row] for row in theirs])
                if found:
                    yield f"{options} case {number}, {case.records}: {found[0]}", is_listed(case, answer)


def _run(writer: DataStreamWriter) -> None:
    """Run the query to its end.  Spark gives a Python worker ten seconds to begin, which a busy machine may not have."""
    for _ in range(ATTEMPTS):
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as error:
            if "connect back" not in str(error):
                raise
        else:
            return
    raise AssertionError(f"no Python worker began in {ATTEMPTS} attempts")


def _sorted_out(rows: Sequence[Row]) -> dict[tuple[int, int], list[list[Any]]]:
    results: dict[tuple[int, int], list[list[Any]]] = defaultdict(list)
    for row in rows:
        key, value = (None if part is None else bytes(part).decode() for part in (row.key, row.value))
        mark = MARK.search(f"{key} {value}")
        assert mark is not None, f"a row of no case: {row}"
        header = next((bytes(one.value).decode() for one in row.headers or () if one.key == "h"), None)
        number = int(mark[1])
        plain = [None if part is None else part.replace(f"{number}:", "") for part in (key, value)]
        results[int(row.topic[1:]), number].append([*plain, round(row.timestamp.timestamp() * 1000), header])
    return results


def _has_grace(options: dict[str, Any]) -> bool:
    return options["operator"] == "versioned" and options["join_grace"] is not None


def _marked(number: int, text: str | None) -> bytes | None:
    return None if text is None else f"{number}:{text}".encode()


def _last(rows: list[list[Any]]) -> dict[str, str]:
    return {key: value for key, value, *_ in {row[0]: row for row in rows}.values() if value is not None}


class Compared(NamedTuple):
    """What a group gave."""

    inputs: int
    found: list[str]
    """The differences in words, without listed ones."""
    listed: int


def compared(spark: SparkSession, oracle: Oracle, group: Group, count: int, *, variants: int = VARIANTS, seed: int = 0) -> Compared:
    trial = Trial(group, count, variants, seed)
    with tempfile.TemporaryDirectory() as folder:
        results = trial.on_spark(spark, Path(folder))
    assert results, "inputs without results show nothing"
    different = list(trial.differences(results, oracle))
    found = [told for told, is_listed in different if not is_listed]
    return Compared(len(group.operators) * count, found, len(different) - len(found))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--variants", type=int, default=VARIANTS, help="the number of options tried with each operator (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--group", choices=[group.name for group in GROUPS])
    given = parser.parse_args(arguments)
    spark = open_session("operators", master="local[2]", settings=SHORT_LIVED)
    is_equal = True
    with Oracle(SOURCE, "Operators", streams_jars()) as oracle:
        for group in GROUPS:
            if given.group in (None, group.name):
                began_s = time.monotonic()
                inputs, found, listed = compared(spark, oracle, group, given.cases, variants=given.variants, seed=given.seed)
                took_s = time.monotonic() - began_s
                told = f"{inputs} inputs, {listed} as listed, {len(found)} differ; {took_s:.0f} s"
                print(f"{group.name}: {len(group.operators)} operators, {told}", flush=True)
                print(*found[:3], sep="\n", flush=True)
                is_equal = is_equal and not found
    spark.stop()
    raise SystemExit(not is_equal)


if __name__ == "__main__":
    main()
