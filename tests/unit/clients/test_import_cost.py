"""Importing a client costs next to nothing: the first client that is made loads what it needs to work."""

import subprocess
import sys
from functools import cache

import pytest

IMPORTS = [
    "import moldau",
    "from moldau import Producer",
    "from moldau import Consumer",
    "from moldau import ShareConsumer",
    "from moldau import Admin, NewTopic",
    "from moldau import Admin, Consumer, Producer, ShareConsumer, TopicPartition",
    "from moldau.sync import Admin, Consumer, Producer, ShareConsumer",
]
DEAR = {"asyncio", "crc32c", "cramjam", "logging", "moldau.protocol", "moldau.net", "numpy", "opentelemetry", "re2", "rich", "ssl"}
AT_MOST_MS = 60
TRIES = 3

PROGRAM = """
import sys, time
before = time.process_time()
{statement}
print((time.process_time() - before) * 1000)
print(*sys.modules)
"""


@cache
def measured(statement: str) -> tuple[float, frozenset[str]]:
    """CPU time of a fresh interpreter in milliseconds, and the modules that it has loaded.

    The time is the least of some tries, since other processes disturb it.
    """
    times = []
    for _ in range(TRIES):
        done = subprocess.run([sys.executable, "-c", PROGRAM.format(statement=statement)], capture_output=True, text=True, check=True)
        took, names = done.stdout.splitlines()
        times.append(float(took))
    return min(times), frozenset(names.split())


@pytest.mark.parametrize("statement", IMPORTS)
def test_an_import_loads_nothing_that_only_work_needs(statement: str) -> None:
    assert not DEAR & measured(statement)[1]


@pytest.mark.parametrize("statement", IMPORTS)
def test_an_import_is_cheap(statement: str) -> None:
    assert measured(statement)[0] <= AT_MOST_MS
