"""A few seeds of the clients' schedules at the desk; `python -m proof.clients.schedules` takes thousands."""

import pytest

from proof.clients.schedules import Schedule


@pytest.mark.parametrize("seed", [0, 1, 2, 18, 21])
def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    assert Schedule(seed).run() == []
