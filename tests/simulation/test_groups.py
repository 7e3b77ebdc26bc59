"""A coordinator of groups under fire, from a thousand seeds: late and lost messages, fail-over, members that die (`testing/group_desk`)."""

from collections import Counter

import pytest

from proof.groups.desk import GROUPS, GroupSimulation

pytestmark = pytest.mark.slow

SEEDS_A_TEST = 100


@pytest.mark.parametrize("start", range(1000, 2000, SEEDS_A_TEST))
def test_groups_under_fire(start: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(start, start + SEEDS_A_TEST):
        result = GroupSimulation(seed).run()
        assert not result.violations, f"seed {seed}: " + "\n".join(result.violations)
        done.update(result.done)
    # Every kind of answer that a member can hear was heard.
    assert done["commit: NONE"] > 5_000 and done["fail-over"] > 300
    for heard in ("heartbeat: REBALANCE_IN_PROGRESS", "commit: UNKNOWN_MEMBER_ID", "report: UNRELEASED_INSTANCE_ID", "reset: NONE"):
        assert done[heard], f"{heard}: {done}"


@pytest.mark.parametrize("group_id", GROUPS)
def test_a_seed_is_one_history(group_id: str) -> None:
    first, second = (GroupSimulation(7, group_id=group_id) for _ in range(2))
    assert first.run() == second.run()
    assert first.history == second.history
