"""A rolling upgrade of a group from the classic to the consumer protocol, and back, while records flow."""

from collections import Counter
from collections.abc import Callable

import pytest

from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("groups")]


def test_a_group_is_upgraded_and_downgraded_member_by_member(
    broker: BrokerProcess, crowd, topic: str, produce: Callable[..., list[bytes]]
) -> None:
    """Records come at least once at a hand-over and exactly once between hand-overs; none is lost."""
    group_id = "g-" + topic
    produced: list[bytes] = []

    def flow(count: int = 40) -> None:
        produced.extend(produce(topic, count, start=len(produced)))

    def classic() -> None:
        crowd.join(group_id, topic, **{"partition.assignment.strategy": "range"})

    def consumer() -> None:
        crowd.join(group_id, topic, **{"group.protocol": "consumer"})

    classic()
    classic()
    crowd.settles(2, 2)
    for replacement in (consumer, consumer, classic, classic):
        flow()
        replacement()
        crowd.settles(2, 1, 1)
        flow()
        crowd.leave(crowd.consumers[0])
        crowd.settles(2, 2)
        flow()
    crowd.wait_for(lambda: set(crowd.values()) == set(produced), "reading everything")
    again = Counter(crowd.values())
    assert max(again.values()) <= 3, again.most_common(3)
    settled = len(produced)
    flow()
    crowd.wait_for(lambda: set(crowd.values()) == set(produced), "reading on")
    assert Counter(crowd.values())[produced[settled]] == 1
