"""Many members on a real broker come and go in bursts; after each burst the group settles.  Long runs: docs/reliability/groups.md."""

import asyncio
from collections.abc import Iterator

import pytest

from moldau.testing.process import BrokerProcess
from proof.groups.swarm import SWARM_PROPERTIES, swarm

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("groups")]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_group_settles_after_every_burst(crowded: BrokerProcess, protocol: str) -> None:
    report = asyncio.run(swarm(("127.0.0.1", crowded.port), members=100, group=protocol, bursts=1))
    assert not report.violations, report.violations[:5]
    assert report.lives > 130 and report.rebalances > 2 and report.commits > 20 and len(report.settled_after_s) == 2, report


@pytest.fixture(scope="module")
def crowded() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=SWARM_PROPERTIES) as one:
        yield one
