"""The examples of tests in README and in the how-to, as a user would paste them: those of a page are one file of tests that passes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
WITHIN_S = 300.0


@pytest.mark.parametrize(("page", "count"), [("docs/how-to/test-against-a-cluster.md", 6), ("README.md", 1)])
def test_every_example_passes(tmp_path: Path, page: str, count: int) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    tests = [block for block in blocks if "def test_" in block]
    (tmp_path / "test_examples.py").write_text("\n\n".join(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout
