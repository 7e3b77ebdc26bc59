"""The loader where no whole node is needed."""

import errno
import logging
from typing import Any, cast

import pytest

from moldau.clock import SystemClock
from moldau.metadata.loader import Loader
from moldau.raft.driver import RaftDriver
from proof.cluster.images import an_image


class FullDisk:
    async def write_snapshot(self, *_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_snapshot_that_cannot_be_written_is_told_and_the_node_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    loader = Loader(SystemClock())
    loader.image = an_image(1)
    with caplog.at_level(logging.ERROR):
        await loader.write_snapshot(cast(RaftDriver, FullDisk()))
    assert f"below offset {loader.image.offset + 1} cannot be written" in caplog.text and "No space left on device" in caplog.text
