"""Records that may succeed later: tried again as long as errors.retry.timeout says, on the loop's virtual time."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from moldau.connect.errors import ConnectError, DataError, RetriableError
from moldau.connect.store.configs import TaskId
from moldau.connect.worker.failures import Stage, Tolerance
from moldau.connect.worker.retries import Retries
from moldau.connect.worker.task import TaskRun


def delays(retries: Retries, chance: float = 0.5) -> list[float]:
    """Pauses until the task gives up, when the operation itself takes no time; at most twelve."""
    found: list[float] = []
    while len(found) < 12 and (delay := retries.delay_ms(len(found) + 1, sum(found), lambda: chance)) is not None:
        found.append(delay)
    return found


def test_pauses_double_and_end_with_the_timeout() -> None:
    assert delays(Retries(0, 60_000)) == []
    assert delays(Retries(3000, 60_000)) == [300, 600, 1200, 900]
    assert delays(Retries(-1, 1000)) == [300, 600, *[500] * 10]
    assert sum(delays(Retries(500, 100))) == 500


class Converting(TaskRun):
    """A task whose converter fails as often as it is told to."""

    def __init__(self, failures: int, config: Mapping[str, str], error: Exception) -> None:
        super().__init__(TaskId("c", 0), config, config, None)  # type: ignore[arg-type]  # nothing of its surroundings is used
        self.tolerance, self.retries = Tolerance.of(config), Retries.of(config)
        self.left, self.error, self.tries = failures, error, 0

    async def work(self) -> None:
        raise NotImplementedError

    def convert(self) -> str | None:
        self.tries += 1
        try:
            if self.left:
                self.left -= 1
                raise self.error
        except Exception as error:
            if self.is_for_later(error):
                raise
            self.passed_over(self.converting(Stage.VALUE_CONVERTER, None, error), None)  # type: ignore[arg-type]
            return None
        return "converted"


async def outcome(task: Converting) -> Any:
    """The result, the number of tries, and the time that they took."""
    began = asyncio.get_running_loop().time()
    try:
        result: Any = await task.tried(task.convert)
    except ConnectError as error:
        result = str(error)
    return result, task.tries, round(asyncio.get_running_loop().time() - began, 3)


NAMED = {"value.converter": "V"}
AGAIN = {"errors.retry.timeout": "2000", **NAMED}


async def test_a_record_that_succeeds_in_time_is_there() -> None:
    assert await outcome(Converting(2, AGAIN, RetriableError("away"))) == ("converted", 3, 0.9)


async def test_a_record_that_does_not_fails_the_task_or_is_passed_over() -> None:
    said = "Tolerance exceeded in error handler: VALUE_CONVERTER (V): away"
    assert await outcome(Converting(99, AGAIN, RetriableError("away"))) == (said, 5, 2.0)
    assert await outcome(Converting(99, {**AGAIN, "errors.tolerance": "all"}, RetriableError("away"))) == (None, 5, 2.0)


async def test_without_a_timeout_and_for_other_errors_there_is_one_try() -> None:
    said = "Tolerance exceeded in error handler: VALUE_CONVERTER (V): away"
    assert await outcome(Converting(99, NAMED, RetriableError("away"))) == (said, 1, 0.0)
    assert await outcome(Converting(99, AGAIN, DataError("away"))) == (said, 1, 0.0)


async def test_a_task_that_is_to_stop_waits_no_longer() -> None:
    task = Converting(99, {**NAMED, "errors.retry.timeout": "-1"}, RetriableError("away"))
    trying = asyncio.create_task(task.tried(task.convert))
    await asyncio.sleep(100)
    await task.stop(is_told=False)
    with pytest.raises(asyncio.CancelledError):
        await trying
