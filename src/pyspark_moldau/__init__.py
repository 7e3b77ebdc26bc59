"""● `format("moldau")`: Spark reads and writes topics, of Moldau and of Apache Kafka, without a jar and exactly once.

    spark.readStream.format("moldau").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Spark finds this package by its name.  Start reading at `options`, then `source` and `sink`; `by_output_partition` arranges large frames.
"""

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""Spark's process that tells readers their filters, where `spark.sql.python.filterPushdown.enabled` is set."""


def by_output_partition(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The frame arranged for the sink, see `layout`.  Then give the sink `onePartitionOneTask`."""
    from pyspark_moldau.layout import by_output_partition as arranged

    return arranged(frame, options)


class DefaultSource(DataSource):
    """The class that Spark asks for by the name `moldau`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        from pyspark_moldau.options import read_options

        self.parsed = read_options(dict(options.items()))

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> str:
        from pyspark_moldau.arrow import HEADERS, SCHEMA

        return f"{SCHEMA}, {HEADERS}" if self.parsed.get("includeHeaders") else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_moldau.source import BatchReader, PushedReader

        is_pushed = PUSHING_WORKER in sys.modules
        return (PushedReader if is_pushed else BatchReader)(self.parsed, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_moldau.source import StreamReader

        return StreamReader(self.parsed, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from pyspark_moldau.sink import StreamWriter

        return StreamWriter(self.parsed, schema, dict(self.options.items()))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from pyspark_moldau.sink import BatchWriter

        return BatchWriter(self.parsed, schema, dict(self.options.items()))
