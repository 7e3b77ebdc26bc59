"""● Faults other than kills: two drivers, a driver frozen beyond its time-out, a broker restarted, a checkpoint older than its output.

    python -m proof.pipelines.rivals ours          python -m proof.pipelines.rivals apache --only frozen older
    python -m proof.pipelines.rivals ours --kind bare

Each trial copies a topic as `kills` does.  The committed output must be the input, once.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.topics import create_topics
from moldau.sync import Admin
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.pipelines.ending import end_on_sigterm
from proof.pipelines.kills import BETWEEN_LOOKS_S, PARTITIONS, Trial, fill

RECORDS: Final = 600
MORE_FOR_TWO: Final = 1_200
MORE_FOR_FROZEN: Final = 600
PER_BATCH: Final = 60
TIMEOUT_MS: Final = 6_000
FROZEN_AT: Final = ("written:after", "add_offset:after", "end:before")
UNENDED: Final = ("Ongoing", "PrepareAbort")
ENDS_WITHIN_S: Final = 240.0
PROPERTIES: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


class Rivals(Trial):
    """One topic, and one driver or two."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.first: subprocess.Popen[bytes] | None = None

    def stand_aside(self) -> None:
        """Make room for a second driver beside the present one."""
        self.first, self.driver = self.driver, None

    def code_of_first(self) -> int:
        assert self.first is not None
        return self.first.wait(ENDS_WITHIN_S)

    def end(self) -> None:
        """Kill whatever still runs."""
        for one in (self.first, self.driver):
            if one is not None and one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()

    def failures(self) -> int:
        return self.said().count("failed:")

    def committed(self) -> int:
        """The number of micro-batches that the checkpoint tells of."""
        return len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))

    def prepared(self) -> "Rivals":
        create_topics(self.broker.bootstrap, {self.source: {}, self.target: {}}, partitions=PARTITIONS)
        fill(self.broker.bootstrap, self.source, self.records)
        self.note("broker.pid", self.broker.pid)
        return self

    def to_the_end(self, *more: str) -> None:
        self.start_driver(*more)
        self.ended()

    def ended(self, expected: int = 0) -> None:
        self.wait(lambda: False, ENDS_WITHIN_S)
        assert self.driver is None, f"the driver does not end: {self.said()[-500:]}"
        assert self.returncode == expected, self.said()[-1000:]

    def freeze_at(self, step: str) -> None:
        """Wait until the driver has come to the step and stands still there."""
        (self.folder / "pending").write_text(f"{step} freeze", encoding="ascii")
        (self.folder / "pending").rename(self.folder / "fault")
        self.wait((self.folder / "frozen.pid").exists, ENDS_WITHIN_S)
        assert (self.folder / "frozen.pid").exists(), f"the driver never came to {step}: {self.said()[-500:]}"

    def outlive_transaction(self) -> None:
        """Wait until the frozen driver's transaction is aborted by its time-out."""
        with Admin(self.broker.bootstrap) as admin:
            assert admin.transactions.list_transactions(states=["Ongoing"]), "the driver stands still outside a transaction"
            deadline = time.monotonic() + ENDS_WITHIN_S
            while unended := admin.transactions.list_transactions(states=UNENDED):
                assert time.monotonic() < deadline, f"it is not aborted: {unended}"
                time.sleep(BETWEEN_LOOKS_S)

    def thaw(self, driver: subprocess.Popen[bytes] | None) -> None:
        assert driver is not None
        os.kill(int((self.folder / "frozen.pid").read_text(encoding="ascii")), signal.SIGCONT)
        os.killpg(driver.pid, signal.SIGCONT)
        (self.folder / "frozen.pid").unlink()


def newest_commit_removed(trial: Rivals) -> str:
    trial.to_the_end()
    commits = sorted((trial.folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    trial.more(200)
    trial.to_the_end()
    return "the micro-batch that was there was not written again"


def older_checkpoint(trial: Rivals) -> str:
    trial.to_the_end()
    shutil.copytree(trial.folder / "checkpoint", trial.folder / "older")
    trial.more(200)
    trial.to_the_end()
    shutil.rmtree(trial.folder / "checkpoint")
    (trial.folder / "older").rename(trial.folder / "checkpoint")
    trial.more(0)
    trial.start_driver(str(TIMEOUT_MS), "2")
    trial.ended(expected=1)
    assert "the checkpoint is older than the output" in trial.said(), trial.said()[-1000:]
    return "refused, and nothing written"


def two_drivers(trial: Rivals) -> str:
    """The first driver stands still until the second one is at work, so that they meet with most of the input before them."""
    trial.more(MORE_FOR_TWO)
    trial.start_driver()
    trial.freeze_at("commit:before")
    trial.stand_aside()
    trial.start_driver()
    trial.wait(lambda: trial.committed() > 0, ENDS_WITHIN_S)
    trial.thaw(trial.first)
    trial.ended()
    code = trial.code_of_first()
    assert trial.failures(), "the drivers never met"
    return f"the second came to the end, the first ended with {code}; {trial.failures()} queries failed on the way"


def frozen(trial: Rivals) -> str:
    """Freeze a driver beyond its transaction's time-out, at three steps behind the first record.  Then the driver goes on by itself."""
    trial.more(MORE_FOR_FROZEN)
    trial.start_driver(str(TIMEOUT_MS))
    for number, step in enumerate(FROZEN_AT, 1):
        trial.freeze_at(step)
        trial.outlive_transaction()
        trial.thaw(trial.driver)
        trial.wait(lambda number=number: trial.failures() >= number, ENDS_WITHIN_S)
        assert trial.failures() >= number, f"what was aborted while the driver stood still at {step} failed no query"
    trial.ended()
    return f"{len(FROZEN_AT)} times; {trial.failures()} queries failed on the way"


def frozen_and_replaced(trial: Rivals) -> str:
    """Freeze a driver.  Another driver takes its place and comes to the end, then the frozen driver goes on."""
    trial.start_driver()
    trial.freeze_at("add_offset:after")
    trial.stand_aside()
    trial.to_the_end()
    trial.thaw(trial.first)
    code = trial.code_of_first()
    assert trial.failures(), "the thawed driver committed what the other one had taken over"
    return f"the thawed one ended with {code}; {trial.failures()} queries failed on the way"


def broker_restarted(trial: Rivals) -> str:
    """Stop the broker in order and start it again, five times while micro-batches go on, so that coordinators load again."""
    trial.start_driver()
    count = 0
    for number in range(1, 6):
        trial.wait((trial.folder / "checkpoint" / "commits" / str(number)).exists, ENDS_WITHIN_S)
        if trial.driver is None:
            break
        trial.broker.stop()
        trial.broker.start()
        trial.note("broker.pid", trial.broker.pid)
        count += 1
    if trial.driver is not None:
        trial.ended()
    return f"{count} times; {trial.failures()} queries failed on the way"


TRIALS: Final[dict[str, Callable[[Rivals], str]]] = {
    "commit": newest_commit_removed,
    "older": older_checkpoint,
    "two": two_drivers,
    "frozen": frozen,
    "replaced": frozen_and_replaced,
    "restarted": broker_restarted,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["ours", "apache"])
    parser.add_argument("--kind", choices=["copy", "bare"], default="copy", help="bare: without Spark (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(TRIALS), default=list(TRIALS))
    told = parser.parse_args(arguments)
    broker: NodeProcess = BrokerProcess(properties=PROPERTIES) if told.broker == "ours" else ApacheKafka(properties=PROPERTIES)
    with broker:
        for name in told.only:
            folder = Path(tempfile.mkdtemp(prefix=f"rivals-{name}-"))
            trial = Rivals(broker, folder, random.Random(1), kind=told.kind, records=RECORDS, per_batch=PER_BATCH)
            trial.source, trial.target = f"in-{name}", f"out-{name}"
            try:
                found = TRIALS[name](trial.prepared())
                trial.judge()
                print(f"{name}: {found}; the output is the input, once", flush=True)
                shutil.rmtree(folder)
            finally:
                trial.end()


if __name__ == "__main__":
    end_on_sigterm()
    main()
