"""Queries are kept running: a query that fails is started again, later and later, and says why."""

from typing import Any

from moldau.pipelines.running.keeper import END_WITHIN_S, FORGIVEN_AFTER_S, Kept, end_micro_batches, pause_s, reason_of
from moldau.pipelines.running.keeper import look as look_at


class Query:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.isActive = True

    def exception(self) -> Exception | None:
        return self.error

    def fail(self, reason: str) -> None:
        self.error, self.isActive = RuntimeError(reason), False


class Watch:
    def __init__(self) -> None:
        self.restarts: list[str] = []

    def look(self, name: str, query: Any) -> None: ...
    def say_now_and_then(self, now_s: float) -> None: ...

    def restarted(self, name: str) -> None:
        self.restarts.append(name)


def look(kept: Kept, say: Any, now_s: float, watch: Watch | None = None) -> None:
    look_at(kept, say, now_s, watch or Watch())


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
    watch = Watch()
    for now_s in (10.0, 10.5, 11.0, 12.0):
        look(kept, said.append, now_s, watch)
    assert len(spark.started) == 2
    assert watch.restarts == ["checks"]
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


def test_a_reason_is_the_exception_of_python_that_stands_below_sparks_words() -> None:
    told = """[STREAM_FAILED] Query [id = 1] terminated: Failed when Python data source: Traceback (most recent call last):
  File "sink.py", line 1, in commit
moldau.clients.blocking.cluster.Unreachable: localhost:1: refused
SQLSTATE: 38000
=== Streaming Query ===
Identifier: promo [id = 1]"""
    unreachable = "moldau.clients.blocking.cluster.Unreachable: localhost:1: refused"
    assert reason_of(RuntimeError(told)) == unreachable
    wrapped = "_pickle.PicklingError: Could not serialize object: Unreachable: localhost:1: refused\nSQLSTATE"
    assert reason_of(RuntimeError(told.replace("SQLSTATE", wrapped))) == unreachable
    assert reason_of(OSError("no space")) == "OSError: no space"
    assert reason_of(None) == "stopped by somebody else"


class Busy:
    """A query in a micro-batch, which ends after so many looks at it."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.isActive = True

    @property
    def status(self) -> dict[str, bool]:
        self.looks -= 1
        return {"isTriggerActive": True}

    @property
    def lastProgress(self) -> Any:
        return type("Progress", (), {"timestamp": "1" if self.looks > 0 else "2"})


def test_a_micro_batch_under_way_is_waited_for_but_not_for_ever() -> None:
    query = Busy(3)
    end_micro_batches([query], lambda: 0.0)  # type: ignore[list-item]
    assert query.looks == 0
    clock = iter(range(0, 1_000, int(END_WITHIN_S)))
    stuck = Busy(1_000_000)
    end_micro_batches([stuck], lambda: float(next(clock)))  # type: ignore[list-item]
    assert stuck.looks == 1_000_000
