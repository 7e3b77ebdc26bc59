"""PostgreSQL → topic → PostgreSQL, while workers, broker and database are killed: the copy ends equal to the tables."""

import pytest

from proof.connect.chain import run
from proof.connect.postgres import IS_INSTALLED, MISSING

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.skipif(not IS_INSTALLED, reason=MISSING)]


def test_a_copy_of_tables_ends_equal_whatever_is_killed() -> None:
    assert run(["postgres"], ["worker", "database", "broker"], rounds=1, seed=1, changes=90) == 0
