"""How a command ends that lost its output, or got no answer."""

import os
import sys

import pytest

from moldau.clients.cluster import Cluster
from moldau.tools.cli.connecting import output_is_gone, run
from moldau.tools.cli.failure import Failure


def test_output_is_gone_when_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert not output_is_gone()
        os.close(reader)
        assert output_is_gone()


def test_an_answer_that_did_not_come_is_named() -> None:
    async def wait(cluster: Cluster) -> int:
        raise TimeoutError

    with pytest.raises(Failure, match="the connection failed: no answer came in time"):
        run("127.0.0.1:1", wait)
