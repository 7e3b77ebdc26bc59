"""The tutorial of the Python client, typed in as it stands: every block of Python runs, one after the other, against one broker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/tutorial/python-client.md"
WITHIN_S = 120.0
SAID = (r"\d+ 0\n", r"b?'?.*\n", r"1002\n", r"", r"taken: [1-9]\d*\n", r".*'menus'.*'orders'.*\n\{.*GroupOffset.*\n", r"True\nb'.*'\n1\n")


def test_everything_works_as_printed() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(SAID)
    with BrokerProcess() as broker:
        for program, said in zip(blocks, SAID, strict=True):
            text = program.replace("localhost:9092", broker.bootstrap)
            done = subprocess.run(
                [sys.executable, "-c", text], env=broker.environment(), capture_output=True, text=True, timeout=WITHIN_S, check=False
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            assert re.fullmatch(said, done.stdout), f"{text}\n{done.stdout}"
