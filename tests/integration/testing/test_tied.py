"""A broker of a test ends with the test's process, however that ends."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

WITHIN_MS = 60_000

PROGRAM = """
import sys
from pathlib import Path
from moldau.testing.process import BrokerProcess

with BrokerProcess(directory=Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    input()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_ends_with_its_test(tmp_path: Path, how: signal.Signals) -> None:
    environment = BrokerProcess(directory=tmp_path).environment()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "broker")]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watch = os.pidfd_open(pid)
        try:
            parent.send_signal(how)
            parent.wait()
            ended = select.poll()
            ended.register(watch, select.POLLIN)
            assert ended.poll(WITHIN_MS), f"the broker outlives a test that ends by {how.name}"
        finally:
            os.close(watch)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
