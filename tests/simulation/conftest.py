"""No coordinator of a simulated broker may change its hard state while it decides."""

from collections.abc import Iterator

import pytest

from proof.coordination import watched_decisions


@pytest.fixture(autouse=True)
def decisions_are_watched() -> Iterator[None]:
    with watched_decisions():
        yield
