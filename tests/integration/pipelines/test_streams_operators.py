"""Every operator on Spark gives what Kafka Streams 4.3.1 gives, across micro-batches and a restart on the checkpoint.

`python -m proof.streams.on_spark` tries more inputs.
"""

import pytest
from pyspark.sql import SparkSession

from proof.metadata.oracle import javac
from proof.streams.on_spark import GROUPS, Group, compared
from proof.streams.run import streams_oracle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(javac() is None, reason="no javac: the program that asks Kafka's classes is compiled here"),
]
CASES = 5


@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_operators_on_spark_answer_as_kafka_streams(spark: SparkSession, group: Group) -> None:
    with streams_oracle() as oracle:
        inputs, found, _ = compared(spark, oracle, group, CASES)
    assert not found, found[0]
    assert inputs >= CASES * len(group.operators)
