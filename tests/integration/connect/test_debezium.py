"""Debezium's own connector and ours tell the same short stories, field by field."""

from random import Random

import pytest

from proof.connect.debezium.oracle import Debezium
from proof.connect.debezium.play import compare
from proof.connect.postgres import IS_INSTALLED, MISSING, Postgres
from proof.connect.stories import story
from proof.metadata.oracle import javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_INSTALLED, reason=MISSING),
    pytest.mark.skipif(javac() is None, reason="there is no javac to compile Debezium's starter with"),
]


async def test_two_short_stories_are_told_alike() -> None:
    with Postgres() as server, Debezium() as debezium:
        for seed in (6, 10):
            count, different = await compare(server, debezium, story(Random(seed), steps=30, large=500), f"short_{seed}")
            assert count > 30
            assert different == []
