"""`moldau up --brokers 3` as an operator meets it: stopped at any moment, it leaves no process, and the next start works."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.testing.child import held_ports

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

MOLDAU = [sys.executable, "-m", "moldau.tools.cli.main"]
WITHIN_S = 120.0
BETWEEN_LOOKS_S = 0.01


@pytest.fixture
def port() -> int:
    """The first of three ports in a row that nobody has."""
    while True:
        with held_ports(1) as (first,):
            pass
        try:
            with socket.create_server(("127.0.0.1", first + 1)), socket.create_server(("127.0.0.1", first + 2)):
                return first
        except (OSError, OverflowError):
            continue


class Up:
    """A running `moldau up --brokers 3`, with its output in a file."""

    def __init__(self, folder: Path, port: int | None, *more: str) -> None:
        self._folder = folder
        self._said = folder.parent / "said"
        where = ["--port", str(port)] if port is not None else []
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*MOLDAU, "up", "--brokers", "3", "--dir", str(folder), *where, *more], stdout=said, stderr=subprocess.STDOUT
            )

    @property
    def text(self) -> str:
        return self._said.read_text()

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        until_s = time.monotonic() + WITHIN_S
        while not is_there():
            assert self._process.poll() is None and time.monotonic() < until_s, self.text
            time.sleep(BETWEEN_LOOKS_S)

    def wait_for_text(self, text: str) -> None:
        self.wait_for(lambda: text in self.text)

    def send(self, how: signal.Signals) -> None:
        self._process.send_signal(how)

    def end(self, how: signal.Signals) -> int:
        """Send a signal and wait.  Returns the exit code.  No node is left."""
        self._process.send_signal(how)
        code = self._process.wait(WITHIN_S)
        assert not nodes_of(self._folder), "no node outlives the command"
        return code


def nodes_of(folder: Path) -> list[int]:
    """The processes of nodes with files in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and any(word.startswith(os.fsencode(folder)) for word in words):
            found.append(int(process.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="the processes of a machine are listed in /proc")
def test_it_stops_at_any_moment_and_starts_again(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "three"
    preparing = Up(folder, port)
    preparing.wait_for((folder / "node-1" / "server.properties").exists)
    # Python ends itself by the signal when it came while a dataclass ran generated source.  A shell calls both endings 130.
    assert preparing.end(signal.SIGINT) in (0, 130, -signal.SIGINT)
    assert "Traceback" not in preparing.text

    launching = Up(folder, None if (folder / "node-3" / "data" / "meta.properties").exists() else port)
    launching.wait_for((folder / "node-1" / "server.log").exists)
    assert launching.end(signal.SIGINT) == 0

    starting = Up(folder, None)
    starting.wait_for(lambda: " is up: " in starting.text)
    assert starting.end(signal.SIGINT) == 0

    serving = Up(folder, None)
    serving.wait_for(lambda: "3 nodes are up" in serving.text)
    created = [*MOLDAU, "topics", "create", "orders", "-b", f"localhost:{port}"]
    assert subprocess.run(created, capture_output=True, timeout=WITHIN_S, check=False).returncode == 0
    assert serving.end(signal.SIGHUP) == 0
    assert (folder / "node-1" / "data" / "orders-0").exists()


def test_a_preparation_that_was_interrupted_is_begun_anew(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "three"
    folder.mkdir()
    in_the_way = folder / "node-2"
    in_the_way.touch()
    up = [*MOLDAU, "up", "--brokers", "3", "--dir", str(folder), "--port", str(port)]
    interrupted = subprocess.run(up, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert interrupted.returncode == 1 and "node-2 cannot be used" in interrupted.stderr
    in_the_way.unlink()
    again = Up(folder, port)
    again.wait_for(lambda: "3 nodes are up" in again.text)
    assert again.end(signal.SIGTERM) == 0


def test_a_busy_port_is_one_line_and_leaves_no_cluster(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "three"
    with socket.create_server(("127.0.0.1", port + 1)):
        up = [*MOLDAU, "up", "--brokers", "3", "--dir", str(folder), "--port", str(port)]
        refused = subprocess.run(up, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert refused.returncode == 1
    assert f"cannot listen on localhost:{port + 1}" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not folder.exists()


def moldau(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MOLDAU, *arguments], capture_output=True, text=True, timeout=WITHIN_S, check=False)


def refused(folder: Path, *more: str) -> str:
    """The one line with which a start is refused."""
    ended = moldau("up", "--brokers", "3", "--dir", str(folder), *more)
    assert ended.returncode == 1 and ended.stdout == "", ended
    (line,) = ended.stderr.splitlines()
    return line


def node_of(folder: Path, number: int) -> int:
    """The process of a node."""
    (found,) = nodes_of(folder / f"node-{number}")
    return found


def test_what_happens_to_a_node_is_one_line(tmp_path: Path, port: int) -> None:
    """A second start, a killed node, a second Ctrl-C, a busy port, a lost folder."""
    folder = tmp_path / "three"
    first = Up(folder, port)
    first.wait_for_text("3 nodes are up")
    assert f"{folder} is in use by another process" in refused(folder)
    at = ("-b", f"localhost:{port}")
    assert moldau("topics", "create", "orders", *at).returncode == 0
    assert moldau("produce", "orders", "kept", *at).returncode == 0

    os.kill(node_of(folder, 2), signal.SIGKILL)
    first.wait_for_text("node-2 ")
    (line,) = [one for one in first.text.splitlines() if one.startswith("node-2 ")]
    assert line.startswith("node-2 was killed by SIGKILL: the other nodes go on.") and f"moldau serve {folder}/node-2/" in line
    os.kill(node_of(folder, 1), signal.SIGSTOP)
    first.send(signal.SIGINT)
    first.wait_for_text("Stopping 2 nodes")
    assert first.end(signal.SIGINT) == 1

    with socket.create_server(("127.0.0.1", port + 1)):
        assert f"cannot listen on localhost:{port + 1}" in (line := refused(folder)) and "node-2/server.properties" in line

    shutil.rmtree(folder / "node-2")
    two = Up(folder, None)
    two.wait_for_text("2 nodes are up")
    assert "node-2 has lost its folder: the other nodes go on." in two.text
    assert two.end(signal.SIGTERM) == 0
    assert "there is no node-7" in refused(folder, "--replace", "7")
    assert "node-1 has its data" in refused(folder, "--replace", "1")

    three = Up(folder, None, "--replace", "2")
    three.wait_for_text("3 nodes are up")
    second = f"localhost:{port + 1}"

    def is_filled() -> bool:
        behind = moldau("kafka-topics", "--bootstrap-server", second, "--describe", "--under-replicated-partitions")
        quorum = moldau("kafka-metadata-quorum", "--bootstrap-server", second, "describe", "--replication")
        status = dict(re.findall(r"(?m)^(\d).*\t(Leader|Follower|Observer)\s*$", quorum.stdout))
        return behind.returncode == 0 and not behind.stdout and len(status) == 3 and "Observer" not in status.values()

    three.wait_for(is_filled)
    assert moldau("consume", "orders", "--exit", "-b", second).stdout == "kept\n"
    assert three.end(signal.SIGINT) == 0
    for number in (2, 3):
        shutil.rmtree(folder / f"node-{number}")
    assert "has lost node-2, node-3: the others are no majority" in refused(folder)
