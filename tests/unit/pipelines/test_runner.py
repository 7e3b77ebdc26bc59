"""Queries kept running: what fails is started again, later and later, and says why."""

from typing import Any

from moldau.pipelines.runner import FORGIVEN_AFTER_S, Kept, look, pause_s


class Query:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.isActive = True

    def exception(self) -> Exception | None:
        return self.error

    def fail(self, reason: str) -> None:
        self.error, self.isActive = RuntimeError(reason), False


class Spark:
    """Starts queries, or refuses to."""

    def __init__(self) -> None:
        self.started: list[Query] = []
        self.refuses = False

    def start(self) -> Any:
        if self.refuses:
            raise OSError("no broker")
        self.started.append(Query())
        return self.started[-1]


def test_a_failed_query_starts_again_after_a_pause_and_says_why() -> None:
    spark, said = Spark(), []
    kept = Kept("checks", spark.start)
    look(kept, said.append, 0.0)
    spark.started[0].fail("broker away\nstack trace")
    for now_s in (10.0, 10.5, 11.0, 12.0):
        look(kept, said.append, now_s)
    assert len(spark.started) == 2
    assert said == ["query checks ended (RuntimeError: broker away); it starts again in 1 s"]


def test_a_start_that_fails_is_tried_again_later_and_later() -> None:
    spark, said = Spark(), []
    spark.refuses = True
    kept = Kept("checks", spark.start)
    for now_s in range(8):
        look(kept, said.append, float(now_s))
    assert [line.rpartition(" in ")[2] for line in said] == ["1 s", "2 s", "4 s", "8 s"]
    assert kept.due_s == 15.0


def test_a_query_that_ran_long_starts_again_soon() -> None:
    spark, said = Spark(), []
    kept = Kept("checks", spark.start, failures=5)
    look(kept, said.append, 0.0)
    spark.started[0].fail("again")
    look(kept, said.append, FORGIVEN_AFTER_S + 1)
    assert said[0].endswith("1 s")


def test_the_pause_has_an_end() -> None:
    assert [pause_s(failures) for failures in (1, 2, 7, 10_000)] == [1.0, 2.0, 60.0, 60.0]
