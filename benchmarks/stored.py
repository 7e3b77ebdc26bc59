"""● Stored data must not slow fetches down: the same fetches from brokers that hold 1, 10 and 50 GB, side by side.

    python -m benchmarks.stored --gigabytes 1 10 50

Each size has a broker of its own.  The storage alone fills the broker's folder while the broker is down.  In each of `--rounds` every
broker is asked in turn, in changing order and over a new connection.  First figure: how fast the newest gigabyte is read from the page
cache, all partitions in each request, and how much processor time that costs the broker.  Second figure: how long the first byte of a batch
at a random old offset takes; each batch is asked for once before, so that the page cache holds it, too.  Ratios to the smallest size are
taken within a round.  The data stays in `--dir` while the benchmark runs: keep the sum of the sizes and some more free there.
"""

import argparse
import json
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import clients, frames
from benchmarks.generator import read_exactly
from benchmarks.restart import ask
from moldau.storage.config import LogConfig
from moldau.storage.files import SystemFiles
from moldau.storage.log import AppendResult
from moldau.storage.manager import LogManager
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition

TOPIC = "stored"
PARTITIONS = 8
PARTITION_BYTES = 1 << 20
NEWEST_BYTES = 1e9
OLD_OFFSETS = 200
KEPT_FREE_BYTES = 5e9


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stored", description="The same fetches from brokers that hold more and less, side by side."
    )
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0, 10.0], metavar="GB")
    parser.add_argument("--record-size", type=int, default=1000)
    parser.add_argument("--records", type=int, default=100, help="in a batch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dir", type=Path)
    return parser.parse_args()


class Reader:
    """A reader that knows where every batch begins, because all batches have one size."""

    def __init__(self, port: int, batch_size: int, records: int, batches: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.batch_size = batch_size
        self.records = records
        self.batches = batches
        """The number of batches in each partition."""

    def newest_mb_s(self) -> float:
        first = self.batches - int(NEWEST_BYTES / PARTITIONS / self.batch_size)
        at = [max(first, 0)] * PARTITIONS
        read = 0
        began = time.perf_counter()
        while min(at) < self.batches:
            request = frames.fetch_request(TOPIC, [number * self.records for number in at], partition_bytes=PARTITION_BYTES, max_wait_ms=0)
            for partition, _, _, size in frames.fetched(memoryview(ask(self.sock, request)), TOPIC):
                whole = size // self.batch_size
                at[partition] += whole
                read += whole * self.batch_size
        return read / (time.perf_counter() - began) / 1e6

    def first_byte_ms(self, batches: Sequence[int]) -> float:
        taken = []
        for number in batches:
            request = frames.fetch_request(TOPIC, [number * self.records], partition_bytes=1, max_wait_ms=0)
            began = time.perf_counter()
            self.sock.sendall(request)
            size = bytearray(4)
            read_exactly(self.sock, memoryview(size))
            taken.append(time.perf_counter() - began)
            read_exactly(self.sock, memoryview(bytearray(int.from_bytes(size, "big"))))
        return statistics.median(taken) * 1000

    def close(self) -> None:
        self.sock.close()


def fill(folder: Path, batch: bytes, count: int) -> None:
    """Append `count` batches to every partition.  No broker may be at work in the folder."""
    now_ms, config = int(time.time() * 1000), LogConfig.load({})
    manager = LogManager(SystemFiles(), [str(folder)], config, unique=uuid.uuid4)
    manager.open(now_ms)
    manager.load_all(lambda _: config, now_ms)
    for number in range(PARTITIONS):
        log = manager.logs[TopicPartition(TOPIC, number)]
        epoch = max(log.epochs.latest_epoch, 0)
        for _ in range(count):
            done = log.append_from_client(bytearray(batch), leader_epoch=epoch, now_ms=now_ms)
            assert isinstance(done, AppendResult), done
    manager.close()


@dataclass(slots=True)
class Stored:
    """One broker, the data that it holds, and its figures round by round."""

    gigabytes: float
    broker: BrokerProcess
    batches: int
    """The number of batches in each partition."""
    old: list[int]
    newest_mb_s: list[float] = field(default_factory=list)
    cpu_s_gb: list[float] = field(default_factory=list)
    first_byte_ms: list[float] = field(default_factory=list)

    def ask(self, options: argparse.Namespace, batch_size: int) -> None:
        reader = Reader(self.broker.port, batch_size, options.records, self.batches)
        cpu_before = self.broker.cpu_seconds
        self.newest_mb_s.append(reader.newest_mb_s())
        self.cpu_s_gb.append((self.broker.cpu_seconds - cpu_before) / min(self.gigabytes, NEWEST_BYTES / 1e9))
        self.first_byte_ms.append(reader.first_byte_ms(self.old))
        reader.close()

    def forget(self) -> None:
        for each in (self.newest_mb_s, self.cpu_s_gb, self.first_byte_ms):
            each.clear()

    def report(self, smallest: "Stored") -> dict[str, object]:
        found: dict[str, object] = {"gigabytes": self.gigabytes}
        for name in ("newest_mb_s", "cpu_s_gb", "first_byte_ms"):
            mine, theirs = getattr(self, name), getattr(smallest, name)
            ratios = sorted(one / other for one, other in zip(mine, theirs, strict=True))
            found[name] = round(statistics.median(mine), 3)
            found[f"{name}_ratio"] = round(statistics.median(ratios), 3)
            found[f"{name}_ratio_quartiles"] = [round(ratios[len(ratios) // 4], 3), round(ratios[-1 - len(ratios) // 4], 3)]
        return found


def stored(gigabytes: float, broker: BrokerProcess, batch: bytes) -> Stored:
    batches = int(gigabytes * 1e9 / PARTITIONS / len(batch))
    clients.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    broker.stop()
    print(f"Filling {gigabytes:g} GB", file=sys.stderr, flush=True)
    fill(broker.log_dir, batch, batches)
    broker.start()
    chance = random.Random(1)
    return Stored(gigabytes, broker, batches, [chance.randrange(batches) for _ in range(OLD_OFFSETS)])


def measure(options: argparse.Namespace, directory: Path) -> None:
    if shutil.disk_usage(directory).free < sum(options.gigabytes) * 1e9 + KEPT_FREE_BYTES:
        raise RuntimeError(f"{directory} has no room for {sum(options.gigabytes)} GB")
    batch = frames.record_batch([bytes([65 + number % 26]) * options.record_size for number in range(options.records)], 1_700_000_000_000)
    with ExitStack() as started:
        brokers = [
            (size, started.enter_context(BrokerProcess(directory=directory / f"{size:g}", properties={"log.retention.ms": "-1"})))
            for size in sorted(options.gigabytes)
        ]
        sizes = [stored(size, broker, batch) for size, broker in brokers]
        for each in sizes:
            each.ask(options, len(batch))
            each.forget()
        for number in range(options.rounds):
            for each in sizes if number % 2 else reversed(sizes):
                each.ask(options, len(batch))
        for each in sizes:
            print(json.dumps(each.report(sizes[0])), flush=True)


def main() -> int:
    options = arguments()
    directory = Path(tempfile.mkdtemp(prefix="moldau-stored-", dir=options.dir))
    try:
        measure(options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
