"""● Kills everything at every step of the sink, and at random times.  The committed output must be the input, once.

    python -m proof.pipelines.kills ours --kills 100 --seed 1
    python -m proof.pipelines.kills apache --kills 100 --seed 2 --kind sum
    python -m proof.pipelines.kills ours --kills 500 --seed 3 --kind bare

A driver (`job`; `bare` without Spark) copies a topic in small micro-batches.  Faults come one after the other.  At a step of the
sink, or after a time, the driver, a Python worker or the broker gets SIGKILL, and is started again on the files that it left.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.pipelines.topics import create_topics
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.pipelines.bare import PASSED_ON
from proof.pipelines.ending import end_on_sigterm

PARTITIONS = 3
STEPS = [
    f"{step}:{side}"
    for step in ("begin", "marker", "task", "batch", "written", "handed", "commit", "add_offset", "end")
    for side in ("before", "after")
]
EMPTY_STEPS = ["pass_on:before", "pass_on:after"]
"""Steps of micro-batches that write nothing, which only `bare` has."""
VICTIMS = ("driver", *["worker"] * 6, *["broker"] * 3)
BETWEEN_LOOKS_S = 0.05
STARTS_WITHIN_S, ONE_FAULT_WITHIN_S = 300.0, 60.0
DYING_S = 1.0
ROOT = Path(__file__).parents[2]
SPARK = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def fill(bootstrap: str, topic: str, count: int, *, first: int = 0) -> None:
    """Writes the numbers from `first` on."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(topic, key=str(number), value=str(number))
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def committed_values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[tuple[int, int, str, str]]:
    """(partition, offset, key, value) of all records that a consumer of this isolation sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[tuple[int, int, str, str]] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, f"partitions {set(range(PARTITIONS)) - ended} do not end: a transaction hangs"
        if message.error():
            ended.add(message.partition())
            continue
        key, value = message.key() or b"", message.value() or b""
        found.append((message.partition() or 0, message.offset() or 0, bytes(key).decode(), bytes(value).decode()))
    consumer.close()
    return found


class Trial:
    """One topic copied under faults."""

    def __init__(self, broker: NodeProcess, folder: Path, draw: random.Random, *, kind: str, records: int, per_batch: int) -> None:
        self.broker, self.folder, self.draw = broker, folder, draw
        self.kind, self.records, self.per_batch = kind, records, per_batch
        self.struck: Counter[str] = Counter()
        self.driver: subprocess.Popen[bytes] | None = None
        self.source, self.target = f"in-{kind}", f"out-{kind}"
        self.steps = [*STEPS, *EMPTY_STEPS] if kind == "bare" else STEPS

    def run(self, kills: int) -> None:
        create_topics(self.broker.bootstrap, {self.source: {}, self.target: {}}, partitions=PARTITIONS)
        fill(self.broker.bootstrap, self.source, self.records)
        self.note("broker.pid", self.broker.pid)
        while True:
            self.start_driver()
            while self.driver is not None:
                if sum(self.struck.values()) < kills:
                    self.fault()
                else:
                    self.wait(lambda: False, 3_600)
                if self.driver is None:
                    break
            assert self.broker.process is not None
            with suppress(subprocess.TimeoutExpired):  # the driver may have ended just after a strike at the broker
                self.broker.process.wait(DYING_S)
            self.revive_broker()
            if self.returncode == 0 and sum(self.struck.values()) >= kills:
                break
            if self.returncode == 0:
                self.more(self.records)
        self.judge()

    def more(self, count: int) -> None:
        """Write more records into the source."""
        fill(self.broker.bootstrap, self.source, count, first=self.records)
        self.records += count

    def note(self, name: str, pid: int) -> None:
        (self.folder / name).write_text(str(pid), encoding="ascii")

    def start_driver(self, *more: str) -> None:
        """Start the driver.  `more` are further arguments of `job`."""
        checkpoint = str(self.folder / "checkpoint")
        arguments = (self.kind, self.broker.bootstrap, self.source, self.target, checkpoint, str(self.per_batch), *more)
        path = os.pathsep.join([str(ROOT / "proof/pipelines/faulty"), str(ROOT / "src"), str(ROOT)])
        with (self.folder / "driver.log").open("ab") as log:
            self.driver = subprocess.Popen(
                [sys.executable, "-m", f"proof.pipelines.{'bare' if self.kind == 'bare' else 'job'}", *arguments],
                env={**os.environ, **SPARK, "PYTHONPATH": path, "MOLDAU_FAULTS": str(self.folder)},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.note("driver.pid", self.driver.pid)

    def fault(self) -> None:
        victim = self.draw.choice(VICTIMS)
        struck = self.folder / "struck"
        struck.unlink(missing_ok=True)
        known = self.noted()
        if self.draw.random() < 0.25 and victim != "worker":
            later_s = self.draw.uniform(0, 1 if self.kind == "bare" else 3)
            self.wait(lambda: self.noted() > known, STARTS_WITHIN_S)  # the start of Spark takes longer than several micro-batches
            self.wait(lambda: False, later_s)
            if self.driver is not None:
                self.strike(victim)
                self.struck[f"any time {victim}"] += 1
        else:
            step = self.draw.choice(self.steps)
            pending = self.folder / "pending"
            pending.write_text(f"{step} {victim}", encoding="ascii")
            pending.rename(self.folder / "fault")
            self.wait(lambda: struck.exists() or self.noted() > known, STARTS_WITHIN_S)
            self.wait(struck.exists, ONE_FAULT_WITHIN_S)
            if struck.exists():
                self.struck[f"{step} {victim}"] += 1
            (self.folder / "fault").unlink(missing_ok=True)
        self.wait(lambda: True, 1)

    def noted(self) -> int:
        """The number of beginnings and ends of micro-batches that the checkpoint tells of."""
        checkpoint = self.folder / "checkpoint"
        return sum(path.name.isdigit() for name in ("offsets", "commits") for path in (checkpoint / name).glob("*"))

    def strike(self, victim: str) -> None:
        assert self.driver is not None
        if victim == "driver":
            os.killpg(self.driver.pid, signal.SIGKILL)
        else:
            os.kill(self.broker.pid, signal.SIGKILL)

    def wait(self, is_done: Any, within_s: float) -> None:
        """Wait until it is done or the driver has ended, `within_s` at most.  A broker that was killed is started again."""
        deadline = time.monotonic() + within_s
        while True:
            self.revive_broker()
            if self.driver is not None and self.driver.poll() is not None:
                self.returncode = self.driver.returncode
                self.driver = None
            if self.driver is None or is_done() or time.monotonic() > deadline:
                return
            time.sleep(BETWEEN_LOOKS_S)

    def revive_broker(self) -> None:
        """Start the broker again if it is dead."""
        assert self.broker.process is not None
        if self.broker.process.poll() is not None:
            self.broker.kill()
            self.broker.start()
            self.note("broker.pid", self.broker.pid)

    def said(self) -> str:
        """What all drivers have said."""
        return (self.folder / "driver.log").read_text(encoding="utf-8", errors="replace")

    def judge(self) -> None:
        found = committed_values(self.broker.bootstrap, self.target)
        if self.kind in ("copy", "alone", "bare"):
            values = Counter(value for _, _, _, value in found)
            lost = [number for number in range(self.records) if str(number) not in values]
            repeated = {value: count for value, count in values.items() if count > 1}
            if self.kind == "bare":
                assert PASSED_ON in self.said(), "no micro-batch took the epoch of an empty one"
            assert not lost and not repeated, f"lost {len(lost)}: {lost[:10]}, repeated {len(repeated)}: {list(repeated.items())[:10]}"
        elif self.kind == "streams":
            for digit in map(str, range(10)):
                counts = [int(value) for _, _, key, value in sorted(found) if key == digit]
                wanted = list(range(1, len(range(int(digit), self.records, 10)) + 1))
                assert counts == wanted, f"the counts of {digit} are {counts}"
        else:
            last = {key: int(value) for _, _, key, value in sorted(found)}
            expected = {str(tenth): sum(range(tenth, self.records, 10)) for tenth in range(10)}
            assert last == expected, f"{last} are the sums of the output, {expected} of the input"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("broker", choices=["ours", "apache"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=["copy", "sum", "streams", "bare"], default="copy", help="bare: without Spark (%(default)s)")
    parser.add_argument(
        "--records", type=int, default=3_000, help="for the first run; so many more each time when kills are left (%(default)s)"
    )
    parser.add_argument("--per-batch", type=int, default=60)
    parser.add_argument("--transaction-version", type=int, default=2)
    told = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    print(folder, flush=True)
    features = () if told.transaction_version == 2 else (f"transaction.version={told.transaction_version}",)
    broker: NodeProcess = BrokerProcess() if told.broker == "ours" else ApacheKafka(features=features)
    with broker:
        trial = Trial(broker, folder, random.Random(told.seed), kind=told.kind, records=told.records, per_batch=told.per_batch)
        try:
            trial.run(told.kills)
        finally:
            if trial.driver is not None:
                os.killpg(trial.driver.pid, signal.SIGKILL)
            print(f"{sum(trial.struck.values())} kills", dict(sorted(trial.struck.items())), flush=True)
    if told.kind == "bare":
        print(f"{trial.said().count(PASSED_ON)} micro-batches {PASSED_ON}", flush=True)
    print("the output is the input, once", flush=True)


if __name__ == "__main__":
    end_on_sigterm()
    main()
