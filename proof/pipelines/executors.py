"""● Kills executors of a standalone master while their tasks write.  The committed output must be the input, once.

    python -m proof.pipelines.executors ours --strikes 12 --seed 1            # or apache

Master, worker and broker run on this machine.  A driver (`job`) copies a topic, in tasks that write by themselves (`alone`) or hand their
records to the driver (`copy`).  At a step of a task's write, SIGKILL ends the executor (its JVM) or the Python worker.  A Python worker
outlives its executor's JVM for a moment and goes on writing, as on a machine that was cut off.

Of tasks that write by themselves, some batches must have been in the log and others not: a reader of uncommitted records sees more
records than the input has.
"""

import argparse
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pyspark

from moldau.pipelines.provision import java_environment
from moldau.pipelines.topics import create_topics
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from moldau.tools.cli.up.ports import free_ports
from proof.kafka.apache import ApacheKafka
from proof.pipelines.ending import end_on_sigterm
from proof.pipelines.kills import PARTITIONS, ROOT, Trial, committed_values, fill
from proof.pipelines.processes import started

HOST: Final = "127.0.0.1"
CORES: Final = 3
VICTIMS: Final = ("executor", "worker")
STEPS: Final = {"alone": ("written:before", "written:after", "task:after"), "copy": ("task:before", "batch:after", "task:after")}
"""Of each kind: the steps of a task's write.  `written` is the answer to one request of several."""
PER_BATCH: Final = 1_500
BATCHES_AT_THE_START, BATCHES_A_STRIKE = 6, 6
TIMEOUT_MS: Final = "600000"
MOST_FAILURES: Final = "500"
STRUCK_WITHIN_S: Final = 300.0
ENDS_WITHIN_S: Final = 240.0


@contextmanager
def spark_of_one_worker(folder: Path) -> Iterator[str]:
    """A master and a worker, whose Python processes strike as `faulty` does.  Yields the master's URL."""
    (port,) = free_ports(1)
    environment = {**os.environ, **java_environment(), "SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "proof/pipelines/faulty"), str(ROOT / "src"), str(ROOT)])
    environment["MOLDAU_FAULTS"] = str(folder)
    spark_class = str(Path(pyspark.__file__).parent / "bin/spark-class")
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"]
    worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", str(CORES), "--memory", "2g", "--webui-port", "0"]
    url = f"spark://{HOST}:{port}"
    with (
        started(master, folder / "master.log", environment),
        started([*worker, "--work-dir", str(folder / "work"), url], folder / "worker.log", environment),
    ):
        yield url


class Executors(Trial):
    """One topic that is copied on a standalone master."""

    def __init__(self, *arguments: Any, master: str, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.master = master

    def run(self, strikes: int) -> None:
        create_topics(self.broker.bootstrap, {self.source: {}, self.target: {}}, partitions=PARTITIONS)
        fill(self.broker.bootstrap, self.source, self.records)
        self.start_driver(TIMEOUT_MS, MOST_FAILURES, self.master)
        choices = [(step, victim) for step in STEPS[self.kind] for victim in VICTIMS]
        self.draw.shuffle(choices)
        for _, (step, victim) in zip(range(strikes), cycle(choices), strict=False):
            self.strike_at(step, victim)
            self.wait(partial(self.has_committed_behind, self.newest()), ENDS_WITHIN_S)
            print(f"{victim} killed at {step}; {self.newest()} is the newest micro-batch", flush=True)
        self.wait(lambda: False, ENDS_WITHIN_S)
        assert self.driver is None and self.returncode == 0, f"the driver does not come to the end: {self.said()}"
        failed = (self.folder / "driver.log").read_text(encoding="utf-8", errors="replace").count("failed:")
        assert self.kind != "alone" or failed >= strikes, f"{strikes - failed} micro-batches went on with what a killed task had begun"
        self.judge()
        uncommitted = len(committed_values(self.broker.bootstrap, self.target, "read_uncommitted"))
        print(f"{self.records} records, {uncommitted - self.records} more were written and not committed", flush=True)
        assert self.kind != "alone" or uncommitted > self.records, "no task died in the middle of its write"

    def newest(self, name: str = "offsets") -> int:
        return max((int(path.name) for path in (self.folder / "checkpoint" / name).glob("*") if path.name.isdigit()), default=-1)

    def has_committed_behind(self, micro_batch: int) -> bool:
        return self.newest("commits") > micro_batch

    def said(self) -> str:
        return (self.folder / "driver.log").read_text(encoding="utf-8", errors="replace")[-1_000:]

    def strike_at(self, step: str, victim: str) -> None:
        struck = self.folder / "struck"
        struck.unlink(missing_ok=True)
        (self.folder / "pending").write_text(f"{step} {victim}", encoding="ascii")
        (self.folder / "pending").rename(self.folder / "fault")
        self.wait(struck.exists, STRUCK_WITHIN_S)
        assert struck.exists(), f"no task came to {step}: {self.said()}"
        self.struck[f"{step} {victim}"] += 1


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["ours", "apache"])
    parser.add_argument("--strikes", type=int, default=6)
    parser.add_argument("--kind", choices=list(STEPS), default="alone", help="who writes (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="executors-"))
    print(folder, flush=True)
    broker: NodeProcess = BrokerProcess() if told.broker == "ours" else ApacheKafka()
    records = PER_BATCH * (BATCHES_AT_THE_START + BATCHES_A_STRIKE * told.strikes)
    with broker, spark_of_one_worker(folder) as master:
        draw = random.Random(told.seed)
        trial = Executors(broker, folder, draw, kind=told.kind, records=records, per_batch=PER_BATCH, master=master)
        try:
            trial.run(told.strikes)
        finally:
            if trial.driver is not None:
                os.killpg(trial.driver.pid, signal.SIGKILL)
            print(f"{sum(trial.struck.values())} kills", dict(sorted(trial.struck.items())), flush=True)
    print("the output is the input, once", flush=True)


if __name__ == "__main__":
    end_on_sigterm()
    main()
