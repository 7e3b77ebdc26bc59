"""● The driver of `job` without Spark: our source and our sink are called as Spark calls them, so that a kill costs a second.

    python -m proof.pipelines.kills ours --kind bare --kills 200

Two processes take turns to plan the micro-batches, one commits them, three write them; they live on between micro-batches as Spark's
Python workers do.  The checkpoint is written in Spark's order: offsets before a micro-batch, its commit after the sink's.  After a failure
all processes start anew, and the newest micro-batch that has no commit is run again.  Of three micro-batches two are empty, as those of
queries with timers, so that the next one takes their epoch.
"""

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from moldau.clients.blocking.transactions import TransactionalProducer
from proof.pipelines.patience import Patience
from pyspark_moldau.options import read_options
from pyspark_moldau.sink import BATCH_ID, QUERY_ID, StreamWriter, Written
from pyspark_moldau.source import StreamReader

PLANNERS: Final = 2
WRITERS: Final = 3
PASSED_ON: Final = "took the epoch of the micro-batch before"
FORK: Final = get_context("fork")
SOURCE_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


class Died(Exception):
    """A process ended while it worked."""


class Hand:
    """A process that calls functions, one after the other."""

    def __init__(self) -> None:
        self.here, there = FORK.Pipe()
        self.process = FORK.Process(target=_serve, args=(there, self.here), daemon=True)
        self.process.start()
        there.close()

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            self.here.send((function, arguments))
        except OSError as error:
            raise Died(function.__name__) from error

    def answer(self) -> Any:
        """Errors: Died, and whatever the function raised."""
        try:
            found, error = self.here.recv()
        except (EOFError, OSError) as gone:
            raise Died("a process ended in the middle") from gone
        if error is not None:
            raise RuntimeError(error)
        return found

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.send(function, *arguments)
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.here.close()


def _serve(there: Connection, here: Connection) -> None:
    here.close()
    while True:
        function, arguments = there.recv()
        try:
            found, error = function(*arguments), None
        except Exception as raised:
            found, error = None, f"{type(raised).__name__}: {raised}"
        there.send((found, error))


def writer(given: dict[str, str]) -> StreamWriter:
    return StreamWriter(read_options(given), StructType(SOURCE_SCHEMA.fields[:2]), given)


def plan(given: dict[str, str]) -> bytes:
    return pickle.dumps(writer(given))


def write(planned: bytes, reader: bytes, part: bytes | None, number: int, batch_id: int, query_id: str) -> bytes:
    context = TaskContext._getOrCreate()
    context._attemptNumber, context._partitionId = 0, number
    context._localProperties = {BATCH_ID: str(batch_id), QUERY_ID: query_id, "spark.master": "local"}
    source: StreamReader = pickle.loads(reader)
    batches = () if part is None else source.read(pickle.loads(part))
    return pickle.dumps(pickle.loads(planned).write(batch.select(["key", "value"]) for batch in batches))


def commit(given: dict[str, str], messages: list[bytes], batch_id: int) -> None:
    writer(given).commit([pickle.loads(one) for one in messages], batch_id)


def abort(given: dict[str, str], batch_id: int) -> None:
    writer(given).abort([None], batch_id)


class Checkpoint:
    """Spark's folder, as far as the sink looks at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / "metadata").exists():
            self._write(folder / "metadata", {"id": str(uuid4())})
        self.query_id = str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])

    def newest(self, name: str) -> int:
        return max((int(path.name) for path in (self.folder / name).iterdir() if path.name.isdigit()), default=-1)

    def offsets(self, batch_id: int) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads((self.folder / "offsets" / str(batch_id)).read_text(encoding="utf-8")))

    def note(self, name: str, batch_id: int, found: object) -> None:
        self._write(self.folder / name / str(batch_id), found)

    def _write(self, file: Path, found: object) -> None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(found), encoding="utf-8")
        part.replace(file)


def run(source: dict[str, str], target: dict[str, str], checkpoint: Checkpoint, patience: Patience) -> None:
    """Copies all records that there are now.  Errors: Died, RuntimeError, KafkaError, OSError."""
    hands = [Hand() for _ in range(PLANNERS + 1 + WRITERS)]
    before = None
    try:
        reader = StreamReader(read_options(source), SOURCE_SCHEMA)
        reader.prepareForTriggerAvailableNow()
        for batch_id, start, end in _batches(reader, checkpoint):
            producer = _micro_batch(hands, reader, target, checkpoint.query_id, batch_id, (start, end))
            checkpoint.note("commits", batch_id, {})
            if producer == before:
                print(PASSED_ON, flush=True)
            before = producer
            patience.worked()
    finally:
        for hand in hands:
            hand.end()


def _batches(reader: StreamReader, checkpoint: Checkpoint) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    newest = checkpoint.newest("offsets")
    batch_id = newest if newest > checkpoint.newest("commits") else newest + 1
    start = checkpoint.offsets(batch_id - 1) if batch_id else reader.initialOffset()
    while True:
        if batch_id > newest:
            is_empty = batch_id % 3 > 0
            end = start if is_empty else reader.latestOffset(start, reader.getDefaultReadLimit())
            if end == start and not is_empty:
                return
            checkpoint.note("offsets", batch_id, end)
        else:
            end = checkpoint.offsets(batch_id)
        yield batch_id, start, end
        start, batch_id = end, batch_id + 1


def _micro_batch(
    hands: list[Hand],
    reader: StreamReader,
    target: dict[str, str],
    query_id: str,
    batch_id: int,
    span: tuple[dict[str, Any], dict[str, Any]],
) -> TransactionalProducer:
    planner, committer, writers = hands[batch_id % PLANNERS], hands[PLANNERS], hands[PLANNERS + 1 :]
    planned = planner.ask(plan, target)
    start, end = span
    parts = [None] * WRITERS if start == end else [pickle.dumps(one) for one in reader.partitions(start, end)]
    assert len(parts) <= len(writers)
    busy = list(zip(writers, parts, strict=False))
    try:
        for number, (hand, part) in enumerate(busy):
            hand.send(write, planned, pickle.dumps(reader), part, number, batch_id, query_id)
        messages = [hand.answer() for hand, _ in busy]
    except (Died, RuntimeError):
        committer.ask(abort, target, batch_id)
        raise
    committer.ask(commit, target, messages, batch_id)
    found: Written = pickle.loads(messages[0])
    return found.plan.producer


def main(
    kind: str,
    bootstrap: str,
    topic: str,
    target: str,
    checkpoint: str,
    records_per_batch: str,
    transaction_timeout_ms: str = "600000",
    most_failures: str = "100000",
) -> None:
    """The arguments of `job`."""
    given = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": "10000"}
    source = {**given, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": records_per_batch}
    sink = {**given, "topic": target, "checkpointLocation": checkpoint, "kafka.transaction.timeout.ms": transaction_timeout_ms}
    patience = Patience()
    for _ in range(int(most_failures)):
        try:
            run(source, sink, Checkpoint(Path(checkpoint)), patience)
        except Exception as error:
            print("failed:", f"{type(error).__name__}: {error}"[:400], flush=True)
            patience.wait()
        else:
            print("done", flush=True)
            return
    sys.exit("it fails for good")


if __name__ == "__main__":
    main(*sys.argv[1:])
