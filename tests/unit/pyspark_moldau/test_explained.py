"""Errors of brokers, told with the way out."""

from moldau.errors import ErrorCode, KafkaError
from pyspark_moldau.rows import SinkError
from pyspark_moldau.sink import explained


def test_a_group_whose_coordinator_lost_the_end_of_a_transaction() -> None:
    error = KafkaError(ErrorCode.UNSTABLE_OFFSET_COMMIT, "offsets of group spark.a: undecided.")
    told = explained(error, "spark.a")
    assert isinstance(told, SinkError)
    assert "offsets of group spark.a" in str(told)
    assert "'sinkId'" in str(told)


def test_an_error_without_a_way_out_stays() -> None:
    error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator")
    assert explained(error, "spark.a") is error
