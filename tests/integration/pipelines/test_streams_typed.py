"""The rows of a topic come with typed columns, as its serdes declare them: in a stream, and in a batch that was read from the topic."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from moldau.pipelines.streams import JSON, LONG, STRING, StreamsBuilder, TimeWindows, Topology, TopologyError, json_as, time_windowed
from moldau.pipelines.streams.spark import applied, typed

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]
SCHEMA = "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, timestamp TIMESTAMP"
SPENT = "STRUCT<customer: STRING, cents: BIGINT>"


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=LONG).group_by_key()
    spent = orders.aggregate(int, lambda key, cents, total: total + cents).to_stream()
    spent.to("totals", value=LONG)
    spent.map_values(lambda key, cents: {"customer": key, "cents": cents}).to("spent", value=json_as(SPENT))
    windows = orders.windowed_by(TimeWindows(1_000)).count()
    windows.to_stream().to("windows", key=time_windowed(STRING, 1_000), value=LONG)
    spent.to("untyped", value=JSON)
    return builder.build()


def rows(frame: DataFrame) -> list[tuple[Any, Any]]:
    return [(_plain(row.key), _plain(row.value)) for row in frame.collect()]


def _plain(value: Any) -> Any:
    return value.asDict() if isinstance(value, Row) else value


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[StructType, list[tuple[Any, Any]]]]:
    """The schema and the rows of each topic, of one query."""
    folder: Path = tmp_path_factory.mktemp("typed")
    orders = [("anna", 250), ("anna", 100), ("ben", 5)]
    records = [("orders", 0, at, key.encode(), LONG.write(cents), datetime(2026, 1, 1)) for at, (key, cents) in enumerate(orders)]
    spark.createDataFrame(records, SCHEMA).coalesce(1).write.parquet(str(folder / "orders"))
    out = applied(topology(), {"orders": spark.readStream.schema(SCHEMA).parquet(str(folder / "orders"))}, 1)
    found: dict[str, tuple[StructType, list[tuple[Any, Any]]]] = {}

    def told(frame: DataFrame, number: int) -> None:
        frame.persist()
        for topic in ("totals", "spent", "windows"):
            one = typed(topology(), frame, topic)
            found[topic] = (one.schema, rows(one))
        frame.unpersist()

    query = out.writeStream.foreachBatch(told).option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return found


def test_columns_have_the_types_of_the_serdes(written: dict[str, tuple[StructType, list[tuple[Any, Any]]]]) -> None:
    types = {topic: {field.name: field.dataType.simpleString() for field in schema.fields} for topic, (schema, _) in written.items()}
    assert types["totals"]["key"] == "string" and types["totals"]["value"] == "bigint"
    assert types["spent"]["value"] == "struct<customer:string,cents:bigint>"
    assert types["windows"]["key"] == "struct<key:string,start:bigint,end:bigint>"
    assert list(types["totals"]) == ["key", "value", "timestamp", "headers"]


def test_values_are_what_the_operators_gave(written: dict[str, tuple[StructType, list[tuple[Any, Any]]]]) -> None:
    assert written["totals"][1] == [("anna", 250), ("anna", 350), ("ben", 5)]
    assert written["spent"][1][1] == ("anna", {"customer": "anna", "cents": 350})
    (begins,) = {key["start"] for key, _ in written["windows"][1]}
    assert written["windows"][1][1] == ({"key": "anna", "start": begins, "end": begins + 1_000}, 2)


def test_a_batch_that_was_read_from_the_topic_is_typed_too(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("totals", b"anna", LONG.write(9)), ("totals", b"ben", None)], "topic STRING, key BINARY, value BINARY")
    frame = frame.selectExpr("*", "now() AS timestamp", "NULL AS headers")
    assert sorted(rows(typed(topology(), frame, "totals"))) == [("anna", 9), ("ben", None)]


def test_what_has_no_type_or_is_not_written_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "topic STRING, key BINARY, value BINARY, timestamp TIMESTAMP, headers STRING")
    with pytest.raises(TopologyError, match=r"nothing is written to total: there are spent, totals"):
        typed(topology(), frame, "total")
    with pytest.raises(TopologyError, match=r"serde of the values of untyped declares no type: give json_as"):
        typed(topology(), frame, "untyped")
