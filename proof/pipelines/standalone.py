"""● Runs the order pipeline on a standalone master, and on a worker in namespaces of its own without our files, as root on Linux.

    python -m proof.pipelines.standalone --worker-pyspark /opt/worker

The worker has a network namespace and a mount namespace.  `--worker-pyspark` is a folder that holds the packages pyspark and py4j and
nothing else.  The job is submitted by the line of docs/how-to/run-pipelines.md, and both sides find Python as `python3` on their PATH.
Executors get SIGKILL, each in the middle of a micro-batch: its offsets are in the checkpoint and its commit is not.  Every verdict must be
the oracle's, and be there once.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from moldau.pipelines import retail
from moldau.pipelines.provision import java_environment
from moldau.pipelines.running.pack import pack
from moldau.pipelines.session import this_tree_first
from moldau.pipelines.validation import oracle
from moldau.pipelines.validation.faults import FaultPlan, Sent, with_faults
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.service import OrderService
from proof.pipelines.ending import end_on_sigterm
from proof.pipelines.processes import below, started

HERE, THERE = "10.77.31.1", "10.77.31.2"
NAMESPACE: Final = "moldau-worker"
PORT, BROKER_PORT = 17077, 19192
FIRST, PER_BATCH = 40, 30
FAULTS: Final = FaultPlan(held_back=20, lost_request=0, wrong_total=17, malformed=23)
LOOK_S, LATER_S = 0.02, 0.4
HIDDEN: Final = Path("/", *Path(__file__).parts[1:2])
"""The top folder that holds this tree and its environment: the worker finds it empty."""
RUNNERS_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d ")
SYSTEM_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"


@contextmanager
def another_machine() -> Iterator[None]:
    """A network namespace with one address, which this machine reaches as `THERE`."""
    run("ip", "netns", "add", NAMESPACE)
    try:
        run("ip", "link", "add", "moldau0", "type", "veth", "peer", "name", "moldau1")
        run("ip", "link", "set", "moldau1", "netns", NAMESPACE)
        run("ip", "addr", "add", f"{HERE}/24", "dev", "moldau0")
        run("ip", "link", "set", "moldau0", "up")
        for more in (["addr", "add", f"{THERE}/24", "dev", "moldau1"], ["link", "set", "moldau1", "up"], ["link", "set", "lo", "up"]):
            run("ip", "netns", "exec", NAMESPACE, "ip", *more)
        yield
    finally:
        subprocess.run(["ip", "link", "del", "moldau0"], check=False, capture_output=True)
        run("ip", "netns", "del", NAMESPACE)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def executor_of(worker: int, within_s: float) -> int:
    """The process of the worker's executor.  The master starts another one when one was killed."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for pid in below(worker):
            with suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        time.sleep(0.2)
    raise AssertionError("no executor runs in the worker's namespace")


def count_of(sent: Sequence[Sent]) -> int:
    return sum(one.order is not None for one in sent)


def wait_for(ledger: Ledger, verdicts: int, log: Path, within_s: float) -> float:
    """Returns the seconds that it took.  Errors: AssertionError with the runner's own lines."""
    begun = time.monotonic()
    while len(ledger.verdicts) < verdicts:
        ledger.read(0.2)
        assert time.monotonic() - begun < within_s, "\n".join([f"{len(ledger.verdicts)} of {verdicts} verdicts", *lines_of(log)])
    return time.monotonic() - begun


class Checkpoint:
    """What Spark writes about the micro-batches of the pipeline's one query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def newest(self, name: str) -> int:
        return max((int(path.name) for path in self.folder.glob(f"*/{name}/[0-9]*") if path.name.isdigit()), default=-1)

    def under_way(self, after: int, within_s: float) -> int:
        """Wait for a micro-batch later than `after` that is not committed.  Returns its number."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            newest = self.newest("offsets")
            if newest > max(after, self.newest("commits")):
                return newest
            time.sleep(LOOK_S)
        raise AssertionError(f"no micro-batch after {after} begins")


def kill_in_a_micro_batch(checkpoint: Checkpoint, worker: int, after: int, wait_s: float, within_s: float) -> int:
    """Kill the worker's executor `wait_s` after a micro-batch began.  Returns the micro-batch's number.

    A micro-batch that was quicker than the strike does not count, nor does an executor that had ended.
    """
    while True:
        after = checkpoint.under_way(after, within_s)
        executor = executor_of(worker, within_s)
        time.sleep(wait_s)
        try:
            os.kill(executor, signal.SIGKILL)
        except ProcessLookupError:
            continue
        if checkpoint.newest("commits") < after:
            return after


def lines_of(log: Path) -> list[str]:
    """The lines that the runner itself wrote."""
    return [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if RUNNERS_LINE.match(line)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker-pyspark", type=Path, required=True)
    parser.add_argument("--orders", type=int, default=240, help="orders before and between the kills (%(default)s)")
    parser.add_argument("--kills", type=int, default=3, help="executors that get SIGKILL (%(default)s)")
    parser.add_argument("--within", type=float, default=400.0, metavar="S", help="the longest wait for one step, in seconds (%(default)s)")
    told = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="standalone-"))
    print(folder, flush=True)
    java = java_environment().get("JAVA_HOME") or os.environ.get("JAVA_HOME", "")
    spark_home = Path(pyspark.__file__).parent
    ours = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")},
        "PYTHONPATH": this_tree_first(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', SYSTEM_PATH)}",  # as `activate` does
        "SPARK_LOCAL_IP": HERE,
        "SPARK_HOME": str(spark_home),
    }
    bare = {"PATH": SYSTEM_PATH, "SPARK_LOCAL_IP": THERE, "SPARK_HOME": str(told.worker_pyspark / "pyspark")}
    if java:
        bare["JAVA_HOME"] = ours["JAVA_HOME"] = java
    with ExitStack() as stack:
        stack.enter_context(another_machine())
        up = [
            sys.executable,
            "-m",
            "moldau.tools.cli.main",
            "up",
            "--dir",
            str(folder / "broker"),
            "--host",
            HERE,
            "--port",
            str(BROKER_PORT),
        ]
        stack.enter_context(started(up, folder / "broker.log", ours))
        master = [str(spark_home / "bin/spark-class"), "org.apache.spark.deploy.master.Master", "--host", HERE, "--port", str(PORT)]
        stack.enter_context(started([*master, "--webui-port", "0"], folder / "master.log", ours))
        spark_class = told.worker_pyspark / "pyspark/bin/spark-class"
        inside = f'mount -t tmpfs none {HIDDEN} && test -z "$(ls {HIDDEN})" && exec {spark_class} org.apache.spark.deploy.worker.Worker '
        inside += f"--cores 2 --memory 2g --webui-port 0 --work-dir {folder}/work spark://{HERE}:{PORT}"
        there = ["ip", "netns", "exec", NAMESPACE, "unshare", "--mount", "bash", "-c", inside]
        worker = stack.enter_context(started(there, folder / "worker.log", bare))
        packed = pack(folder / "moldau.tar.gz")
        print(f"packed {len(packed)} distributions, {(folder / 'moldau.tar.gz').stat().st_size / 1e6:.0f} MB", flush=True)
        catalogue = retail.catalogue()
        (folder / "catalogue.json").write_text(json.dumps(catalogue), encoding="ascii")
        (folder / "orders.toml").write_text(
            f'bootstrap_servers = "{HERE}:{BROKER_PORT}"\ncheckpoint = "{folder}/checkpoint"\nrules.catalogue = "{folder}/catalogue.json"\n'
            f"max_records_per_batch = {PER_BATCH}\n",
            encoding="utf-8",
        )
        topics = Topics()
        service = OrderService(f"{HERE}:{BROKER_PORT}", topics, partitions=3)
        script = subprocess.run(
            [sys.executable, "-m", "moldau.tools.cli.main", "pipelines", "script"], env=ours, capture_output=True, text=True, check=True
        ).stdout.strip()
        submit = [
            str(spark_home / "bin/spark-submit"),
            "--master",
            f"spark://{HERE}:{PORT}",
            "--archives",
            f"{folder}/moldau.tar.gz#moldau",
        ]
        log = folder / "job.log"
        stack.enter_context(started([*submit, script, "run", "order-validation", "--config", str(folder / "orders.toml")], log, ours))
        sent = list(with_faults(retail.orders(told.orders), FAULTS))
        checkpoint, after = Checkpoint(folder / "checkpoint"), -1
        with closing(Ledger(f"{HERE}:{BROKER_PORT}", topics)) as ledger:
            service.send(sent[:FIRST])
            took_s = wait_for(ledger, count_of(sent[:FIRST]), log, told.within)
            print(f"the first {len(ledger.verdicts)} orders were judged after {took_s:.0f} s, start included", flush=True)
            service.send(sent[FIRST:])
            for number in range(told.kills):
                after = kill_in_a_micro_batch(checkpoint, worker.pid, after, number * LATER_S, told.within)
                ledger.read(0.1)
                print(f"executor killed in micro-batch {after}, with {len(ledger.verdicts)} of {told.orders} judged", flush=True)
            took_s = wait_for(ledger, told.orders, log, told.within)
            print(f"all were judged {took_s:.0f} s later, in {checkpoint.newest('commits') + 1} micro-batches", flush=True)
            while ledger.read(2.0):
                pass
            expected = oracle.expect(sent, catalogue, *ledger.freed)
            assert oracle.differences(expected.orders, ledger.outcomes()) == []
            assert (ledger.repeats, ledger.contradictions) == (0, [])
            assert ledger.dead_letter_counts() == expected.dead_letters
            states = Counter(str(one.state) for one in ledger.outcomes().values())
            print(f"{dict(states)}, {expected.dead_letters.total()} dead letters", flush=True)
        print(*[line for line in lines_of(log) if "ended (" in line], sep="\n")
    print(f"Spark {pyspark.__version__}: every order has the oracle's verdict, once", flush=True)


if __name__ == "__main__":
    end_on_sigterm()
    main()
