"""`moldau pipelines run` as a service: a broker away is a pause, SIGTERM ends it cleanly, state of another version is refused."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.pipelines.promo import shop
from moldau.pipelines.promo.model import PromoLine, PromoTopics
from moldau.pipelines.running.checkpoints import FILE
from moldau.pipelines.session import SHORT_LIVED, this_tree_first
from moldau.testing.process import BrokerProcess
from moldau.tools.cli.up.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

WITHIN_S = 200.0
TOPICS = PromoTopics()


@contextmanager
def running(tmp_path: Path, bootstrap: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    config = tmp_path / "promo.toml"
    config.write_text(
        f"""
        bootstrap_servers = "{bootstrap}"
        checkpoint = "{tmp_path / "checkpoint"}"
        metrics_port = {port}
        partitions = 2
        [kafka]
        default.api.timeout.ms = 4000
        delivery.timeout.ms = 4000
        """,
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "moldau.tools.cli.main", "pipelines", "run", "promo", "--config", str(config), "--master", "local[2]"]
    environment = {**os.environ, "PYTHONPATH": this_tree_first(), "JAVA_TOOL_OPTIONS": SHORT_LIVED["spark.driver.extraJavaOptions"]}
    with (tmp_path / "job.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def lines(first: int, count: int) -> list[PromoLine]:
    return [PromoLine(f"l{number}", f"c{number % 7}", 1_000_000, 1) for number in range(first, first + count)]


def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        shown = answer.read().decode()
    return sum(float(line.rpartition(" ")[2]) for line in shown.splitlines() if line.startswith(name + "{"))


def wait(until: Callable[[], bool], tmp_path: Path, what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not until():
        assert time.monotonic() < deadline, f"{what}: {(tmp_path / 'job.log').read_text(errors='replace')[-3000:]}"
        time.sleep(0.3)


def test_a_service_outlives_its_broker_and_ends_cleanly(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "job.log"
    with BrokerProcess() as broker, running(tmp_path, broker.bootstrap, port) as process:
        wait(lambda: b"on local[2]" in log.read_bytes(), tmp_path, "it never started")
        assert shop.send_lines(broker.bootstrap, TOPICS, lines(0, 50), partitions=2) == 50
        wait(lambda: metric(port, "moldau_pipeline_rows_total") == 50, tmp_path, "the first lines are not read")
        broker.kill()
        wait(lambda: b"it starts again in" in log.read_bytes(), tmp_path, "a broker away was not said")
        broker.start()
        shop.send_lines(broker.bootstrap, TOPICS, lines(50, 50), partitions=2)
        wait(lambda: metric(port, "moldau_pipeline_rows_total") == 100, tmp_path, "the last lines are not read")
        assert metric(port, "moldau_pipeline_restarts_total") >= 1
        assert metric(port, "moldau_pipeline_lag_records") == 0
        process.terminate()
        assert process.wait(WITHIN_S) == 0, log.read_text(errors="replace")[-3000:]
        verdicts = shop.read_verdicts(broker.bootstrap, TOPICS)
        assert len(verdicts) == 100
        assert sum(reason is None for reason in verdicts.values()) == 35, "five each of seven customers"
        said = log.read_text(errors="replace")
        reasons = re.findall(r"query promo ended \((.*)\); it starts again in 1 s", said)
        lost = r"moldau\.\S*(Unreachable|ConnectionLost): |(Connection\w+|BrokenPipe)Error: "
        assert any(re.match(lost, each) for each in reasons), reasons
        assert "promo: stopped" in said
        (tmp_path / "checkpoint" / "promo" / FILE).write_text("99\n", encoding="ascii")
        (tmp_path / "checkpoint" / "promo" / f".{FILE}.crc").unlink()  # Hadoop's checksum of the former content
        with running(tmp_path, broker.bootstrap, 0) as refused:
            assert refused.wait(WITHIN_S) == 1
        last = log.read_text(errors="replace").strip().splitlines()[-1]
        assert last.startswith("moldau: checkpoint")
        assert "version 99, newer than this release reads (4)" in last
