"""Every case of a hot function runs: a case that rots measures nothing."""

import asyncio

import pytest

from benchmarks.micro.cases import CASES, bench
from benchmarks.micro.marks import hot_functions


def test_every_case_is_of_a_hot_function() -> None:
    assert set(CASES) <= {hot.name for hot in hot_functions()}


@pytest.mark.parametrize("name", CASES)
def test_a_case_runs(name: str) -> None:
    async def once() -> None:
        with bench() as at:
            CASES[name](at)()

    asyncio.run(once())
