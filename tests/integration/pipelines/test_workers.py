"""Spark's Python workers import the PySpark that is installed, and not its archive, which Python would compile for each of them."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_workers_import_what_is_installed(spark: SparkSession) -> None:
    def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import py4j
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([pyspark.__file__, py4j.__file__])], ["place"])

    found = [row.place for row in spark.range(1).mapInArrow(places, "place STRING").collect()]
    assert len(found) == 2
    assert not [place for place in found if ".zip" in place]
