"""● Killed and started again: how long until the first fetch is answered, and how fast logs are recovered.

    python -m benchmarks.restart --gigabytes 10 --flushed 6 --partitions 1000 --peers moldau
    python -m benchmarks.restart --gigabytes 2 --partitions 8 --record-size 100 --records 10 --rounds 3

The data is written through the broker with acks=1.  After `--flushed` gigabytes every partition gets one batch with acks=all; our broker
puts this batch and everything before it on stable storage, Kafka does not.  Then the broker gets SIGKILL and starts on the same folder.
Every topic is fetched again and again until records come.  `--cold` empties the page cache in between (as root).
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import clients, frames
from benchmarks.generator import read_exactly
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka

TOPIC_PARTITIONS = 100
"""The number of partitions of one request: the size of its reply has to be known."""
CHECKPOINT_MS = 2000
FIRST_FETCH_WITHIN_S = 300.0
NOT_LED_YET = {b"\0\0", b"\0\3", b"\0\6"}
"""The error codes that partitions answer with while their topic is being made."""
Broker = ApacheKafka | BrokerProcess


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.restart",
        description="How long after a kill until the first fetch is answered, and how fast logs are recovered.",
    )
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--flushed", type=float, default=0.0, metavar="GB", help="how many are on stable storage at the last checkpoint")
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--record-size", type=int, default=1000)
    parser.add_argument("--records", type=int, default=16, help="in a batch")
    parser.add_argument("--rounds", type=int, default=1, help="kills and starts")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--peers", nargs="+", choices=["kafka", "moldau"], default=["kafka", "moldau"])
    parser.add_argument("--dir", type=Path)
    return parser.parse_args()


def exchange(port: int, request: bytes) -> bytearray:
    with socket.create_connection(("127.0.0.1", port), 30.0) as sock:
        return ask(sock, request)


def ask(sock: socket.socket, request: bytes) -> bytearray:
    sock.sendall(request)
    size = bytearray(4)
    read_exactly(sock, memoryview(size))
    reply = bytearray(struct.unpack(">i", size)[0])
    read_exactly(sock, memoryview(reply))
    return reply


def fill(broker: Broker, topics: dict[str, int], total_bytes: float, batch: bytes, acks: int) -> None:
    """Write `total_bytes` evenly over all partitions; a request holds one batch for each partition of a topic."""
    written = 0.0
    with socket.create_connection(("127.0.0.1", broker.port)) as sock:
        requests = {topic: frames.produce_request(topic, [batch] * count, acks=acks) for topic, count in topics.items()}
        while written < total_bytes:
            for topic, request in requests.items():
                reply = ask(sock, request)
                errors = {bytes(reply[at - 4 : at - 2]) for at in error_positions(topic, topics[topic])}
                if errors == {b"\0\0"}:
                    written += len(batch) * topics[topic]
                elif written or not errors <= NOT_LED_YET:
                    raise RuntimeError(f"produce answered {errors}")
                else:
                    time.sleep(0.1)


def error_positions(topic: str, partitions: int) -> list[int]:
    return frames.produce_error_positions(topic, partitions)


def first_fetch(port: int, topics: dict[str, int], batch_size: int, since: float) -> float:
    """Seconds until every topic has given records."""
    waiting = list(topics)
    while waiting:
        if time.perf_counter() - since > FIRST_FETCH_WITHIN_S:
            raise RuntimeError(f"{waiting} answered nothing")
        try:
            reply = exchange(port, frames.fetch_request(waiting[-1], [0] * topics[waiting[-1]], partition_bytes=batch_size, max_wait_ms=1))
            if all(size > 0 for *_, size in frames.fetched(memoryview(reply), waiting[-1])):
                waiting.pop()
        except (OSError, RuntimeError):
            time.sleep(0.01)
    return time.perf_counter() - since


def bytes_read(pid: int) -> int:
    """The bytes that a process has read, from the disk and from the page cache."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines())
    return int(fields["rchar"])


def processor_s(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name: str, options: argparse.Namespace, directory: Path) -> dict[str, object]:
    properties = {"log.flush.offset.checkpoint.interval.ms": str(CHECKPOINT_MS), "log.initial.task.delay.ms": "600000"}
    kind = ApacheKafka if name == "kafka" else BrokerProcess
    topics = {
        f"restart-{first}": min(TOPIC_PARTITIONS, options.partitions - first) for first in range(0, options.partitions, TOPIC_PARTITIONS)
    }
    batch = frames.record_batch(
        [bytes([65 + number % 26]) * options.record_size for number in range(options.records)], int(time.time() * 1000)
    )
    started: list[float] = []
    read: list[int] = []
    worked: list[float] = []
    with kind(directory=directory / name, properties=properties) as broker:
        for topic, count in topics.items():
            clients.create_topic(broker.bootstrap, topic, count)
        if options.flushed:
            fill(broker, topics, options.flushed * 1e9, batch, acks=1)
            fill(broker, topics, 1, batch, acks=-1)
            time.sleep(3 * CHECKPOINT_MS / 1000)
        fill(broker, topics, (options.gigabytes - options.flushed) * 1e9, batch, acks=1)
        for _ in range(options.rounds):
            broker.kill()
            if options.cold:
                os.sync()
                Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
            begin = time.perf_counter()
            broker.launch()
            started.append(first_fetch(broker.port, topics, len(batch), begin))
            read.append(bytes_read(broker.pid))
            worked.append(processor_s(broker.pid))
    return {
        "peer": name,
        "first_fetch_s": round(statistics.median(started), 2),
        "processor_s": round(statistics.median(worked), 2),
        "read_gb": round(statistics.median(read) / 1e9, 2),
        "mb_s": round(options.gigabytes * 1000 / statistics.median(started)),
        "rounds": [round(each, 2) for each in started],
    }


def main() -> int:
    options = arguments()
    for name in options.peers:
        directory = Path(tempfile.mkdtemp(prefix="moldau-restart-", dir=options.dir))
        try:
            print(json.dumps(measure(name, options, directory)), flush=True)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
