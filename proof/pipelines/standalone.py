"""● Runs the order pipeline on a standalone master, and on a worker in namespaces of its own without our files, as root on Linux.

    python -m proof.pipelines.standalone --worker-pyspark /opt/worker

The worker has a network namespace and a mount namespace.  `--worker-pyspark` is a folder that holds the packages pyspark and py4j and
nothing else.  The job is submitted by the line of docs/how-to/run-pipelines.md, and both sides find Python as `python3` on their PATH.  In
the middle of a flood its executors get SIGKILL, one after the other.  Every order must be judged once.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from moldau.pipelines.provision import java_environment
from moldau.pipelines.running.pack import pack
from moldau.pipelines.session import this_tree_first
from moldau.pipelines.validation.faults import Sent
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Line, Order, Topics
from moldau.pipelines.validation.service import OrderService

HERE, THERE = "10.77.31.1", "10.77.31.2"
NAMESPACE: Final = "moldau-worker"
PORT, BROKER_PORT = 17077, 19192
FIRST, PER_BATCH = 100, 200
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


@contextmanager
def started(command: Sequence[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        for each in (*below(process.pid), process.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()


def below(pid: int) -> list[int]:
    """The descendants of a process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [each for child in children for each in (*below(int(child)), int(child))]


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


def orders(first: int, count: int) -> Iterator[Sent]:
    for number in range(first, first + count):
        yield Sent(Order(f"o{number}", f"c{number % 40}", f"s{number % 7}", 1_000_000 + number, (Line(1, 1, 1),), 1))


def wait_for(ledger: Ledger, verdicts: int, log: Path, within_s: float) -> float:
    """Returns the seconds that it took.  Errors: AssertionError with the runner's own lines."""
    begun = time.monotonic()
    while len(ledger.verdicts) < verdicts:
        ledger.read(0.2)
        assert time.monotonic() - begun < within_s, "\n".join([f"{len(ledger.verdicts)} of {verdicts} verdicts", *lines_of(log)])
    return time.monotonic() - begun


def lines_of(log: Path) -> list[str]:
    """The lines that the runner itself wrote."""
    return [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if RUNNERS_LINE.match(line)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker-pyspark", type=Path, required=True)
    parser.add_argument("--flood", type=int, default=3_000, help="orders that are sent at once, between the kills (%(default)s)")
    parser.add_argument("--kills", type=int, default=3, help="executors that get SIGKILL (%(default)s)")
    parser.add_argument("--within", type=float, default=900.0, metavar="S", help="the longest wait for verdicts, in seconds (%(default)s)")
    told = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # what was started is ended and removed
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
        (folder / "catalogue.json").write_text(json.dumps({"1": 10**9}), encoding="ascii")
        (folder / "orders.toml").write_text(
            f'bootstrap_servers = "{HERE}:{BROKER_PORT}"\ncheckpoint = "{folder}/checkpoint"\nrules.catalogue = "{folder}/catalogue.json"\n'
            f"rules.most_cents_a_day = 1000000\nmax_records_per_batch = {PER_BATCH}\n",
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
        with closing(Ledger(f"{HERE}:{BROKER_PORT}", topics)) as ledger:
            service.send(orders(0, FIRST))
            took_s = wait_for(ledger, FIRST, log, told.within)
            print(f"the first {FIRST} orders were judged after {took_s:.0f} s, start included", flush=True)
            service.send(orders(FIRST, told.flood))
            for number in range(told.kills):
                wait_for(ledger, FIRST + (number + 1) * told.flood // (told.kills + 2), log, told.within)
                os.kill(executor_of(worker.pid, told.within), signal.SIGKILL)
                print(f"executor killed with {len(ledger.verdicts)} of {FIRST + told.flood} judged", flush=True)
            took_s = wait_for(ledger, FIRST + told.flood, log, told.within)
            print(f"all were judged {took_s:.0f} s later", flush=True)
            while ledger.read(2.0):
                pass
            states = {str(one.outcome.state) for one in ledger.verdicts.values()}
            assert (states, ledger.repeats, ledger.contradictions) == ({"VALIDATED"}, 0, []), (states, ledger.repeats)
        print(*[line for line in lines_of(log) if "ended (" in line], sep="\n")
    print(f"Spark {pyspark.__version__}: every order was judged once", flush=True)


if __name__ == "__main__":
    main()
