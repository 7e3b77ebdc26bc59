"""The how-to pages, typed in as they stand: every block of commands of ours runs against a broker and succeeds."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

PAGES = Path(__file__).parents[3] / "docs/how-to"
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"(?:moldau|echo|cat) ")
WITHIN_S = 120.0
MOLDAU = """set -e
moldau() { case "$*" in
  up) ;;                                       # stays, and `serve` is what runs here
  kafka-server-*) ;;                           # `cli/test_daemon.py` starts and stops one; here it would stop every node of this machine
  shop*) "$PYTHON" -m moldau.tools.cli.main "$@" --help > help.txt ;;    # stays; a wrong value is refused before the help
  "pipelines run"*) ;;                         # stays, and wants the file to be filled in
  *kafka-console-share-consumer*) "$PYTHON" -m moldau.tools.cli.main "$@" --timeout-ms 1000 ;;
  serve*) "$PYTHON" -m moldau.tools.cli.main "$@" --check ;;
  *--bootstrap-server*|storage*|pipelines*|profile*) "$PYTHON" -m moldau.tools.cli.main "$@" ;;
  *) "$PYTHON" -m moldau.tools.cli.main "$@" --bootstrap-server localhost:9092 ;;
esac; }
"""
"""`moldau` as if it were installed, with a broker where `moldau up` has it."""
OF_CLUSTERS = {"operate-a-cluster"}
"""Pages whose commands need several nodes and names of machines; here is one broker.  `tests/integration/cluster` runs clusters."""
FOREIGN = (".sh ", "spark-submit ")
"""Programs that are not here, or that want a cluster of their own."""
ELSEWHERE = "kafka-1.staging:9093"
"""A broker that a page speaks of."""
GIVEN = "word-count"
"""A group that a page takes for granted."""


def blocks() -> list[tuple[str, str]]:
    """Each block with its page.  Blocks that only Kafka's own scripts or the system's package manager could run are left out."""
    found = [
        (page.stem, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for page in sorted(PAGES.glob("*.md"))
        if page.stem not in OF_CLUSTERS
        for indent, kind, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind in ("", "sh") and OURS.match(text.lstrip())
    ]
    return [(page, text) for page, text in found if not any(foreign in text for foreign in FOREIGN)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("node")
    properties = {
        "log.dirs": f"{folder}/disk1,{folder}/disk2",
        "remote.log.storage.system.enable": "true",
        "rsm.config.storage.url": f"file://{folder}/tier",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    }
    with BrokerProcess(directory=folder / "node", properties=properties) as running:
        at = ("--bootstrap-server", running.bootstrap)
        ours = [sys.executable, "-m", "moldau.tools.cli.main"]
        subprocess.run([*ours, "topics", "create", "orders", *at], check=True, timeout=WITHIN_S)
        subprocess.run([*ours, "produce", "orders", "hello", *at], check=True, timeout=WITHIN_S)
        yield running


@pytest.mark.parametrize(("page", "text"), blocks(), ids=[f"{page}: {text.split(chr(10))[0][:60]}" for page, text in blocks()])
def test_what_a_page_says_can_be_typed_in(broker: BrokerProcess, tmp_path: Path, page: str, text: str) -> None:
    if GIVEN in text and "--add-config" not in text:
        pytest.skip("speaks of a Kafka Streams program that runs")
    folder = broker.directory.parent
    program = (MOLDAU + text).replace("localhost:9092", broker.bootstrap).replace(ELSEWHERE, broker.bootstrap)
    for disk in ("disk1", "disk2"):
        program = program.replace(f"/{disk}/moldau", str(folder / disk))
    properties = broker.properties_file.read_text(encoding="utf-8")
    if "random-uuid" in text:  # the page formats a node of its own
        properties = properties.replace(str(folder), str(tmp_path))
    (tmp_path / "server.properties").write_text(properties, encoding="utf-8")
    (tmp_path / "staging.properties").write_text("security.protocol=PLAINTEXT\n", encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=tmp_path,
        env={**broker.environment(), "PYTHON": sys.executable, "MOLDAU_CONFIG": str(tmp_path / "config.toml")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_no_page_is_left_out() -> None:
    assert len(blocks()) >= 15
