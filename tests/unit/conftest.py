"""Tests that await run in virtual time: a sleep costs nothing, and a wait without an end fails at once.

Files that need the operating system (sockets, threads, processes) are named here and get a real loop.  They do not sleep:
`tests/unit/test_house.py`.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from moldau.testing.loop import SimLoop

UNIT: Final = Path(__file__).parent

REAL_LOOPS: Final = {
    "connect/connectors/test_jdbc.py": "a database blocks a thread",
    "net/test_channel.py": "sockets of this machine",
    "net/test_sockets.py": "sockets of this machine",
    "storage/test_processes.py": "worker processes",
    "storage/test_threads.py": "threads",
}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"real": asyncio.new_event_loop} if str(item.path.relative_to(UNIT)) in REAL_LOOPS else {"virtual": SimLoop}
