"""A client's memory follows its options, not its load: more than 1 GB/s at a broker that stands still, or large records."""

import pytest

from benchmarks.memory import measure

pytestmark = pytest.mark.slow

LIMIT_BYTES = 16 << 20
MOST = {"send": 2.6, "send_many": 2.2, "poll": 3.0}
"""The memory that may come on top, as a multiple of the limit.

`send` keeps buffer_memory in batches, and as much again in records that wait for room.  `poll` holds what the caller works on beside
prefetch_max_bytes.
"""


@pytest.mark.parametrize("load", MOST)
def test_memory_follows_the_limit(load: str) -> None:
    found = measure(load, limit_bytes=LIMIT_BYTES, seconds=1.5)
    assert found["grown_to_limit"] < MOST[load], found
    if load != "poll":
        assert found["acknowledged_records"] > 0
