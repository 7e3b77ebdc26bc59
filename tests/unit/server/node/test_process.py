"""A node runs as it does in a process of its own, but within the test's process."""

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.server.node.config import NodeConfig
from moldau.server.node.node import Node
from moldau.server.node.process import YOUNG_OBJECTS, run
from moldau.testing.embedded import DEFAULTS, EmbeddedBroker


@pytest.fixture
def collector() -> Iterator[None]:
    """Restores the settings of the garbage collector afterwards."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Sets the soft limit of descriptors as a shell does; the hard limit stays."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_024, limits[1]), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("collector", "few_descriptors")
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


@pytest.mark.usefixtures("collector", "few_descriptors")
def test_a_node_takes_all_the_descriptors_it_may_have_and_spares_the_last(tmp_path: Path) -> None:
    with EmbeddedBroker(directory=tmp_path):
        pass  # formatted
    config = NodeConfig.parse({**DEFAULTS, "log.dirs": str(tmp_path / "data")})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen: list[tuple[int, bool]] = []

    def on_ready(node: Node) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
        taken: list[int] = []
        while True:
            try:
                taken.append(os.open("/", os.O_RDONLY))
            except OSError:
                break
        seen.append((soft, node.broker.logs.files.has_spare_descriptors()))
        for descriptor in taken:
            os.close(descriptor)
        os.kill(os.getpid(), signal.SIGTERM)

    assert asyncio.run(run(config, on_ready)) == 0
    assert seen == [(most, False)]


@pytest.mark.usefixtures("collector", "few_descriptors")
def test_a_stop_that_the_disk_does_not_take_ends_with_exit_code_1(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(directory=tmp_path):
        pass  # formatted
    config = NodeConfig.parse({**DEFAULTS, "log.dirs": str(tmp_path / "data")})

    def on_ready(node: Node) -> None:
        (tmp_path / "data").rename(tmp_path / "gone")
        os.kill(os.getpid(), signal.SIGTERM)

    assert asyncio.run(run(config, on_ready)) == 1
    assert f"{tmp_path}/data was not closed whole" in caplog.text
    assert not (tmp_path / "gone" / ".kafka_cleanshutdown").exists()
