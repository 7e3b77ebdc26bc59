"""The order validation on real orders: every verdict is the oracle's, wherever the micro-batches are cut, across a crash too."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.pipelines import retail
from moldau.pipelines.ends import Ends
from moldau.pipelines.session import SHORT_LIVED, this_tree_first
from moldau.pipelines.validation import job, oracle
from moldau.pipelines.validation.faults import FaultPlan, with_faults
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.service import OrderService

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

ORDERS = 2_000
# Many faults for few orders.
FAULTS = FaultPlan(held_back=20, lost_request=90, wrong_total=70, malformed=50)
STRAGGLER_S = 45  # a check that answers at all answers well before, even on a busy machine
WITHIN_S = 300.0
STOP_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def catalogue() -> dict[int, int]:
    return retail.catalogue()


class Scene:
    """Orders are sent, and the ledger tells what became of them."""

    def __init__(self, bootstrap: str, prefix: str, catalogue: dict[int, int], *, later: int = 0) -> None:
        """`later`: so many orders are not sent yet.  All of their checks answer, so that no deadline is waited for at the end."""
        self.topics = Topics.prefixed(prefix)
        orders = list(retail.orders(ORDERS))
        self.sent = list(with_faults(orders[: ORDERS - later], FAULTS))
        self.unsent = list(with_faults(orders[ORDERS - later :], FAULTS._replace(lost_request=0)))
        self.catalogue = catalogue
        self.service = OrderService(bootstrap, self.topics, partitions=3)
        self.service.send(self.sent)
        self.ledger = Ledger(bootstrap, self.topics)

    def send_the_rest(self) -> None:
        self.service.send(self.unsent)
        self.sent += self.unsent

    def read_until(self, verdicts: int) -> None:
        deadline = time.monotonic() + WITHIN_S
        while len(self.ledger.verdicts) < verdicts:
            assert time.monotonic() < deadline, f"{len(self.ledger.verdicts)} of {verdicts} verdicts after {WITHIN_S:.0f} s"
            self.ledger.read(0.1)

    def assert_as_expected(self) -> None:
        while self.ledger.read(1.0):
            pass
        self.ledger.close()
        expected = oracle.expect(self.sent, self.catalogue, *self.ledger.freed)
        assert oracle.differences(expected.orders, self.ledger.outcomes()) == []
        assert self.ledger.released == Counter(expected.released)
        assert expected.released
        assert self.ledger.contradictions == []
        assert self.ledger.repeats == 0
        assert self.ledger.dead_letter_counts() == expected.dead_letters
        assert {outcome.state for outcome in expected.orders.values()} == {"VALIDATED", "FAILED", "TIMED_OUT"}


def test_every_verdict_is_the_oracles(
    spark: SparkSession, either_bootstrap: str, prefix: str, checkpoint: str, catalogue: dict[int, int]
) -> None:
    scene = Scene(either_bootstrap, prefix, catalogue)
    config = job.JobConfig(
        Ends(either_bootstrap, checkpoint, max_records_per_batch=1_700), catalogue, scene.topics, straggler_ms=STRAGGLER_S * 1000
    )
    query = job.start(spark, config)
    try:
        scene.read_until(ORDERS)
    finally:
        query.stop()
    scene.assert_as_expected()


def test_a_driver_killed_in_the_middle_changes_no_verdict(bootstrap: str, prefix: str, tmp_path: Path, catalogue: dict[int, int]) -> None:
    scene = Scene(bootstrap, prefix, catalogue, later=ORDERS // 2)
    config = tmp_path / "orders.toml"
    config.write_text(
        f"""
        bootstrap_servers = "{bootstrap}"
        checkpoint = "{tmp_path / "checkpoint"}"
        topic_prefix = "{prefix}"
        max_records_per_batch = 400
        rules.deadline_s = 100000
        rules.straggler_s = {STRAGGLER_S}
        """,
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "moldau.tools.cli.main", "pipelines", "run", "order-validation", "--config", str(config)]
    command += ["--master", "local[2]"]
    # Only the quick compiler: there are two starts in a row, and each run is far too short for the slow one.
    environment = {**os.environ, "PYTHONPATH": this_tree_first(), "JAVA_TOOL_OPTIONS": SHORT_LIVED["spark.driver.extraJavaOptions"]}
    with (tmp_path / "job.log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            # The first verdicts of a micro-batch are seen before its commit: after a kill at this moment it has to be repeated.
            scene.read_until(ORDERS // 4)
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            scene.send_the_rest()
            driver = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
            scene.read_until(ORDERS)
            driver.terminate()
            ended = driver.wait(STOP_WITHIN_S)
            assert ended == 0, f"SIGTERM ends the job cleanly: {(tmp_path / 'job.log').read_text(errors='replace')[-3000:]}"
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
    scene.assert_as_expected()
