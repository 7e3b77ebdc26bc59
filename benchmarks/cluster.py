"""● `python -m benchmarks.cluster`: three of our brokers beside three of Apache Kafka, replication factor 3, with the same promise.

    produce     one idempotent librdkafka producer, acks=all, 1 KiB records, as fast as it goes
    paced       the same at 500 records a second, to see how long an acknowledgement by all replicas takes
    catch-up    one broker is killed, 128 MiB are produced, the broker starts again: the time until it is in sync in all partitions
    fail-over   the leader of one partition is killed: the longest time without an acknowledgement

Both clusters run all the time and are measured in turn; ratios are taken round by round.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, Protocol

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from benchmarks import clients, processes
from benchmarks.report import ratio_of
from benchmarks.scenarios import run_module
from moldau.testing.child import CLUSTER_ID, HOST, NodeProcess
from moldau.testing.cluster import Cluster
from proof.kafka.apache import ApacheKafka, Tool, run_tool

BROKERS: Final = 3
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
PROMISES: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]] = {
    "os": ({"log.flush.policy": "os"}, {}),
    "ack": ({}, {"log.flush.interval.messages": "1"}),
}
"""The promise of our brokers and Kafka's: an acknowledged record is in memory, or on the disk, of all in-sync replicas."""
CATCH_UP_BYTES: Final = 128 << 20
IN_SYNC_WITHIN_S: Final = 120.0
RECORD_SIZE: Final = 1024
PACED_RATE: Final = 500.0
Numbers = dict[str, float]


class Brokers(Protocol):
    """Three brokers under measurement."""

    name: str

    @property
    def nodes(self) -> Mapping[int, NodeProcess]: ...

    @property
    def bootstrap(self) -> str: ...


class Ours:
    name = "moldau"

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        self.cluster = Cluster(brokers=BROKERS, properties={**REPLICATED, **properties}, directory=directory / self.name)
        for node in self.cluster.nodes.values():
            node.has_own_session = True  # type: ignore[misc]  # as a service has

    @property
    def nodes(self) -> Mapping[int, NodeProcess]:
        return self.cluster.nodes

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def start(self) -> None:
        self.cluster.start()


class KafkaNode(ApacheKafka):
    """One of several combined nodes, with static voters."""

    has_own_session = True

    def format_folder(self) -> None:
        run_tool(Tool.STORAGE, "format", "-t", CLUSTER_ID, "-c", str(self.properties_file))


class Theirs:
    name = "kafka"

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        nodes = {number: KafkaNode(directory=directory / f"{self.name}-{number}", heap="1g") for number in range(1, BROKERS + 1)}
        voters = ",".join(f"{number}@{HOST}:{node.controller_port}" for number, node in nodes.items())
        for number, node in nodes.items():
            node.extra = {**REPLICATED, **properties, "node.id": str(number), "controller.quorum.voters": voters}
        self.nodes: Mapping[int, NodeProcess] = nodes

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.prepare()
            node.launch()
        for node in self.nodes.values():
            node.wait_until_ready()


def cpu_seconds(brokers: Brokers) -> float:
    return sum(processes.cpu_seconds(node.pid) for node in brokers.nodes.values() if node.process is not None)


def on_new_topic(brokers: Brokers, topic: str, partitions: int, work: Callable[[str], Numbers]) -> Numbers:
    clients.create_topic(brokers.bootstrap, topic, partitions, BROKERS)
    wait_in_sync(brokers, topic)
    try:
        return work(topic)
    finally:
        clients.delete_topic(brokers.bootstrap, topic)
        time.sleep(1.0)


def wait_in_sync(brokers: Brokers, topic: str) -> None:
    """Wait until all partitions have three in-sync replicas."""
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 3})
    deadline = time.monotonic() + IN_SYNC_WITHIN_S
    while True:
        found = admin.list_topics(topic, timeout=10).topics[topic].partitions
        if found and all(len(each.isrs) == BROKERS and each.leader >= 0 for each in found.values()):
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{brokers.name}: {topic} did not get in sync within {IN_SYNC_WITHIN_S:.0f} s")
        time.sleep(0.01)


def produce(brokers: Brokers, number: int, *, seconds: float, partitions: int, rate: float = 0.0) -> Numbers:
    def work(topic: str) -> Numbers:
        spec = {"kind": "replicated", "bootstrap": brokers.bootstrap, "topic": topic, "partitions": partitions, "rate": rate}
        before = cpu_seconds(brokers)
        told = run_module("benchmarks.clients", {**spec, "record_size": RECORD_SIZE, "warm_s": 2.0, "seconds": seconds})
        used = cpu_seconds(brokers) - before
        numbers = {key: float(str(value)) for key, value in told.items()}
        numbers["mb_s"] = numbers["bytes"] / numbers["seconds"] / 1e6
        numbers["cpu_s_gb"] = used / max(numbers["all_bytes"], 1) * 1e9
        return numbers

    return on_new_topic(brokers, f"produce-{partitions}-{int(rate)}-{number:03}", partitions, work)


def paced(brokers: Brokers, number: int, *, seconds: float, partitions: int) -> Numbers:
    return produce(brokers, number, seconds=seconds, partitions=partitions, rate=PACED_RATE)


def catch_up(brokers: Brokers, number: int, *, seconds: float, partitions: int) -> Numbers:
    del seconds  # a catch-up ends when the broker is in sync, not after a given time

    def work(topic: str) -> Numbers:
        behind = brokers.nodes[BROKERS]
        behind.kill()
        fill(brokers, topic, partitions, CATCH_UP_BYTES)
        begin = time.perf_counter()
        behind.start()
        started = time.perf_counter()
        wait_in_sync(brokers, topic)
        now = time.perf_counter()
        return {"in_sync_s": now - begin, "after_start_s": now - started}

    return on_new_topic(brokers, f"behind-{partitions}-{number:03}", partitions, work)


def fill(brokers: Brokers, topic: str, partitions: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all", "enable.idempotence": True, **clients.PRODUCER})
    value = b"x" * RECORD_SIZE
    for index in range(size // RECORD_SIZE):
        while True:
            try:
                producer.produce(topic, value, partition=index // 100 % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError(f"{brokers.name}: not all of {topic} was acknowledged")


def fail_over(brokers: Brokers, number: int) -> Numbers:
    """The longest gap between acknowledgements after the leader was killed."""

    def work(topic: str) -> Numbers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 3})
        leader = admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
        moments: list[float] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                moments.append(time.perf_counter())

        options = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 20, "on_delivery": delivered}
        producer = Producer({"bootstrap.servers": brokers.bootstrap, "log_level": 0, **options})
        begin = time.perf_counter()
        killed = 0.0
        while (now := time.perf_counter()) < begin + 2 or (not moments or moments[-1] < killed + 0.5 or killed == 0.0) or now < killed + 1:
            if not killed and now > begin + 1.5:
                brokers.nodes[leader].kill()
                killed = time.perf_counter()
            if now > begin + 60:
                break
            producer.produce(topic, b"x")
            producer.poll(0.01)
        producer.flush(30)
        brokers.nodes[leader].start()
        wait_in_sync(brokers, topic)
        gaps = [after - before for before, after in itertools.pairwise(moments) if after >= killed]
        return {"gap_s": max(gaps, default=60.0)}

    return on_new_topic(brokers, f"fail-over-{number:03}", 1, work)


METRICS: Final = {
    "produce": ("mb_s", "p99_ms", "cpu_s_gb"),
    "paced": ("p50_ms", "p99_ms"),
    "catch-up": ("in_sync_s", "after_start_s"),
    "fail-over": ("gap_s",),
}


def measures(options: argparse.Namespace) -> dict[str, Callable[[Brokers, int], Numbers]]:
    loads: dict[str, Callable[..., Numbers]] = {"produce": produce, "paced": paced, "catch-up": catch_up}
    made: dict[str, Callable[[Brokers, int], Numbers]] = {
        f"{name} {partitions}": partial(run, seconds=options.seconds, partitions=partitions)
        for partitions in options.partitions
        for name, run in loads.items()
    }
    made["fail-over"] = fail_over
    return {name: run for name, run in made.items() if not options.only or name.split()[0] in options.only}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description="Three of our brokers beside three of Apache Kafka.")
    parser.add_argument("--promise", choices=list(PROMISES), default="ack", help="acknowledged records are in memory, or on disk")
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 100], help="the numbers of busy partitions to measure with")
    parser.add_argument("--only", nargs="+", choices=list(METRICS), default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time of one load; two seconds of the same go before it")
    return parser.parse_args()


def shown(name: str, results: Mapping[str, Sequence[Numbers]]) -> list[tuple[str, ...]]:
    rows = []
    for metric in METRICS[name.split(maxsplit=1)[0]]:
        series = {peer: [numbers[metric] for numbers in each] for peer, each in results.items()}
        ratio = ratio_of(series["moldau"], series["kafka"])
        rows.append((name, metric, *(f"{median(values):.3g}" if values else "–" for values in series.values()), str(ratio or "–")))
    return rows


def main() -> int:
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory(prefix="moldau-bench-", ignore_cleanup_errors=True) as folder:
        ours, theirs = PROMISES[options.promise]
        peers: list[Ours | Theirs] = [Ours(Path(folder), ours), Theirs(Path(folder), theirs)]
        try:
            for peer in peers:
                peer.start()
            results: dict[str, dict[str, list[Numbers]]] = {name: {peer.name: [] for peer in peers} for name in measures(options)}
            for number in range(options.rounds + 1):  # round 0 warms the JVMs up
                for name, run in measures(options).items():
                    for peer in peers if number % 2 else peers[::-1]:
                        try:
                            numbers = run(peer, number)
                        except Exception as error:  # a failed measurement leaves a gap; the others go on
                            console.print(f"{peer.name}: {name}: {error}", highlight=False)
                            continue
                        if number:
                            results[name][peer.name].append(numbers)
                console.print(f"round {number} of {options.rounds} done" if number else "warmed", highlight=False)
        finally:
            for peer in peers:
                for node in peer.nodes.values():
                    node.kill()
    table = Table("load, partitions", "metric", "moldau", "kafka", "moldau : kafka", title=f"promise: {options.promise}; medians")
    for name, by_peer in results.items():
        for row in shown(name, by_peer):
            table.add_row(*row)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
