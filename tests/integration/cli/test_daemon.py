"""`-daemon` of Kafka's scripts: the node goes on in the background, and `kafka-server-stop` finds and stops it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import randrange

import pytest

from moldau.testing.child import held_ports
from moldau.tools.cli.kafka.server_stop import servers
from moldau.tools.cli.up.properties import properties_text
from proof.connect.chain import until

pytestmark = pytest.mark.slow

MOLDAU = [sys.executable, "-m", "moldau.tools.cli.main"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, int, int]]:
    """A folder with a server.properties, the node's id, which no other node of this machine has, and its port."""
    node_id = randrange(1_000_000, 1_000_000_000)
    with held_ports(2) as (port, controller_port):
        text = properties_text(
            node_id=node_id,
            host="localhost",
            port=port,
            controller_port=controller_port,
            bootstrap=f"localhost:{controller_port}",
            data=tmp_path / "data",
            replicas=1,
        )
        (tmp_path / "server.properties").write_text(text, encoding="utf-8")
        yield tmp_path, node_id, port


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MOLDAU, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def answers(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("localhost", port)) == 0


def runs(node_id: int) -> bool:
    return any(server.properties.get("node.id") == str(node_id) for server in servers())


def test_a_node_in_the_background_serves_until_it_is_stopped(place: tuple[Path, int, int]) -> None:
    folder, node_id, port = place
    stop = ("kafka-server-stop", f"--node-id={node_id}")
    assert run(folder, "kafka-storage", "format", "-t", "M2xgYV8xS1SXxk2uVzrHTA", "-c", "server.properties", "--standalone").returncode == 0
    started = run(folder, "kafka-server-start", "-daemon", "server.properties")
    assert (started.returncode, started.stdout) == (0, "")
    assert started.stderr.endswith("its output is in logs/kafkaServer.out\n")
    output = folder / "logs" / "kafkaServer.out"
    try:
        until(lambda: f"Node {node_id} is up" in output.read_text(encoding="utf-8"), "the node serves")
        assert answers(port)
    finally:
        stopped = run(folder, *stop)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    until(lambda: not runs(node_id), "the node ends")
    assert run(folder, *stop).stdout == "No kafka server to stop\n"


@pytest.mark.parametrize("wrong", ["", "wrong.properties"])
def test_what_is_wrong_with_the_file_is_told_at_once(place: tuple[Path, int, int], wrong: str) -> None:
    folder, _, _ = place
    (folder / "wrong.properties").write_text("process.roles=broker\nnode.id=one\n", encoding="utf-8")
    started = run(folder, "kafka-server-start", "-daemon", *([wrong] if wrong else []))
    assert started.returncode == 1
    assert not (folder / "logs").exists()


def test_the_folder_of_the_output_is_the_environments(place: tuple[Path, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _, _ = place
    monkeypatch.setenv("LOG_DIR", str(folder / "elsewhere"))
    assert run(folder, "kafka-server-start", "-daemon", "server.properties").returncode == 0
    output = folder / "elsewhere" / "kafkaServer.out"
    until(lambda: "format" in output.read_text(encoding="utf-8"), "the node tells that its folder is not formatted")
    assert os.listdir(folder / "elsewhere") == [output.name]


@pytest.mark.parametrize(
    ("command", "output"), [("connect-standalone", "connectStandalone"), ("connect-distributed", "connectDistributed")]
)
def test_a_worker_of_connect_goes_into_the_background_too(tmp_path: Path, command: str, output: str) -> None:
    started = run(tmp_path, command, "-daemon", "worker.properties")
    assert (started.returncode, started.stdout) == (0, "")
    told = tmp_path / "logs" / f"{output}.out"
    until(lambda: "worker.properties" in told.read_text(encoding="utf-8"), "the worker tells that its file is missing")
