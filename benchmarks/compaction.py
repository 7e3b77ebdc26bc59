"""● How fast a log is compacted: the same records for each peer, from the moment its topic becomes a compacted one.

    python -m benchmarks.compaction --megabytes 500 --record-size 100 1000

A few keys are written over and over again into one partition that keeps everything; then `cleanup.policy=compact` is set, and the time
counts until of all that is not in the active segment next to nothing is left.  The cleaners look for work every 100 ms.
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

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks import frames
from benchmarks.restart import NOT_LED_YET, ask
from moldau.testing.kafka import ApacheKafka
from moldau.testing.process import BrokerProcess

SEGMENT_BYTES = 64 << 20
BATCHES = 10
BATCH_BYTES = 500_000
LEFT_OVER = 0.1
"""Of what was to be compacted: less is done."""
DONE_WITHIN_S = 300.0
PROPERTIES = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "1000"}
Broker = ApacheKafka | BrokerProcess


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.compaction", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=500.0)
    parser.add_argument("--record-size", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="+", choices=["kafka", "moldau"], default=["kafka", "moldau"])
    parser.add_argument("--dir", type=Path)
    return parser.parse_args()


def batches_of(record_size: int) -> list[bytes]:
    """Together they hold every key once."""
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
    """Of the segments, oldest first."""
    found = []
    for path in sorted(folder.glob("*.log")):
        try:
            found.append(path.stat().st_size)
        except FileNotFoundError:
            found.append(0)  # it was replaced just now
    return found


def compact(broker: Broker, topic: str) -> tuple[int, float]:
    """How many bytes were to be compacted, and how many seconds it took."""
    folder = broker.log_dir / f"{topic}-0"
    before = sum(sizes(folder)[:-1])
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    began = time.perf_counter()
    for future in admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]).values():
        future.result(30)
    while sum(sizes(folder)[:-1]) > before * LEFT_OVER:
        if time.perf_counter() - began > DONE_WITHIN_S:
            raise RuntimeError(f"{topic} still has {sizes(folder)}")
        time.sleep(0.02)
    return before, time.perf_counter() - began


def measure(name: str, record_size: int, options: argparse.Namespace, directory: Path) -> float:
    kind = ApacheKafka if name == "kafka" else BrokerProcess
    batches = batches_of(record_size)
    speeds = []
    with kind(directory=directory / name, properties=PROPERTIES) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
        for number in range(options.rounds):
            topic = f"compacted-{record_size}-{number}"
            config = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
            for future in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
                future.result(30)
            fill(broker, topic, batches, options.megabytes * 1e6)
            size, seconds = compact(broker, topic)
            speeds.append(size / seconds / 1e6)
    found = {
        "peer": name,
        "record_size": record_size,
        "mb_s": round(statistics.median(speeds), 1),
        "rounds": [round(each, 1) for each in speeds],
    }
    print(json.dumps(found), flush=True)
    return statistics.median(speeds)


def main() -> int:
    options = arguments()
    for record_size in options.record_size:
        speeds = {}
        for name in options.peers:
            directory = Path(tempfile.mkdtemp(prefix="moldau-compaction-", dir=options.dir))
            try:
                speeds[name] = measure(name, record_size, options, directory)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        if len(speeds) > 1:
            print(json.dumps({"record_size": record_size, "moldau_to_kafka": round(speeds["moldau"] / speeds["kafka"], 2)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
