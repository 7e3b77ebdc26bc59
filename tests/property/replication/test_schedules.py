"""Random schedules of one replicated partition: appends, fetches, syncs, power cuts, elections.  See `proof.replication.schedules`."""

from hypothesis import given
from hypothesis import strategies as st

from proof.replication.schedules import Schedule

STEPS = 120


@given(st.integers(0, 2**32))
def test_what_is_acknowledged_is_never_lost_and_logs_become_equal(seed: int) -> None:
    Schedule(seed).run(STEPS)
