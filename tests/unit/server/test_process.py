"""A node as a process has it, within ours."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.server.node import Node
from moldau.server.node_config import NodeConfig
from moldau.server.process import YOUNG_OBJECTS, run
from moldau.testing.embedded import DEFAULTS, EmbeddedBroker


@pytest.fixture
def collector() -> Iterator[None]:
    """As it was, afterwards."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("collector")
def test_a_started_node_is_kept_from_the_garbage_collector_and_stops_at_sigterm(tmp_path: Path) -> None:
    with EmbeddedBroker(directory=tmp_path):
        pass  # formatted
    config = NodeConfig.parse({**DEFAULTS, "log.dirs": str(tmp_path / "data")})
    ready: list[int] = []

    def on_ready(node: Node) -> None:
        ready.append(gc.get_freeze_count())
        os.kill(os.getpid(), signal.SIGTERM)

    assert asyncio.run(run(config, on_ready)) == 0
    assert ready[0] > 10_000
    assert gc.get_threshold()[0] == YOUNG_OBJECTS
