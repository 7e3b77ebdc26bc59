"""A few power cuts of a whole broker on a real ext4, where that can be had: as root, with FUSE and loop devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("power-cuts")]

SCRIPT = Path(__file__).parents[2] / "soak/power_cuts.py"
NOT_ALLOWED = ("CalledProcessError", "no FUSE mount", "PermissionError", "/dev/fuse")
NEEDED = (Path("/dev/fuse"), Path("/dev/loop-control"))


@pytest.mark.skipif(os.geteuid() != 0 or not all(path.exists() for path in NEEDED), reason="needs root, FUSE and loop devices")
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--cuts", "4", "--seed", "1", "--dir", str(tmp_path / "cuts")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if any(word in done.stderr for word in NOT_ALLOWED):
        pytest.skip("mounting is not allowed here")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert " 0 lost" in done.stdout
