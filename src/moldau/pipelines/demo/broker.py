"""● Our own broker as a child process, for as long as a run needs it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.errors import KafkaError
from moldau.pipelines.session import this_tree_first
from pyspark_moldau.options import OptionError, read_options
from pyspark_moldau.session import cluster_of

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
TIED: Final = "moldau.tools.cli.tied"
"""The command line as a child that ends with this process, even after SIGKILL."""

LOOK_MS = 4_000


class BrokerError(RuntimeError):
    """The broker did not start, or none answers; the message says why."""


def see_that_it_answers(bootstrap_servers: str) -> None:
    """Return when a broker has answered, within ten seconds.  Errors: BrokerError."""
    given = {"kafka.bootstrap.servers": bootstrap_servers}
    patience = {"kafka.socket.connection.setup.timeout.ms": str(LOOK_MS), "kafka.request.timeout.ms": str(LOOK_MS)}
    try:
        with cluster_of(read_options({**given, **patience}), "demo") as cluster:
            cluster.refresh([])
    except (OSError, KafkaError, OptionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BrokerError(f"no Kafka answers at {bootstrap_servers}: {reason}") from error


@contextmanager
def own_broker(directory: Path) -> Iterator[str]:
    """The address of a broker on `directory`, stopped when the block is left."""
    port = free_port()
    log_path = directory / "broker.log"
    command = [sys.executable, "-m", TIED, "up", "--dir", str(directory / "broker"), "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": this_tree_first()}
    with log_path.open("wb") as log:
        # In a session of its own, so that Ctrl-C stops the run first and the broker after it.
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )
        try:
            address = f"127.0.0.1:{port}"
            _wait_until_it_answers(process, address, log_path)
            yield address
        finally:
            stop(process)


def _wait_until_it_answers(process: subprocess.Popen[bytes], address: str, log_path: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            see_that_it_answers(address)
            return
        except BrokerError:
            time.sleep(0.1)
    last_words = "\n".join(log_path.read_text(errors="replace").splitlines()[-10:])
    raise BrokerError(f"the broker did not answer on {address} within {START_TIMEOUT_S:.0f} s (exit code {process.poll()}):\n{last_words}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, and kill it when it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        if process.stdin is not None:
            process.stdin.close()


def is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
