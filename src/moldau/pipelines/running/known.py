"""● The pipelines that `moldau pipelines` knows: the purpose, the settings and the queries of each."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.pipelines.running.settings import REQUIRED, Field, at_least, filled, words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from moldau.pipelines.ends import Ends

MOST_PORT: Final = 65_535


def _port(found: Any) -> int:
    number = at_least(0)(found)
    if number > MOST_PORT:
        raise ValueError(f"a port is at most {MOST_PORT}, not {found}")
    return number


COMMON: Final = (
    Field("bootstrap_servers", REQUIRED, filled, "host:port of some brokers, separated by commas"),
    Field("checkpoint", REQUIRED, filled, "a folder or URL that outlives the job: it goes on where this says"),
    Field("topic_prefix", "", words, "goes before the names of all topics"),
    Field("partitions", 3, at_least(0), "topics that are missing are made with so many partitions; 0 makes none"),
    Field("max_records_per_batch", 6_000, at_least(1), "the most that one micro-batch reads of a topic"),
    Field("trigger_ms", 500, at_least(0), "micro-batches begin so far apart, or one after the other"),
    Field("metrics_port", 0, _port, "figures in Prometheus' form are served there; 0 serves none"),
)


class Runnable(NamedTuple):
    """A pipeline with its settings read."""

    queries: Sequence[str]
    topics: Mapping[str, Mapping[str, str]]
    """The configs of each topic, used when the topic has to be made."""
    start: Callable[["SparkSession", str], "StreamingQuery"]
    """Starts one query by its name."""
    former: Sequence[str] = ()
    """Queries of earlier releases.  Nothing goes on from their checkpoints."""


class Pipeline(NamedTuple):
    name: str
    about: str
    rules: Sequence[Field]
    state_versions: range
    """The pipeline goes on from checkpoints of these versions, and writes the last one."""
    build: Callable[[Mapping[str, Any], "Ends"], Runnable]

    @property
    def fields(self) -> Sequence[Field]:
        return (*COMMON, *self.rules)


def _order_validation(values: Mapping[str, Any], ends: "Ends") -> Runnable:
    from moldau.pipelines.rolling import Limit
    from moldau.pipelines.validation import job
    from moldau.pipelines.validation.model import Topics

    topics = Topics.prefixed(values["topic_prefix"])
    config = job.JobConfig(
        ends,
        catalogue_of(values["rules.catalogue"]),
        topics,
        Limit(most=values["rules.most_cents_a_day"]),
        deadline_ms=values["rules.deadline_s"] * 1000,
        straggler_ms=values["rules.straggler_s"] * 1000,
    )
    return Runnable((job.QUERY,), topics.configs(), lambda spark, name: job.start(spark, config), job.FORMER)


def _promo(values: Mapping[str, Any], ends: "Ends") -> Runnable:
    from moldau.pipelines.promo import job
    from moldau.pipelines.promo.model import PromoTopics
    from moldau.pipelines.rolling import Limit

    topics = PromoTopics.prefixed(values["topic_prefix"])
    config = job.PromoConfig(ends, topics, Limit(most=values["rules.most_units_a_day"]))
    return Runnable((job.QUERY,), topics.configs(), lambda spark, name: job.start(spark, config))


def catalogue_of(path: str) -> dict[int, int]:
    """Product id → units on a full shelf, from a file of JSON; without one, of the demonstration's shop.  Errors: ValueError, OSError."""
    if path:
        return read_catalogue(path)
    from moldau.pipelines import retail

    return retail.catalogue()


def read_catalogue(path: str) -> dict[int, int]:
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not all(name.isdigit() and type(units) is int and units >= 0 for name, units in found.items()):
        raise ValueError(f'rules.catalogue: {path} is to hold products and their units, as {{"1029743": 12}}')
    return {int(name): units for name, units in found.items()}


PIPELINES: Final = {
    one.name: one
    for one in (
        Pipeline(
            "order-validation",
            "judges orders: fraud, inventory, details",
            (
                Field(
                    "rules.catalogue",
                    "",
                    words,
                    "a file of JSON, product id to units on a full shelf; without it the demo's",
                ),
                Field("rules.most_cents_a_day", 25_000, at_least(1), "the most that a customer may spend within any 24 hours"),
                Field("rules.deadline_s", 600, at_least(1), "an order without all answers is judged so long after it was seen"),
                Field("rules.straggler_s", 600, at_least(1), "the same, counted from its first answer"),
            ),
            # 2: reservations can be freed; 3: one query instead of two; 4: a store lists few orders that hold nothing
            # 5: state lies by shard; 6: one source and two steps, a step has one mapping
            range(6, 7),
            _order_validation,
        ),
        Pipeline(
            "promo",
            "holds a promotion's limit: so many units a customer within 24 hours",
            (Field("rules.most_units_a_day", 5, at_least(1), "the most units a customer gets within any 24 hours"),),
            range(4, 5),  # 3: state lies by shard; 4: the step has one mapping
            _promo,
        ),
    )
}
