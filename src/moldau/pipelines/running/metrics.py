"""● Figures of running queries as Prometheus metrics and as log lines."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.running.figures import Reading, Told, reading_of

SAID_EVERY_S: Final = 10.0
BATCH_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)


class Metrics:
    """Call `look` for each query once a second or so; progress that Spark has forgotten by then is not counted."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.registry = CollectorRegistry()
        self.rows = self._counter("rows", "Records read.")
        self.late = self._counter("late", "Records too late to be judged: those that were dead-lettered, and those that Spark dropped.")
        self.letters = self._counter("dead_letters", "Records written to the dead-letter topic.")
        self.restarts = self._counter("restarts", "Times that the query was started again after a failure.")
        self.lag = self._gauge("lag_records", "Records that are there and not read yet.")
        self.state = self._gauge("state_rows", "Rows of state.")
        self.newest = self._gauge("batch_id", "The newest micro-batch.")
        self.seconds = Histogram(
            "moldau_pipeline_batch_seconds", "How long micro-batches took.", ["query"], registry=self.registry, buckets=BATCH_SECONDS
        )
        self._seen: dict[str, str] = {}
        self._told: dict[str, Told] = {}
        self._restarted: dict[str, int] = {}
        self._said_s = 0.0

    def serve(self, port: int) -> None:
        """Errors: OSError."""
        start_http_server(port, registry=self.registry)

    def restarted(self, name: str) -> None:
        self.restarts.labels(name).inc()
        self._restarted[name] = self._restarted.get(name, 0) + 1

    def look(self, name: str, query: StreamingQuery) -> None:
        newest = self._seen.get(name, "")
        for progress in query.recentProgress:
            if progress.timestamp > newest:
                self._seen[name] = progress.timestamp
                self.take(name, reading_of(progress))

    def take(self, name: str, one: Reading) -> None:
        self.rows.labels(name).inc(one.rows)
        self.late.labels(name).inc(one.late + one.dropped)
        self.letters.labels(name).inc(one.dead_letters)
        self.lag.labels(name).set(one.lag)
        self.state.labels(name).set(one.state_rows)
        self.newest.labels(name).set(one.batch_id)
        self.seconds.labels(name).observe(one.seconds)
        self._told[name] = self._told.get(name, Told()).plus(one)

    def say_now_and_then(self, now_s: float) -> None:
        """Say one line every `SAID_EVERY_S` for each query that did something."""
        if now_s - self._said_s < SAID_EVERY_S:
            return
        self._said_s = now_s
        for name, told in self._told.items():
            if told.rows or told.dead_letters:
                self.say(told.line(name, self._restarted.get(name, 0)))
        self._told.clear()

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"moldau_pipeline_{name}", about, ["query"], registry=self.registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"moldau_pipeline_{name}", about, ["query"], registry=self.registry)
