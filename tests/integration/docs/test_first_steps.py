"""The tutorial for beginners, typed in as it stands: every block runs, and prints what the page says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PAGE = Path(__file__).parents[3] / "docs/tutorial/first-steps.md"
WITHIN_S = 240.0
MOLDAU = """set -e
moldau() { case "$*" in
  *--bootstrap-server*) "$PYTHON" -m moldau.tools.cli.main "$@" ;;
  *) "$PYTHON" -m moldau.tools.cli.main "$@" --bootstrap-server localhost:9092 ;;
esac; }
"""
"""`moldau` as if it were installed, with a broker where `moldau up` has it."""


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(sh|python|text)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_everything_works_as_printed(tmp_path: Path) -> None:
    kinds = [kind for kind, _ in blocks()]
    assert kinds.count("sh") == 4 and kinds.count("python") == 4 and kinds.count("text") == 5, kinds
    with BrokerProcess() as broker:
        said = ""
        for kind, text in blocks():
            if kind == "text":
                assert text in said
                continue
            program = text.replace("localhost:9092", broker.bootstrap)
            shell = ["bash", "-c", MOLDAU.replace("localhost:9092", broker.bootstrap) + program]
            command = shell if kind == "sh" else [sys.executable, "-c", program]
            environment = {**broker.environment(), "PYTHON": sys.executable, "COLUMNS": "200"}
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            said = done.stdout
