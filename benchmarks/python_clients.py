"""● `python -m benchmarks.python_clients`: Python's Kafka clients side by side, on our broker and on Apache Kafka, in rounds.

Each load runs in a process of its own (`python_loads`), the clients in turn, then the brokers in turn.  A ratio compares two clients of
the same round, so that the machine's mood strikes both.  No round begins that would end after `--minutes`.  The results are stored
after each round; `benchmarks.page` makes docs/reference/performance.md of them.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.clients import create_topic
from benchmarks.peers import PEERS, Peer
from benchmarks.published import PUBLISHED, box, publish
from benchmarks.python_loads import LOADS
from benchmarks.scenarios import run_module

OURS: Final = "moldau"
CLIENTS: Final = (OURS, "confluent-kafka", "aiokafka", "kafka-python")
BROKERS: Final = ("moldau-os", "kafka")
FEWER: Final = {"kafka-python": 4}
"""Clients that get a part of the records only, because they would take most of the time.  A rate does not depend on it."""
PARTITIONS: Final = 4
FILLER: Final = "confluent-kafka"
RATE: Final = 1000.0


class Case(NamedTuple):
    load: str
    size_name: str
    record_size: int
    records: int
    metrics: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.load}, {self.size_name}"


SPEED: Final = ("records_s", "cpu_us")
CASES: Final = (
    Case("produce-lists", "100 B", 100, 500_000, SPEED),
    Case("produce-lists", "1 KiB", 1024, 200_000, SPEED),
    Case("produce-each", "100 B", 100, 600_000, SPEED),
    Case("consume-batches", "100 B", 100, 1_000_000, SPEED),
    Case("consume-batches", "1 KiB", 1024, 300_000, SPEED),
    Case("consume-batches", "20 to 180 B", 0, 1_000_000, SPEED),
    Case("consume-each", "100 B", 100, 200_000, SPEED),
    Case("latency", "100 B", 100, 3_000, ("p50_ms", "p99_ms")),
)
Results = dict[str, dict[str, list[dict[str, float]]]]
"""Case → client → one dictionary of numbers a round; the dictionary is empty where the load failed."""


def run_round(peer: Peer, number: int, cases: Sequence[Case], results: Results) -> None:
    """One round of all loads on one broker."""
    for case in cases:
        clients = list(LOADS[case.load])
        for client in clients[number % len(clients) :] + clients[: number % len(clients)]:
            topic = f"read-{case.record_size}"
            if not case.load.startswith("consume"):
                topic = f"{case.load}-{case.record_size}-{client}-{number}"
                create_topic(peer.bootstrap, topic, PARTITIONS)
            try:
                numbers = run_module("benchmarks.python_loads", spec(peer, case, client, topic))
            except Exception as error:  # one client's failure leaves a gap, and the others go on
                print(f"{peer.name}: {case.name}, {client}: {error}", flush=True)
                numbers = {}
            results[case.name][client].append(numbers)  # type: ignore[arg-type]  # a load prints numbers
            print(f"round {number + 1}, {peer.name}: {case.name}, {client}: {shown(numbers)}", flush=True)


def fill(peer: Peer, cases: Sequence[Case]) -> None:
    """librdkafka fills the topics of the consuming loads, once."""
    most: dict[int, int] = {}
    for case in cases:
        if case.load.startswith("consume"):
            most[case.record_size] = max(most.get(case.record_size, 0), case.records)
    for size, records in most.items():
        topic = f"read-{size}"
        create_topic(peer.bootstrap, topic, PARTITIONS)
        run_module("benchmarks.python_loads", spec(peer, Case("produce-lists", "", size, records, ()), FILLER, topic))


def shown(numbers: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value:,.6g}" for name, value in numbers.items() if isinstance(value, int | float)) or "failed"


def spec(peer: Peer, case: Case, client: str, topic: str) -> dict[str, Any]:
    return {
        "client": client,
        "load": case.load,
        "bootstrap": peer.bootstrap,
        "topic": topic,
        "partitions": PARTITIONS,
        "records": case.records if case.load == "latency" else case.records // FEWER.get(client, 1),
        "record_size": case.record_size,
        "rate": RATE,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python_clients", description="Python's Kafka clients side by side.")
    parser.add_argument("--brokers", nargs="+", choices=list(PEERS), default=list(BROKERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=12.0, help="no round begins that would end later (%(default)s)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="only loads whose name starts with a word")
    parser.add_argument("--out", type=Path, default=PUBLISHED / "clients.json", help="where the results go (%(default)s)")
    options = parser.parse_args()
    cases = [case for case in CASES if any(case.name.startswith(word) for word in options.only)]
    found: dict[str, Results] = {
        name: {case.name: {client: [] for client in LOADS[case.load]} for case in cases} for name in options.brokers
    }
    began, about, longest_s = time.monotonic(), box(), 0.0
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder, ExitStack() as started:
        peers = [started.enter_context(PEERS[name](Path(folder))) for name in options.brokers]
        for peer in peers:
            fill(peer, cases)
        for number in range(options.rounds):
            since = time.monotonic()
            if number and since + longest_s > began + options.minutes * 60:
                print(f"{number} rounds are done: another one would end after {options.minutes:g} minutes", flush=True)
                break
            for peer in peers if number % 2 == 0 else peers[::-1]:
                run_round(peer, number, cases, found[peer.name])
            longest_s = max(longest_s, time.monotonic() - since)
            publish(options.out, {"box": about, "rounds": number + 1, "brokers": found})
    print(f"Written: {options.out}; `python -m benchmarks.page` makes the page", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
