"""● How fast a log is compacted: the same records for each peer, timed from the moment when its topic becomes a compacted one.

    python -m benchmarks.compaction --megabytes 500 --record-size 100 1000

A few keys are written over and over again into one partition that keeps everything.  Then `cleanup.policy=compact` is set.  The clock
stops when next to nothing is left outside the active segment.  The cleaners look for work every 100 ms.  Our cleaner runs in a process of
low priority, so on a busy machine the processor time of broker and cleaner together tells more than the clock.
"""

import argparse
import json
import shutil
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks import frames
from benchmarks.processes import cpu_seconds
from benchmarks.restart import NOT_LED_YET, ask
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka

SEGMENT_BYTES = 64 << 20
BATCHES = 10
BATCH_BYTES = 500_000
LEFT_OVER = 0.1
"""The share of records to compact that may be left over."""
DONE_WITHIN_S = 300.0
PROPERTIES = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "1000"}
Broker = ApacheKafka | BrokerProcess


class Compaction(NamedTuple):
    size: int
    """Bytes that were to be compacted."""
    elapsed_s: float
    cpu_s: float

    @property
    def mb_s(self) -> float:
        return self.size / self.elapsed_s / 1e6

    @property
    def cpu_s_gb(self) -> float:
        return self.cpu_s / self.size * 1e9


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compaction", description="Measure how fast a log is compacted, here and by Apache Kafka."
    )
    parser.add_argument("--megabytes", type=float, default=500.0)
    parser.add_argument("--record-size", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="+", choices=["kafka", "moldau"], default=["kafka", "moldau"])
    parser.add_argument("--dir", type=Path)
    return parser.parse_args()


def batches_of(record_size: int) -> list[bytes]:
    """The batches that together hold every key once."""
    count = BATCH_BYTES // record_size
    now_ms = int(time.time() * 1000)
    return [
        frames.record_batch([b"v" * record_size] * count, now_ms, keys=[b"key-%08d" % (number * count + each) for each in range(count)])
        for number in range(BATCHES)
    ]


def fill(broker: Broker, topic: str, batches: list[bytes], total_bytes: float) -> None:
    requests = [frames.produce_request(topic, [batch]) for batch in batches]
    errors_at = frames.produce_error_positions(topic, 1)[0]
    written = 0
    with socket.create_connection(("127.0.0.1", broker.port)) as sock:
        while written < total_bytes:
            for batch, request in zip(batches, requests, strict=True):
                reply = ask(sock, request)
                error = bytes(reply[errors_at - 4 : errors_at - 2])
                if error == b"\0\0":
                    written += len(batch)
                elif written or error not in NOT_LED_YET:
                    raise RuntimeError(f"produce answered {error!r}")
                else:
                    time.sleep(0.1)


def sizes(folder: Path) -> list[int]:
    """The sizes of the segments, oldest first."""
    found = []
    for path in sorted(folder.glob("*.log")):
        try:
            found.append(path.stat().st_size)
        except FileNotFoundError:
            found.append(0)  # the segment was replaced just now
    return found


def compact(broker: Broker, topic: str) -> Compaction:
    folder = broker.log_dir / f"{topic}-0"
    before = sum(sizes(folder)[:-1])
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    cpu_s, began = cpu_seconds(broker.pid), time.perf_counter()
    for future in admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]).values():
        future.result(30)
    while sum(sizes(folder)[:-1]) > before * LEFT_OVER:
        if time.perf_counter() - began > DONE_WITHIN_S:
            raise RuntimeError(f"{topic} still has {sizes(folder)}")
        time.sleep(0.02)
    return Compaction(before, time.perf_counter() - began, cpu_seconds(broker.pid) - cpu_s)


def measure(name: str, record_size: int, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    kind = ApacheKafka if name == "kafka" else BrokerProcess
    batches = batches_of(record_size)
    rounds: list[Compaction] = []
    with kind(directory=directory / name, properties=PROPERTIES) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
        for number in range(options.rounds):
            topic = f"compacted-{record_size}-{number}"
            config = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
            for future in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
                future.result(30)
            fill(broker, topic, batches, options.megabytes * 1e6)
            rounds.append(compact(broker, topic))
    found = {
        "peer": name,
        "record_size": record_size,
        "mb_s": round(statistics.median(each.mb_s for each in rounds), 1),
        "cpu_s_gb": round(statistics.median(each.cpu_s_gb for each in rounds), 2),
        "rounds": [(round(each.mb_s, 1), round(each.cpu_s_gb, 2)) for each in rounds],
    }
    print(json.dumps(found), flush=True)
    return found


def main() -> int:
    options = arguments()
    for record_size in options.record_size:
        found: dict[str, dict[str, Any]] = {}
        for name in options.peers:
            directory = Path(tempfile.mkdtemp(prefix="moldau-compaction-", dir=options.dir))
            try:
                found[name] = measure(name, record_size, options, directory)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        if len(found) > 1:
            ratios = {figure: round(found["moldau"][figure] / found["kafka"][figure], 2) for figure in ("mb_s", "cpu_s_gb")}
            print(json.dumps({"record_size": record_size, "moldau_to_kafka": ratios}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
