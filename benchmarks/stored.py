"""● How much is stored already must not be felt: the same fetches from one broker that holds 1, 10 and 50 GB.

    python -m benchmarks.stored --gigabytes 1 10 50

At each size, the median of `--rounds`: how fast the newest gigabyte is read, all partitions in each request, from the page cache, and what
processor time that costs the broker, which other work on the machine changes less; and how long the first byte of a batch at a random
old offset takes, each asked for once before so that it, too, is in the page cache.  Between the sizes the broker is stopped, and its logs
are filled by the storage alone.  The data stays in `--dir` while it runs: keep the largest size and some free there.
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
        prog="python -m benchmarks.stored", description="The same fetches from one broker that holds ever more."
    )
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--record-size", type=int, default=1000)
    parser.add_argument("--records", type=int, default=100, help="in a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path)
    return parser.parse_args()


class Reader:
    """Knows where every batch begins, because all are of one size."""

    def __init__(self, port: int, batch_size: int, records: int, batches: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.batch_size = batch_size
        self.records = records
        self.batches = batches
        """In each partition."""

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
    """So many batches more in every partition, while no broker is at work there."""
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


def measure(options: argparse.Namespace, directory: Path) -> None:
    batch = frames.record_batch([bytes([65 + number % 26]) * options.record_size for number in range(options.records)], 1_700_000_000_000)
    chance = random.Random(1)
    batches = 0
    with BrokerProcess(directory=directory / "broker", properties={"log.retention.ms": "-1"}) as broker:
        clients.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        for gigabytes in sorted(options.gigabytes):
            missing = int(gigabytes * 1e9 / PARTITIONS / len(batch)) - batches
            if shutil.disk_usage(directory).free < missing * PARTITIONS * len(batch) + KEPT_FREE_BYTES:
                raise RuntimeError(f"{directory} has no room for {gigabytes} GB")
            began = time.perf_counter()
            broker.stop()
            fill(broker.log_dir, batch, missing)
            broker.start()
            filled_mb_s = missing * PARTITIONS * len(batch) / (time.perf_counter() - began) / 1e6
            batches += missing
            reader = Reader(broker.port, len(batch), options.records, batches)
            old = [chance.randrange(batches) for _ in range(OLD_OFFSETS)]
            reader.newest_mb_s()
            reader.first_byte_ms(old)
            cpu_before = broker.cpu_seconds
            newest = [reader.newest_mb_s() for _ in range(options.rounds)]
            cpu_s = broker.cpu_seconds - cpu_before
            first = [reader.first_byte_ms(old) for _ in range(options.rounds)]
            reader.close()
            found = {
                "gigabytes": gigabytes,
                "filled_mb_s": round(filled_mb_s),
                "newest_mb_s": round(statistics.median(newest)),
                "newest_rounds": [round(each) for each in newest],
                "broker_cpu_s_per_gb": round(cpu_s / options.rounds / min(gigabytes, NEWEST_BYTES / 1e9), 3),
                "first_byte_ms": round(statistics.median(first), 3),
                "first_byte_rounds": [round(each, 3) for each in first],
            }
            print(json.dumps(found), flush=True)


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
