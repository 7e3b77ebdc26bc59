"""● A stage in Spark: one group is one task, its state two MapStates.

A row is for one stage, or done; each stage takes its own rows and passes the others on.  Values of a state that a micro-batch has touched
are held until it ends, so each is read once and written once.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines.streams.arrival import Arrived, in_turn
from moldau.pipelines.streams.records import REASON_HEADER, Headers, Record
from moldau.pipelines.streams.serdes import Serde
from moldau.pipelines.streams.state import State, pack, unpack
from moldau.pipelines.streams.suppress import BufferFull
from moldau.pipelines.streams.topology import Out, Task, Topology
from moldau.protocol.murmur import murmur2

ROWS: Final = (
    "stage INT, partition INT, input STRING, from_partition INT, offset BIGINT, key BINARY, value BINARY, timestamp BIGINT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, source STRING"
)
"""Rows between the stages.  With stage `DONE` a row is for the topic that `input` names; an earlier stage's key and value are packed."""
DONE: Final = -1
UNREADABLE: Final = "UNREADABLE"
FAILED: Final = "FAILED"
SOURCE_HEADER: Final = "source"


class StageProcessor(StatefulProcessor):
    """One stage of a topology, of `partitions` partitions."""

    def __init__(self, topology: Topology, number: int, partitions: int) -> None:
        self.topology = topology
        self.number = number
        self.partitions = partitions
        self.stage_of = {name: number for number, stage in enumerate(topology.stages) for name in stage.inputs}

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.points = handle.getMapState("points", "key STRING", "value STRING")
        self.pending = handle.getMapState("pending", "key STRING", "value STRING")

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        mine: list[Arrived] = []
        for row in rows:
            if row.stage == self.number:
                mine.append(_arrived(row))
            else:
                yield row
        if not mine:
            return
        stage = self.topology.stages[self.number]
        points, pending = Texts(self.points), Texts(self.pending)
        task = Task(stage, State(points, pending), self.topology.dropped_to)
        written = 0
        for arrived in in_turn(mine, stage.inputs, stage.first):
            made = self._taken(task, arrived, key[0], written)
            written += len(made)
            yield from made
        points.flush()
        pending.flush()

    def close(self) -> None:
        pass

    def _taken(self, task: Task, arrived: Arrived, partition: int, written: int) -> list[Row]:
        """The results of one row, behind `written` others of the micro-batch: all of them, or a dead letter."""
        dropped_to = self.topology.dropped_to
        try:
            record = self._read(arrived)
        except Exception:
            if dropped_to is None:
                raise
            return [self._row(partition, written, _letter(dropped_to, arrived, UNREADABLE), arrived)]
        try:
            return [self._row(partition, written + place, out, arrived) for place, out in enumerate(task.process(arrived.input, record))]
        except BufferFull:
            raise
        except Exception as error:
            if dropped_to is None:
                raise
            letter = _letter(dropped_to, arrived, f"{FAILED}: {type(error).__name__}: {error}"[:300])
            return [self._row(partition, written, letter, arrived)]

    def _read(self, arrived: Arrived) -> Record:
        headers = _headers(arrived)
        topic = self.topology.sources.get(arrived.input)
        if topic is None:
            return Record(_unpacked(arrived.key), _unpacked(arrived.value), arrived.timestamp, headers)
        return Record(topic.key.read(arrived.key), topic.value.read(arrived.value), arrived.timestamp, headers)

    def _row(self, partition: int, offset: int, out: Out, arrived: Arrived) -> Row:
        target, record = out
        headers = [Row(key=name, value=value) for name, value in record.headers]
        shared = {"from_partition": partition, "offset": offset, "timestamp": record.timestamp}
        if target == self.topology.dropped_to:
            # The record stays as it was sent, so that a dead letter's content can be sent again.
            place = f"{arrived.source}-{arrived.from_partition}@{arrived.offset}" if arrived.source else arrived.input
            headers.append(Row(key=SOURCE_HEADER, value=place.encode()))
            return _made(DONE, 0, target, arrived.key, arrived.value, headers, **shared)
        if target in self.topology.sinks:
            topic = self.topology.sinks[target]
            return _made(DONE, 0, target, topic.key.write(record.key), topic.value.write(record.value), headers, **shared)
        key, value = pack(record.key).encode(), pack(record.value).encode()
        to = partition_of(self.topology.internal[target], record.key, self.partitions)
        return _made(self.stage_of[target], to, target, key, value, headers, **shared)


def partition_of(serde: Serde, key: Any, partitions: int) -> int:
    """The partition as Java's producer chooses it; without a key the first."""
    data = None if key is None else serde.write(key)
    return 0 if data is None else (murmur2(data) & 0x7FFFFFFF) % partitions


class Texts(MutableMapping[str, str]):
    """A MapState of text as a mapping; `flush` writes the changes."""

    def __init__(self, kept: MapState) -> None:
        self._kept = kept
        self._known: dict[str, str | None] = {}
        self._before: dict[str, str | None] = {}
        self._is_whole = False

    def __getitem__(self, key: str) -> str:
        if key not in self._known:
            found = None if self._is_whole else self._kept.getValue((key,))
            self._known[key] = self._before[key] = None if found is None else found[0]
        value = self._known[key]
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: str) -> None:
        self.get(key)
        self._known[key] = value

    def __delitem__(self, key: str) -> None:
        self[key]
        self._known[key] = None

    def __iter__(self) -> Iterator[str]:
        if not self._is_whole:
            for (key,), (value,) in list(self._kept.iterator()):
                if key not in self._known:
                    self._known[key] = self._before[key] = value
            self._is_whole = True
        return iter([key for key, value in self._known.items() if value is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flush(self) -> None:
        for key, value in self._known.items():
            if value == self._before[key]:
                continue
            if value is None:
                self._kept.removeKey((key,))
            else:
                self._kept.updateValue((key,), (value,))


def _arrived(row: Row) -> Arrived:
    key, value = _bytes(row.key), _bytes(row.value)
    return Arrived(row.input, row.from_partition, row.offset, key, value, row.timestamp, row.headers, row.source)


def _letter(target: str, arrived: Arrived, reason: str) -> Out:
    return Out(target, Record(None, None, arrived.timestamp, (*_headers(arrived), (REASON_HEADER, reason.encode()))))


def _headers(arrived: Arrived) -> Headers:
    """Spark gives a header as a dictionary or as a Row."""
    return tuple((header["key"], _bytes(header["value"])) for header in arrived.headers or ())


def _made(stage: int, partition: int, target: str, key: bytes | None, value: bytes | None, headers: list[Row], **shared: int) -> Row:
    return Row(
        stage=stage,
        partition=partition,
        input=target,
        from_partition=shared["from_partition"],
        offset=shared["offset"],
        key=key,
        value=value,
        timestamp=shared["timestamp"],
        headers=headers,
        source=None,
    )


def _unpacked(data: bytes | None) -> Any:
    return None if data is None else unpack(data.decode())


def _bytes(data: bytes | bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)
