"""Debezium's own connector and ours tell the same short stories, field by field."""

from collections.abc import Iterator
from random import Random

import pytest

from proof.connect.debezium.busy import compare_busy
from proof.connect.debezium.oracle import Debezium
from proof.connect.debezium.play import compare
from proof.connect.postgres import IS_INSTALLED, MISSING, Postgres
from proof.connect.stories import story
from proof.metadata.oracle import javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("debezium"),
    pytest.mark.skipif(not IS_INSTALLED, reason=MISSING),
    pytest.mark.skipif(javac() is None, reason="there is no javac to compile Debezium's starter with"),
]
Both = tuple[Postgres, Debezium]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with Postgres() as server, Debezium() as debezium:
        yield server, debezium


async def test_two_short_stories_are_told_alike(both: Both) -> None:
    for seed in (6, 10):
        count, different = await compare(*both, story(Random(seed), steps=30, large=500), f"short_{seed}")
        assert count > 30
        assert different == []


async def test_snapshots_of_tables_that_change_meanwhile_lose_and_repeat_nothing(both: Both) -> None:
    count, different = await compare_busy(*both, story(Random(1), steps=5000, fill=200), "busy")
    assert count > 600
    assert different == []
