"""● The Java clients of a load: one Java process with a producer, a transactional copier, a group and a share group.

`java/Load.java` holds the clients.  It prints one fact a line, and this module notes the facts.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

from proof.cluster.process_load import PARTITIONS, WITHIN_S, Client, History
from proof.metadata.oracle import compiled_command

SOURCE: Final = Path(__file__).parent / "java" / "Load.java"
MAIN: Final = "org.moldau.proof.Load"
FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
PAYMENTS: Final = "payments"
RECEIPTS: Final = "receipts"


@dataclass
class Queue:
    """The answers that the members of a share group got."""

    delivered: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset)"""
    accepted: set[tuple[int, int]] = field(default_factory=set)
    """The places whose acceptance a broker confirmed."""
    again: int = 0
    violations: list[str] = field(default_factory=list)

    def note_delivered(self, partition: int, offset: int) -> None:
        place = partition, offset
        if place in self.accepted:
            self.violations.append(f"the share group was given offset {offset} of partition {partition} again after it was accepted")
        self.again += place in self.delivered
        self.delivered.add(place)

    def note_accepted(self, partition: int, offset: int) -> None:
        place = partition, offset
        if place in self.accepted:
            self.violations.append(f"the share group accepted offset {offset} of partition {partition} twice")
        self.accepted.add(place)

    def left_out(self, partition: int, end: int) -> list[int]:
        """The offsets below `end` that no member was given."""
        return [offset for offset in range(end) if (partition, offset) not in self.delivered]


class JavaClients(Client):
    """All Java clients.  They write `payments`, copy it to `receipts`, and share the topic `queue_topic`."""

    def __init__(self, bootstrap: str, history: History, queue: Queue, queue_topic: str, log: Path) -> None:
        super().__init__("the Java clients", bootstrap, history)
        self._log: Final = log
        self._command: Final = compiled_command(SOURCE, MAIN, bootstrap, PAYMENTS, RECEIPTS, queue_topic, str(PARTITIONS), flags=FLAGS)
        self._process: subprocess.Popen[str] | None = None
        self._writer_ended: Final = Event()
        self._facts: Final[dict[str, Callable[[list[str]], object]]] = {
            "acknowledged": lambda words: self._acknowledged(*_two(words)),
            "copied": lambda words: history.copied.update([_two(words)]),
            "committed": lambda _: self._count(committed=1),
            "aborted": lambda _: self._count(aborted=1),
            "replaced": self._replaced,
            "read": lambda words: history.read.update([_two(words)]),
            "jumped": lambda words: history.jumps.append((" ".join(words[3:]), *_two(words), int(words[2]))),
            "delivered": lambda words: queue.note_delivered(*_two(words)),
            "accepted": lambda words: queue.note_accepted(*_two(words)),
            "told": lambda words: history.errors.update([words[0]]),
            "wrong": lambda words: history.violations.append(f"Java's {' '.join(words)}"),
            "ended": self._ended,
        }

    def work(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8"
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fact, *words = line.split()
            self._facts[fact](words)
        if code := self._process.wait():
            self.history.violations.append(f"the Java clients ended with {code}")
        self._writer_ended.set()

    def stop_writing(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write("writer\n")
        self._process.stdin.flush()
        if not self._writer_ended.wait(WITHIN_S):
            self.history.violations.append("Java's writer does not end")

    def stop(self) -> None:
        super().stop()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End the process for certain."""
        if self._process is not None:
            self._process.kill()

    def _acknowledged(self, partition: int, value: int) -> None:
        self.history.acknowledged[partition].append(value)
        self.history.acknowledged_at_s.append(monotonic())

    def _count(self, *, committed: int = 0, aborted: int = 0) -> None:
        self.history.committed_transactions += committed
        self.history.aborted_transactions += aborted

    def _replaced(self, words: list[str]) -> None:
        self.history.replaced_producers += 1
        self.history.reasons[" ".join(words)] += 1

    def _ended(self, words: list[str]) -> None:
        if words == ["writer"]:
            self._writer_ended.set()


def _two(words: list[str]) -> tuple[int, int]:
    return int(words[0]), int(words[1])
