"""The demo as a user runs it: our own broker, a few orders, the table, the report, the exit code."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from moldau.pipelines.session import this_tree_first

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

RUN_WITHIN_S = 500.0
START_WITHIN_S = 300.0
STOP_WITHIN_S = 120.0
IMPORTS_S = 20.0  # on a busy machine


@contextmanager
def demo(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo, running.  None of its processes outlives the test, however the test ends."""
    command = [sys.executable, "-m", "moldau.pipelines.demo", "--no-promo", "--report", str(tmp_path / "report.html"), *arguments]
    environment = {**os.environ, "PYTHONPATH": this_tree_first(), "TMPDIR": str(tmp_path), "COLUMNS": "100"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_small_run(tmp_path: Path) -> None:
    with demo(tmp_path, "--orders", "300", "--rate", "60") as process:
        said, _ = process.communicate(timeout=RUN_WITHIN_S)
    assert process.returncode == 0, said
    assert "All 300 verdicts are the oracle's." in said
    assert re.search(r"Watch it in a browser: http://127\.0\.0\.1:\d+", said)
    assert re.search(r"p99 seconds from CREATED to verdict +│ +\d", said)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    assert not re.search(r"(src|href)=[\"']?https?:", page), "the report needs nothing from the network"
    assert not list(tmp_path.glob("moldau-demo-*")), "the temporary folder is gone"


def test_ctrl_c_stops_everything(tmp_path: Path) -> None:
    with demo(tmp_path, "--orders", "2000", "--rate", "10") as process:
        deadline = time.monotonic() + START_WITHIN_S
        while not list(tmp_path.glob("moldau-demo-*/checkpoints/*/offsets")):
            assert process.poll() is None and time.monotonic() < deadline, "the queries never started"
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=STOP_WITHIN_S)
    assert process.returncode == 130, said
    assert "Stopped." in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("moldau-demo-*"))


def test_a_wrong_server_is_one_line_within_ten_seconds(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for address in ("127.0.0.1:1", "nowhere.invalid:9092", "no-port", f"127.0.0.1:{silent.getsockname()[1]}"):
            started_s = time.monotonic()
            with demo(tmp_path, "--bootstrap-server", address) as process:
                said, _ = process.communicate(timeout=60)
            assert process.returncode == 1
            assert f"The run broke: no Kafka answers at {address}: " in said
            assert "Traceback" not in said
            assert time.monotonic() - started_s < 10 + IMPORTS_S


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "used" / "checkpoints").mkdir(parents=True)
    with demo(tmp_path, "--dir", str(tmp_path / "used")) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "holds an earlier run (checkpoints): name another folder as --dir" in " ".join(said.split())
