"""One Spark session and one broker for all tests of the jobs: each costs seconds to start."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.pipelines.session import SHORT_LIVED, open_session
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.kafka.jars import spark_connector_jars

_numbers = itertools.count()


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """A broker of ours; `MOLDAU_TEST_BOOTSTRAP` names one that runs already."""
    if address := os.environ.get("MOLDAU_TEST_BOOTSTRAP"):
        yield address
        return
    with BrokerProcess() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def apache_bootstrap() -> Iterator[str]:
    with ApacheKafka() as broker:
        yield broker.bootstrap


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.java)])
def either_bootstrap(request: pytest.FixtureRequest) -> str:
    """Our broker, then Apache Kafka."""
    return str(request.getfixturevalue("bootstrap" if request.param == "ours" else "apache_bootstrap"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {**SHORT_LIVED, "spark.jars": ",".join(map(str, spark_connector_jars()))}  # the stock connector, to compare with
    session = open_session("tests", master="local[2]", log_file=tmp_path_factory.mktemp("spark") / "spark.log", settings=settings)
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture
def prefix() -> str:
    """The prefix of topics that only one test uses."""
    return f"t{os.getpid()}-{next(_numbers)}-"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
