"""The seven uses in examples/: each runs on real input against a broker, checks its own result, and has its page."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[3]
EXAMPLES = {
    "activity_tracking": r"2102 redemptions by \d+ households; campaign \d+ brought \d+",
    "commit_log": r"\d+ changes, \d+ rows: both replicas are equal to the table",
    "event_sourcing": r"after 1 commits there were \d+ files, as git says\n(after \d+ commits there were \d+ files, as git says\n)*",
    "log_aggregation": r"\d+ lines of \d+ files\n(\d+ alarming lines in .*\n)+",
    "messaging": r"60 pieces of work done by 2 workers, each answer is right",
    "metrics": r"memory\.available\.mb: mean [\d.]+, peak [\d.]+, of 20 figures\ncpu\.busy\.s: mean .*",
    "stream_processing": r"\d+ words in \d+ lines, cut off [1-9]\d* times; most often: .*",
}
WITHIN_S = 100.0


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"share.coordinator.state.topic.num.partitions": "2"}) as running:
        yield running


def repository(folder: Path) -> Path:
    """This repository, or a small new one where its history is not at hand."""
    if subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, check=False).returncode == 0:
        return ROOT
    me = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number in range(3):
        (folder / f"file {number}").write_text(str(number), encoding="utf-8")
        subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
        subprocess.run(["git", "-C", str(folder), *me, "commit", "-q", "-m", str(number)], check=True)
    return folder


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_runs_and_its_result_is_right(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    more = [str(repository(tmp_path))] if name == "event_sourcing" else []
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), broker.bootstrap, *more],
        env=broker.environment(), capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(EXAMPLES[name], done.stdout.removesuffix("\n")) or re.fullmatch(EXAMPLES[name], done.stdout), done.stdout


def test_every_example_has_a_page_that_names_it() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)
    for name in EXAMPLES:
        page = ROOT / "docs/how-to" / f"{name.replace('_', '-')}.md"
        assert f"python examples/{name}.py" in page.read_text(encoding="utf-8")
