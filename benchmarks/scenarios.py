"""● The table of all scenarios.  A scenario puts one load on one peer and returns a few numbers.

A target is the ratio to Apache Kafka that we want (for a metric where less is better, at most that ratio), or a plain
limit for us where `limit` is set.
"""

import json
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from benchmarks import clients, frames, processes
from benchmarks.generator import read_exactly
from benchmarks.peers import Peer

Numbers = dict[str, float]
SETTLE_S = 0.5
CONSUMED_TOPIC = "bench-consume"
CONSUMED_BYTES = 1 << 29
FIRST_ACK_WITHIN_S = 60.0
LOAD_WITHIN_S = 180.0


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a scenario."""

    key: str
    label: str
    more_is_better: bool = True
    target: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """`run(peer, seconds, number)` puts the load on; `number` keeps the topics of rounds apart."""

    name: str
    title: str
    run: Callable[[Peer, float, int], Numbers]
    metrics: tuple[Metric, ...]


def run_module(module: str, spec: Mapping[str, object]) -> dict[str, object]:
    """Run one load in a process of its own.  Returns the JSON that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(spec)], capture_output=True, text=True, timeout=LOAD_WITHIN_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} {dict(spec)} failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def raw(peer: Peer, **spec: object) -> Numbers:
    """Run a load of the generator.  Returns its numbers and the broker's processor time."""
    before = processes.cpu_seconds(peer.pid)
    told = run_module("benchmarks.generator", {"port": peer.port, **spec})
    used = processes.cpu_seconds(peer.pid) - before
    numbers = {key: float(value) for key, value in told.items() if isinstance(value, int | float)}
    latency = told["latency_ms"]
    assert isinstance(latency, dict)
    numbers |= {f"{name}_ms": value for name, value in latency.items()}
    end_to_end = told["end_to_end_ms"]
    assert isinstance(end_to_end, dict)
    numbers |= {f"end_to_end_{name}_ms": value for name, value in end_to_end.items()}
    numbers["mb_s"] = numbers["bytes"] / numbers["seconds"] / 1e6
    numbers["requests_s"] = numbers["requests"] / numbers["seconds"]
    numbers["records_s"] = numbers["records"] / numbers["seconds"]
    numbers["cpu_s_gb"] = used / max(numbers["all_bytes"], 1) * 1e9
    numbers["cpu_us_request"] = used / max(numbers["all_requests"], 1) * 1e6
    return numbers


def on_new_topic(peer: Peer, name: str, partitions: int, work: Callable[[str], Numbers]) -> Numbers:
    """Make a topic, run, remove the topic, so that its pages never wait for the disk during the next measurement."""
    clients.create_topic(peer.bootstrap, name, partitions)
    time.sleep(SETTLE_S)
    try:
        return work(name)
    finally:
        clients.delete_topic(peer.bootstrap, name)
        time.sleep(SETTLE_S)


def raw_produce(peer: Peer, seconds: float, number: int, *, tag: str, partitions: int = 4, **spec: object) -> Numbers:
    def work(topic: str) -> Numbers:
        return raw(peer, kind="produce", topic=topic, partitions=partitions, seconds=seconds, **spec)

    return on_new_topic(peer, f"bench-{tag}-{number:03}", partitions, work)


def paced(peer: Peer, seconds: float, number: int, **spec: object) -> Numbers:
    def work(topic: str) -> Numbers:
        return raw(peer, kind="paced", topic=topic, partitions=1, seconds=seconds, **spec)

    return on_new_topic(peer, f"bench-paced-{number:03}", 1, work)


def ensure_consumed_topic(peer: Peer) -> str:
    """The topic that consumers read: 512 MiB of 1 KiB records in four partitions.

    The topic is written once a run, and again for a peer that has restarted without its data.
    """
    marked = getattr(peer, "consumed_by_pid", None)
    if marked != peer.pid:
        clients.create_topic(peer.bootstrap, CONSUMED_TOPIC, 4)
        time.sleep(SETTLE_S)
        raw(peer, kind="produce", topic=CONSUMED_TOPIC, partitions=4, total_bytes=CONSUMED_BYTES)
        peer.consumed_by_pid = peer.pid  # type: ignore[attr-defined]
    return CONSUMED_TOPIC


def raw_consume(peer: Peer, seconds: float, _: int, *, consumers: int) -> Numbers:
    return raw(peer, kind="consume", topic=ensure_consumed_topic(peer), partitions=4, seconds=seconds, processes=consumers)


def librdkafka(peer: Peer, seconds: float, number: int, *, kind: str, record_size: int, processes_count: int = 1) -> Numbers:
    """confluent-kafka, one client a process."""

    def work(topic: str) -> Numbers:
        spec = {"kind": kind, "bootstrap": peer.bootstrap, "topic": topic, "partitions": 4, "record_size": record_size}
        spec |= {"warm_s": 1.0, "seconds": seconds}
        before = processes.cpu_seconds(peer.pid)
        with ThreadPoolExecutor(processes_count) as pool:
            parts = list(pool.map(lambda _: run_module("benchmarks.clients", spec), range(processes_count)))
        used = processes.cpu_seconds(peer.pid) - before
        total = {key: sum(float(str(part[key])) for part in parts) for key in ("records", "bytes", "all_bytes")}
        elapsed = max(float(str(part["seconds"])) for part in parts)
        return {
            "mb_s": total["bytes"] / elapsed / 1e6,
            "records_s": total["records"] / elapsed,
            "cpu_s_gb": used / max(total["all_bytes"], 1) * 1e9,
        }

    if kind == "consume":
        return work(ensure_consumed_topic(peer))
    return on_new_topic(peer, f"bench-rd-{record_size}-{number:03}", 4, work)


def small_transactions(peer: Peer, seconds: float, number: int) -> Numbers:
    """confluent-kafka, one producer, ten records of 100 B a transaction: transaction.version 1."""

    def work(topic: str) -> Numbers:
        spec = {"kind": "transactions", "bootstrap": peer.bootstrap, "topic": topic, "partitions": 4, "record_size": 100}
        before = processes.cpu_seconds(peer.pid)
        told = run_module("benchmarks.clients", spec | {"warm_s": 1.0, "seconds": seconds})
        used = processes.cpu_seconds(peer.pid) - before
        count = float(str(told["transactions"]))
        return {
            "transactions_s": count / float(str(told["seconds"])),
            "cpu_ms_transaction": used / max(count, 1) * 1000 * seconds / (seconds + 1.0),
            "p50_ms": float(str(told["p50_ms"])),
            "p99_ms": float(str(told["p99_ms"])),
        }

    return on_new_topic(peer, f"bench-txn-{number:03}", 4, work)


def java_produce(peer: Peer, seconds: float, number: int) -> Numbers:
    records = int(seconds * 150_000)
    return on_new_topic(
        peer,
        f"bench-java-{number:03}",
        4,
        lambda topic: dict(clients.java_produce(peer.bootstrap, topic, record_size=1024, records=records)),
    )


def java_consume(peer: Peer, _: float, __: int) -> Numbers:
    return dict(clients.java_consume(peer.bootstrap, ensure_consumed_topic(peer), records=CONSUMED_BYTES // 1024))


def first_ack(peer: Peer, _: float, number: int) -> Numbers:
    """A second broker of the same kind on an empty folder: from the start of its process to its first acknowledged record."""
    other = type(peer)(peer.directory.parent / f"start-{number}")
    try:
        other.prepare()
        begin = time.perf_counter()
        other.launch()
        while not answers(other):
            time.sleep(0.005)
            if time.perf_counter() - begin > FIRST_ACK_WITHIN_S:
                raise RuntimeError(f"{peer.name} acknowledged nothing")
        acknowledged = time.perf_counter() - begin
        time.sleep(3.0)
        return {"first_ack_s": acknowledged, "idle_mb": processes.resident_mb(other.pid)}
    finally:
        other.stop()
        shutil.rmtree(other.directory.parent, ignore_errors=True)


def answers(peer: Peer) -> bool:
    """Tells whether one record to the topic `first` is acknowledged now.  Asking for the topic creates it."""
    batch = frames.record_batch([b"x" * 100], int(time.time() * 1000))
    try:
        with socket.create_connection(("127.0.0.1", peer.port), 1.0) as sock:
            for request in (frames.create_topic_request("first"), frames.produce_request("first", [batch])):
                sock.sendall(request)
                size = bytearray(4)
                read_exactly(sock, memoryview(size))
                reply = bytearray(struct.unpack(">i", size)[0])
                read_exactly(sock, memoryview(reply))
    except (OSError, RuntimeError):
        return False
    return len(reply) + 4 == frames.produce_reply_size("first", 1) and not any(
        reply[frames.produce_error_positions("first", 1)[0] - 4 :][:2]
    )


def commit_offsets(peer: Peer, seconds: float, number: int, *, connections: int) -> Numbers:
    def work(topic: str) -> Numbers:
        before = processes.cpu_seconds(peer.pid)
        spec = {"kind": "commit", "port": peer.port, "group": topic, "topic": topic, "connections": connections}
        told = run_module("benchmarks.groups", {**spec, "warm_s": 1.0, "seconds": seconds})
        used = processes.cpu_seconds(peer.pid) - before
        numbers = {key: float(str(value)) for key, value in told.items()}
        return numbers | {"cpu_us_request": used / max(numbers["requests"] * (1 + 1 / seconds), 1) * 1e6}

    return on_new_topic(peer, f"bench-commit-{connections}-{number:03}", 1, work)


def rebalances(peer: Peer, _: float, number: int, *, protocol: str, members: int) -> Numbers:
    def work(topic: str) -> Numbers:
        spec = {"kind": "rebalance", "port": peer.port, "group": topic, "topic": topic, "partitions": 2 * members, "members": members}
        told = run_module("benchmarks.groups", {**spec, "protocol": protocol, "rounds": 5})
        return {key: float(str(value)) for key, value in told.items()}

    return on_new_topic(peer, f"bench-{protocol}-{members}-{number:03}", 2 * members, work)


def loaded_memory(peer: Peer, _: float, __: int) -> Numbers:
    return {"loaded_mb": processes.resident_mb(peer.pid)}


MB_S, P99 = Metric("mb_s", "MB/s"), Metric("p99_ms", "p99 ms", more_is_better=False)
CPU = Metric("cpu_s_gb", "broker CPU-s/GB", more_is_better=False)
RECORDS = Metric("records_s", "records/s")
CPU_REQUEST = Metric("cpu_us_request", "broker CPU-µs/request", more_is_better=False)

SCENARIOS = (
    Scenario(
        "start",
        "start on an empty folder, until the first acknowledged record",
        first_ack,
        (
            Metric("first_ack_s", "first ack s", more_is_better=False, limit=0.7),
            Metric("idle_mb", "idle RSS MB", more_is_better=False, limit=60.0),
        ),
    ),
    Scenario(
        "produce-1k",
        "raw produce, 64 × 1 KiB × 4 partitions a request, 5 in flight",
        partial(raw_produce, tag="1k"),
        (
            Metric("mb_s", "MB/s", target=1.3),
            P99,
            Metric("cpu_s_gb", "broker CPU-s/GB", more_is_better=False, target=0.7),
        ),
    ),
    Scenario(
        "produce-100",
        "raw produce, 1,000 × 100 B × 4 partitions a request, 5 in flight",
        partial(raw_produce, tag="100", records=1000, record_size=100),
        (MB_S, P99, CPU),
    ),
    Scenario(
        "one-record-1",
        "one 100 B record a request, 5 in flight, one connection",
        partial(raw_produce, tag="one-1", partitions=1, records=1, record_size=100),
        (Metric("requests_s", "requests/s", target=1.5), Metric("p50_ms", "p50 ms", more_is_better=False), P99, CPU_REQUEST),
    ),
    Scenario(
        "one-record-10",
        "one 100 B record a request, 5 in flight, ten connections",
        partial(raw_produce, tag="one-10", partitions=1, records=1, record_size=100, connections=10),
        (Metric("requests_s", "requests/s", target=1.0), Metric("p50_ms", "p50 ms", more_is_better=False), P99, CPU_REQUEST),
    ),
    Scenario(
        "consume-1",
        "raw fetch from the page cache, 4 × 1 MiB a request, one consumer",
        partial(raw_consume, consumers=1),
        (Metric("mb_s", "MB/s", target=1.0), Metric("p50_ms", "p50 ms", more_is_better=False), CPU),
    ),
    Scenario(
        "consume-10",
        "raw fetch from the page cache, 4 × 1 MiB a request, ten consumers",
        partial(raw_consume, consumers=10),
        (Metric("mb_s", "MB/s", target=1.0), P99, CPU),
    ),
    Scenario(
        "latency",
        "1,000 requests/s of 10 × 1 KiB: acknowledged, and read back by a waiting consumer",
        partial(paced, rate=1000.0, records=10),
        (
            Metric("p50_ms", "ack p50 ms", more_is_better=False),
            Metric("p99_ms", "ack p99 ms", more_is_better=False),
            Metric("end_to_end_p50_ms", "end to end p50 ms", more_is_better=False),
            Metric("end_to_end_p99_ms", "end to end p99 ms", more_is_better=False),
        ),
    ),
    Scenario(
        "librdkafka-produce-1k",
        "librdkafka produce, 1 KiB",
        partial(librdkafka, kind="produce", record_size=1024),
        (Metric("mb_s", "MB/s", target=1.3), CPU),
    ),
    Scenario("librdkafka-produce-100", "librdkafka produce, 100 B", partial(librdkafka, kind="produce", record_size=100), (RECORDS, CPU)),
    Scenario(
        "librdkafka-consume-1",
        "librdkafka consume, 1 KiB, one consumer",
        partial(librdkafka, kind="consume", record_size=1024),
        (Metric("mb_s", "MB/s", target=1.0), CPU),
    ),
    Scenario(
        "librdkafka-consume-10",
        "librdkafka consume, 1 KiB, ten consumers",
        partial(librdkafka, kind="consume", record_size=1024, processes_count=10),
        (Metric("mb_s", "MB/s", target=1.0), CPU),
    ),
    Scenario(
        "transactions",
        "librdkafka, ten records of 100 B a transaction",
        small_transactions,
        (
            Metric("transactions_s", "transactions/s", target=1.0),
            Metric("p50_ms", "p50 ms", more_is_better=False),
            P99,
            Metric("cpu_ms_transaction", "broker CPU-ms/transaction", more_is_better=False),
        ),
    ),
    Scenario("java-produce", "Java's ProducerPerformance, 1 KiB", java_produce, (MB_S, P99)),
    Scenario("java-consume", "Java's ConsumerPerformance, 1 KiB", java_consume, (MB_S,)),
    *(
        Scenario(
            f"commit-{connections}",
            f"commits of one offset, 5 in flight, {words}",
            partial(commit_offsets, connections=connections),
            (
                Metric("commits_s", "commits/s", target=1.0),
                Metric("p50_ms", "p50 ms", more_is_better=False),
                P99,
                CPU_REQUEST,
            ),
        )
        for connections, words in ((1, "one connection"), (10, "ten connections"))
    ),
    *(
        Scenario(
            f"rebalance-{protocol}",
            f"a member joins a group of 50, {protocol} protocol, until all have their partitions",
            partial(rebalances, protocol=protocol, members=50),
            (Metric("rebalance_ms", "ms", more_is_better=False, target=1.0), Metric("longest_ms", "longest ms", more_is_better=False)),
        )
        for protocol in ("classic", "consumer")
    ),
    Scenario("memory", "resident after the load above", loaded_memory, (Metric("loaded_mb", "RSS MB", more_is_better=False),)),
)
