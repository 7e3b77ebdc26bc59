"""How a command ends that lost its output."""

import os
import sys

import pytest

from moldau.tools.cli.connecting import output_is_gone


def test_output_is_gone_when_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert not output_is_gone()
        os.close(reader)
        assert output_is_gone()
