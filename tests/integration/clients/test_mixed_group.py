"""Our client, Java's, confluent-kafka and aiokafka in one group; members are killed, paused and stopped.

Long runs: docs/reliability/clients.md.
"""

import pytest

from proof.clients.mixed.run import run
from proof.metadata.oracle import javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.skipif(javac() is None, reason="there is no javac: Java's member cannot be compiled"),
    pytest.mark.xdist_group("mixed group"),
]


@pytest.mark.parametrize(("broker", "way"), [("moldau", "range"), ("moldau", "both"), ("apache", "both")])
async def test_a_group_of_four_clients_loses_nothing(broker: str, way: str) -> None:
    report = await run(broker=broker, way=way, rounds=3, seed=3)
    assert not report.violations, report.violations[:5]
    assert set(report.lives) == {"moldau", "java", "confluent", "aiokafka"}
    assert report.records > 500 and report.commits > 50 and sum(report.faults.values()) == 3, report
