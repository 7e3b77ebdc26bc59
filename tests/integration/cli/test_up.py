"""`moldau up` as a new user meets it: the commands that it prints work as they stand, and each error is one line."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.child import held_ports

pytestmark = pytest.mark.slow

MOLDAU = [sys.executable, "-m", "moldau.tools.cli.main"]
WITHIN_S = 120.0


def moldau(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MOLDAU, *arguments], input=stdin, capture_output=True, text=True, timeout=WITHIN_S, check=False)


class Up:
    """A running `moldau up`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.process = subprocess.Popen(
            [*MOLDAU, "up", "--dir", str(folder), "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.text = self._until_ready()

    def _until_ready(self) -> str:
        assert self.process.stdout is not None
        lines = []
        deadline = time.monotonic() + WITHIN_S
        while not lines or not lines[-1].startswith("Ctrl-C"):
            line = self.process.stdout.readline()
            assert line and time.monotonic() < deadline, (lines, self.process.stderr and self.process.stderr.read())
            lines.append(line)
        return "".join(lines)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(WITHIN_S)


@pytest.fixture
def ports() -> Iterator[list[int]]:
    with held_ports(2) as ports:
        yield ports


@pytest.fixture
def up(tmp_path: Path, ports: list[int]) -> Iterator[Up]:
    running = Up(tmp_path / "here", ports[0])
    yield running
    running.end(signal.SIGKILL)


def test_what_it_tells_to_type_next_works_as_printed(up: Up) -> None:
    assert f"Moldau is up at localhost:{up.port}" in up.text
    commands = [shlex.split(line)[1:] for line in up.text.splitlines() if line.startswith("  moldau ")]
    assert [command[0] for command in commands] == ["topics", "produce", "consume"]
    created, written = moldau(*commands[0]), moldau(*commands[1])
    assert (created.returncode, created.stdout) == (0, "Created topic hello (1 partition).\n")
    assert (written.returncode, written.stdout) == (0, "Wrote to hello, partition 0, offset 0.\n")
    read = moldau(*commands[2], "--max", "1")
    assert (read.returncode, read.stdout) == (0, "Hello, world\n")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_and_starts_again_with_everything(up: Up, how: signal.Signals) -> None:
    at = ("-b", f"localhost:{up.port}")
    assert moldau("topics", "create", "kept", *at).returncode == 0
    assert moldau("produce", "kept", *at, stdin="one\ntwo\n").stdout == "Wrote 2 records to kept.\n"
    assert up.end(how) == 0
    again = Up(up.folder, up.port)
    try:
        assert moldau("consume", "kept", "--exit", *at).stdout == "one\ntwo\n"
    finally:
        assert again.end() == 0


def test_a_second_start_on_its_folder_is_refused_and_harms_nothing(up: Up, ports: list[int]) -> None:
    second = moldau("up", "--dir", str(up.folder), "--port", str(ports[1]))
    assert second.returncode == 1
    assert "is in use by another process" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert moldau("topics", "create", "still", "-b", f"localhost:{up.port}").returncode == 0


def test_a_reader_that_is_gone_ends_a_command_in_silence(up: Up) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*MOLDAU, "kafka-cluster", "cluster-id", "--bootstrap-server", f"localhost:{up.port}"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # the print itself fails, while the connection is open
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=WITHIN_S, check=False, env=environment)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_broker_that_the_cluster_does_not_have_is_named(up: Up) -> None:
    said = moldau("kafka-configs", "--bootstrap-server", f"localhost:{up.port}", "--describe", "--broker", "9", "--all").stderr
    assert said.startswith("moldau: the cluster has no broker 9.")


def test_a_busy_port_is_one_line(up: Up, tmp_path: Path) -> None:
    other = moldau("up", "--dir", str(tmp_path / "other"), "--port", str(up.port))
    assert other.returncode == 1
    assert f"cannot listen on localhost:{up.port}" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_a_controller_port_that_another_process_took_meanwhile_is_changed_for_one_that_is_free(up: Up) -> None:
    assert up.end() == 0
    written = (up.folder / "server.properties").read_text()
    (port,) = set(re.findall(r"CONTROLLER://localhost:(\d+)", written))
    with socket.create_server(("127.0.0.1", int(port))):
        again = Up(up.folder, up.port)
        try:
            assert moldau("topics", "create", "still", "-b", f"localhost:{up.port}").returncode == 0
        finally:
            assert again.end() == 0
    assert (up.folder / "server.properties").read_text() == written


def test_a_folder_moved_away_starts_where_it_is(up: Up, tmp_path: Path) -> None:
    at = ("-b", f"localhost:{up.port}")
    assert moldau("produce", "moved", "v", *at).returncode == 0
    assert up.end() == 0
    moved = up.folder.rename(tmp_path / "there")
    again = Up(moved, up.port)
    try:
        assert moldau("consume", "moved", "--exit", *at).stdout == "v\n"
        assert not up.folder.exists()
    finally:
        again.end()


def test_format_and_serve_from_a_file_of_ones_own(tmp_path: Path, ports: list[int]) -> None:
    port, controller_port = ports
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=7\nlisteners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:{controller_port}\nlog.dirs={tmp_path}/data\n"
    )
    unformatted = moldau("serve", str(path))
    assert unformatted.returncode == 1
    assert "is not formatted: run `moldau storage format" in unformatted.stderr
    cluster_id = moldau("storage", "random-uuid").stdout.strip()
    assert moldau("storage", "format", "-t", cluster_id, "-c", str(path), "--standalone").returncode == 0
    with subprocess.Popen([*MOLDAU, "serve", str(path)], stderr=subprocess.PIPE, text=True) as node:
        try:
            assert node.stderr is not None
            while "Node 7 is up" not in node.stderr.readline():
                assert node.poll() is None
            shown = moldau("kafka-cluster", "cluster-id", "--bootstrap-server", f"localhost:{port}")
            assert shown.stdout == f"Cluster ID: {cluster_id}\n"
        finally:
            node.send_signal(signal.SIGTERM)
        assert node.wait(WITHIN_S) == 0
    path.write_text(path.read_text().replace("node.id=7", "node.id=8"))
    assert "is of node 7, and node.id is 8" in moldau("serve", str(path)).stderr
