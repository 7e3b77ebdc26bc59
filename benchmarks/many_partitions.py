"""● `python -m benchmarks.many_partitions`: what thousands of partitions cost three of our brokers and three of Apache Kafka.

    create      the time until metadata names a leader and three in-sync replicas of every partition
    idle        processor time of the three brokers while no client is at work
    fail-over   a broker is killed: the time until metadata names another leader for every partition that it led
    start       the same broker starts again: the time until it is in sync in all partitions
    stop        a controlled stop of another broker: the time until its process has ended

The clusters are measured one after the other; each is started for its measurement and ended afterwards.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import BROKERS, PROMISES, Ours, Theirs, cpu_seconds

TOPIC: Final = "many"
LARGEST: Final = 9_999
"""Kafka's controller takes 10,000 records for one request: a topic and its partitions."""
WITHIN_S: Final = 600.0
SETTLE_S: Final = 10.0
IDLE_S: Final = 10.0


def admin_of(peer: Ours | Theirs, *, without: int = 0) -> AdminClient:
    servers = ",".join(node.bootstrap for number, node in peer.nodes.items() if number != without)
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def wait_for(admin: AdminClient, partitions: int, is_so: Callable[[PartitionMetadata], bool]) -> None:
    """Wait until every partition is so.  Errors: RuntimeError after ten minutes."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        found = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions
        if len(found) == partitions and all(map(is_so, found.values())):
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"the partitions did not come to this state within {WITHIN_S:.0f} s")
        time.sleep(0.05)


def cost(peer: Ours | Theirs, partitions: int) -> dict[str, float]:
    """The measured seconds by name; `idle` is a share of one processor."""
    numbers: dict[str, float] = {}
    admin = admin_of(peer)
    begin = time.perf_counter()
    for future in admin.create_topics([NewTopic(TOPIC, partitions, BROKERS)], operation_timeout=300, request_timeout=300).values():
        future.result(WITHIN_S)
    wait_for(admin, partitions, lambda each: len(each.isrs) == BROKERS and each.leader >= 0)
    numbers["create s"] = time.perf_counter() - begin

    time.sleep(SETTLE_S)
    before = cpu_seconds(peer)
    time.sleep(IDLE_S)
    numbers["idle, of a processor"] = (cpu_seconds(peer) - before) / IDLE_S

    first, second = 1, 2
    begin = time.perf_counter()
    peer.nodes[first].kill()
    wait_for(admin_of(peer, without=first), partitions, lambda each: each.leader not in (-1, first))
    numbers["fail-over s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    peer.nodes[first].start()
    wait_for(admin, partitions, lambda each: len(each.isrs) == BROKERS)
    numbers["start, until in sync s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    peer.nodes[second].stop()
    numbers["controlled stop s"] = time.perf_counter() - begin
    return numbers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_partitions", description="What thousands of partitions cost.")
    parser.add_argument("--partitions", type=int, default=LARGEST, help="of one topic, three replicas each")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    results = []
    for kind in (Ours, Theirs):
        with tempfile.TemporaryDirectory(prefix="moldau-bench-", ignore_cleanup_errors=True) as folder:
            peer = kind(Path(folder), PROMISES["os"][0] if kind is Ours else {})
            try:
                peer.start()
                results.append(cost(peer, options.partitions))
            finally:
                for node in peer.nodes.values():
                    node.kill()
        console.print(peer.name, results[-1], highlight=False)
    table = Table("", "moldau", "kafka", "moldau : kafka", title=f"{options.partitions:,} partitions of three replicas")
    ours, theirs = results
    for name, value in ours.items():
        table.add_row(name, f"{value:.3g}", f"{theirs[name]:.3g}", f"{value / theirs[name]:.2f}×" if theirs[name] else "–")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
