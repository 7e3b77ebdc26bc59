"""◇ Compares the acknowledgements that clients got with the records that they read, and finds the anomalies of Jepsen's `kafka` workload.

A history is a list of operations in the order of their ends.  Values are unique and no client retries above the producer, so a value has
one place for ever.  `ANOMALIES` explains each anomaly.

Source: jepsen/tests/kafka.clj (definitions), its tests (what must be found).

Power losses are part of a history: a record above everything that was acknowledged with acks=all before may be gone afterwards, even if a
client read it, and its offset is given again.  Nothing else is forgiven.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

ALL: Final = -1

ANOMALIES: Final[Mapping[str, str]] = {
    "inconsistent-offsets": "one offset was seen with two values",
    "duplicate": "one value was seen at two offsets",
    "G1a": "a value whose send failed for certain was read",
    "lost-write": "an acknowledged value was never read, but a value above it was",
    "unseen": "an acknowledged value was never read, though everything was read at the end",
    "poll-skip": "two polls of one process in a row left out a record between them",
    "nonmonotonic-poll": "two polls of one process in a row went back",
    "int-poll-skip": "one poll left out a record",
    "int-nonmonotonic-poll": "one poll went back",
    "nonmonotonic-send": "a process's later send was put before its earlier one",
    "int-nonmonotonic-send": "one operation's later send was put before its earlier one",
    "precommitted-read": "a transaction read its own write before it was committed",
    "G1c": "operations read each other's writes in a circle",
    "high-watermark-went-back": "a reader got a lower high watermark than an earlier reader, in the same leader epoch",
}


class Outcome(Enum):
    OK = "ok"
    FAIL = "it did not happen"
    INFO = "it is not known whether it happened"


class Send(NamedTuple):
    key: str
    value: int
    offset: int | None = None
    """The offset, known once the send is acknowledged."""
    acks: int = ALL


class Read(NamedTuple):
    key: str
    offset: int
    value: int


class Poll(NamedTuple):
    reads: tuple[Read, ...]


Action = Send | Poll


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one process; a process does one at a time.  `repositions`: the process assigned, subscribed or sought before it
    read.
    """

    process: int
    actions: tuple[Action, ...]
    outcome: Outcome = Outcome.OK
    start_ms: float = 0
    end_ms: float = 0
    repositions: bool = False
    may_rebalance: bool = False


class HighWatermark(NamedTuple):
    """The high watermark in the response to a fetch that was sent at `start_ms`."""

    key: str
    leader_epoch: int
    offset: int
    start_ms: float
    end_ms: float


class Anomaly(NamedTuple):
    kind: str
    key: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} on {self.key}: {self.detail}"


@dataclass(slots=True)
class History:
    operations: list[Operation] = field(default_factory=list)
    power_losses_ms: list[float] = field(default_factory=list)
    watermarks: list[HighWatermark] = field(default_factory=list)


class _Seen(NamedTuple):
    """One observation of a value at an offset."""

    offset: int
    value: int
    start_ms: float
    end_ms: float


def check(history: History, *, is_complete: bool = True) -> list[Anomaly]:
    """The anomalies of a history.

    `is_complete`: the history ends with reads of everything, so a value that was never read is missing.
    """
    return _Analysis(history).run(is_complete=is_complete)


class _Analysis:
    def __init__(self, history: History) -> None:
        self.history = history
        self.operations = history.operations
        self.seen = _observations(self.operations)
        self.vanished = {key: _vanished(key, seen, history) for key, seen in self.seen.items()}
        self.places = {key: _places(seen, self.vanished[key]) for key, seen in self.seen.items()}
        self.index = {key: {offset: index for index, offset in enumerate(sorted(places))} for key, places in self.places.items()}
        self.read = _values_read(self.operations)
        self.found: list[Anomaly] = []

    def run(self, *, is_complete: bool) -> list[Anomaly]:
        for key, places in self.places.items():
            self.check_places(key, places)
        self.check_failed_sends()
        self.check_losses(is_complete=is_complete)
        self.check_polls()
        self.check_sends()
        self.check_transactions()
        self.check_watermarks()
        return self.found

    def add(self, kind: str, key: str, detail: str) -> None:
        assert kind in ANOMALIES, kind
        self.found.append(Anomaly(kind, key, detail))

    def check_places(self, key: str, places: Mapping[int, list[int]]) -> None:
        offsets_of: dict[int, list[int]] = defaultdict(list)
        for offset, values in sorted(places.items()):
            if len(values) > 1:
                self.add("inconsistent-offsets", key, f"offset {offset} holds {values}")
            for value in values:
                offsets_of[value].append(offset)
        for value, offsets in offsets_of.items():
            if len(offsets) > 1:
                self.add("duplicate", key, f"value {value} is at offsets {offsets}")

    def check_failed_sends(self) -> None:
        for operation in self.operations:
            if operation.outcome is Outcome.FAIL:
                for send in _sends(operation):
                    if send.value in self.read[send.key]:
                        self.add("G1a", send.key, f"value {send.value} was read, its send by process {operation.process} had failed")

    def check_losses(self, *, is_complete: bool) -> None:
        for key, sends in self._certain_sends().items():
            last_read = max((index for index in self._read_indexes(key)), default=-1)
            for send in sends:
                if send.value in self.read[key]:
                    continue
                where = f"value {send.value}, acknowledged at offset {send.offset}, was never read"
                if send.offset is not None and self.index[key][send.offset] < last_read:
                    self.add("lost-write", key, where)
                elif is_complete:
                    self.add("unseen", key, where)

    def _certain_sends(self) -> dict[str, list[Send]]:
        """The sends that happened for certain, without those that a power loss excuses.

        Sends of unknown outcome happened if a value of their operation was read.
        """
        certain: dict[str, list[Send]] = defaultdict(list)
        for operation in self.operations:
            sends = list(_sends(operation))
            happened = operation.outcome is Outcome.OK or (
                operation.outcome is Outcome.INFO and len(sends) > 1 and any(send.value in self.read[send.key] for send in sends)
            )
            if happened:
                for send in sends:
                    if send.offset is None or (send.offset, send.value) not in self.vanished[send.key]:
                        certain[send.key].append(send)
        return certain

    def _read_indexes(self, key: str) -> Iterable[int]:
        index = self.index.get(key, {})
        for offset, values in self.places.get(key, {}).items():
            if any(value in self.read[key] for value in values):
                yield index[offset]

    def check_polls(self) -> None:
        position: dict[tuple[int, str], int] = {}
        for operation in self.operations:
            if operation.repositions:
                for at in [at for at in position if at[0] == operation.process]:
                    del position[at]
            if operation.outcome is not Outcome.OK:
                continue
            inside: set[str] = set()
            for read in _reads(operation):
                if (read.offset, read.value) in self.vanished[read.key]:
                    position.pop((operation.process, read.key), None)
                    continue
                before = position.get((operation.process, read.key))
                if before is not None and not (operation.may_rebalance and read.key not in inside):
                    self._check_step(operation, read, before, is_inside=read.key in inside)
                position[operation.process, read.key] = read.offset
                inside.add(read.key)

    def _check_step(self, operation: Operation, read: Read, before: int, *, is_inside: bool) -> None:
        index = self.index[read.key]
        if before not in index:
            return  # the value vanished in a power loss
        step = index[read.offset] - index[before]
        prefix = "int-" if is_inside else ""
        detail = f"process {operation.process} read offset {before} and then {read.offset}"
        if step > 1:
            self.add(f"{prefix}poll-skip", read.key, detail)
        elif step < 1:
            self.add(f"{prefix}nonmonotonic-poll", read.key, detail)

    def check_sends(self) -> None:
        last: dict[tuple[int, str], int] = {}
        for operation in self.operations:
            inside: dict[str, int] = {}
            for send in _sends(operation):
                if operation.outcome is not Outcome.OK or send.offset is None or (send.offset, send.value) in self.vanished[send.key]:
                    continue
                before = inside.get(send.key, last.get((operation.process, send.key), -1))
                if send.offset <= before:
                    kind = "int-nonmonotonic-send" if send.key in inside else "nonmonotonic-send"
                    self.add(kind, send.key, f"process {operation.process} was given offset {before} and then {send.offset}")
                inside[send.key] = send.offset
            for key, offset in inside.items():
                last[operation.process, key] = offset

    def check_transactions(self) -> None:
        writer: dict[tuple[str, int], int] = {}
        for number, operation in enumerate(self.operations):
            for send in _sends(operation):
                writer[send.key, send.value] = number
        follows: dict[int, list[int]] = defaultdict(list)
        for number, operation in enumerate(self.operations):
            if operation.outcome is Outcome.OK:
                for read in _reads(operation):
                    source = writer.get((read.key, read.value))
                    if source == number:
                        self.add("precommitted-read", read.key, f"process {operation.process} read its own value {read.value}")
                    elif source is not None:
                        follows[source].append(number)
        for circle in _circles(follows):
            processes = [self.operations[number].process for number in circle]
            self.add("G1c", "*", f"operations {circle} of processes {processes}")

    def check_watermarks(self) -> None:
        """Compare high watermarks.  A response may overtake another one, so only fetches sent after the other response count."""
        highest: dict[tuple[str, int], list[HighWatermark]] = defaultdict(list)
        for mark in sorted(self.history.watermarks, key=lambda mark: mark.end_ms):
            before = highest[mark.key, mark.leader_epoch]
            for other in before:
                if other.end_ms < mark.start_ms and other.offset > mark.offset:
                    self.add("high-watermark-went-back", mark.key, f"from {other.offset} to {mark.offset} in epoch {mark.leader_epoch}")
                    break
            if not before or mark.offset > before[-1].offset:
                before.append(mark)


def _sends(operation: Operation) -> Iterable[Send]:
    return (action for action in operation.actions if isinstance(action, Send))


def _reads(operation: Operation) -> Iterable[Read]:
    for action in operation.actions:
        if isinstance(action, Poll):
            yield from action.reads


def _observations(operations: Sequence[Operation]) -> defaultdict[str, list[_Seen]]:
    seen: defaultdict[str, list[_Seen]] = defaultdict(list)
    for operation in operations:
        if operation.outcome is Outcome.OK:
            for send in _sends(operation):
                if send.offset is not None:
                    seen[send.key].append(_Seen(send.offset, send.value, operation.start_ms, operation.end_ms))
            for read in _reads(operation):
                seen[read.key].append(_Seen(read.offset, read.value, operation.start_ms, operation.end_ms))
    return seen


def _vanished(key: str, seen: Sequence[_Seen], history: History) -> set[tuple[int, int]]:
    """(offset, value) of records that a power loss may lawfully take: above all acknowledged records, and not read again after."""
    vanished: set[tuple[int, int]] = set()
    for lost_ms in history.power_losses_ms:
        safe = max(
            (
                send.offset
                for operation in history.operations
                if operation.outcome is Outcome.OK and operation.end_ms < lost_ms
                for send in _sends(operation)
                if send.key == key and send.acks == ALL and send.offset is not None
            ),
            default=-1,
        )
        before = {(each.offset, each.value) for each in seen if each.start_ms < lost_ms and each.offset > safe}
        after = {(each.offset, each.value) for each in seen if each.end_ms > lost_ms and each.start_ms >= lost_ms}
        vanished |= before - after
    return vanished


def _places(seen: Sequence[_Seen], vanished: set[tuple[int, int]]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = defaultdict(list)
    for each in seen:
        if (each.offset, each.value) not in vanished and each.value not in places[each.offset]:
            places[each.offset].append(each.value)
    return {offset: values for offset, values in places.items() if values}


def _values_read(operations: Sequence[Operation]) -> defaultdict[str, set[int]]:
    read: defaultdict[str, set[int]] = defaultdict(set)
    for operation in operations:
        if operation.outcome is Outcome.OK:
            for each in _reads(operation):
                read[each.key].add(each.value)
    return read


def _circles(follows: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    circles = []
    for root in follows:
        if root in number:
            continue
        work = [(root, iter(follows.get(root, ())))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in number:
                    number[successor] = low[successor] = len(number)
                    path.append(successor)
                    on_path.add(successor)
                    work.append((successor, iter(follows.get(successor, ()))))
                    break
                if successor in on_path:
                    low[node] = min(low[node], number[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = path[path.index(node) :]
                    del path[-len(component) :]
                    on_path.difference_update(component)
                    if len(component) > 1:
                        circles.append(sorted(component))
    return circles
