"""Source and sink against an Apache Kafka that authenticates its clients: every mechanism copies a stream, and refusals are reported."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.pipelines.topics import create_topics
from proof.kafka.secured import MECHANISMS, PASSWORD, USER, SecuredKafka, unsecured_token

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROWS = 300


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka(properties={"listener.name.ssl.ssl.client.auth": "required"}) as running:
        yield running


@pytest.fixture(scope="module")
def source(spark: SparkSession, kafka: SecuredKafka) -> str:
    create_topics(kafka.bootstrap, {"in": {}}, partitions=2)
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("moldau").mode("append").options(**{"kafka.bootstrap.servers": kafka.bootstrap, "topic": "in"}).save()
    return "in"


def by_sasl(kafka: SecuredKafka, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Options with Java's JAAS line, as it stands in a file that a user brings."""
    assert kafka.certificates is not None
    quoted = password.replace('"', '\\"')
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    proof = {"kafka.sasl.jaas.config": f'org.apache.kafka.common.security.{module} required username="{USER}" password="{quoted}";'}
    if mechanism == "OAUTHBEARER":
        proof = {"kafka.sasl.oauthbearer.token": unsecured_token()}
    return {
        "kafka.bootstrap.servers": kafka.sasl,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(kafka.certificates.authority),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.sasl.mechanism": mechanism,
        **proof,
    }


def by_certificate(kafka: SecuredKafka, keystore: Path) -> dict[str, str]:
    assert kafka.certificates is not None
    keystore.write_text(kafka.certificates.key.read_text("ascii") + kafka.certificates.certificate.read_text("ascii"), "ascii")
    return {
        "kafka.bootstrap.servers": kafka.tls,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.certificates": kafka.certificates.authority.read_text("ascii"),
        "kafka.ssl.keystore.location": str(keystore),
    }


def copy(spark: SparkSession, options: dict[str, str], source: str, target: str, checkpoint: str) -> None:
    frame = spark.readStream.format("moldau").options(**options, subscribe=source, startingOffsets="earliest").load()
    writer = frame.select("key", "value").writeStream.format("moldau").options(**options, topic=target, checkpointLocation=checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize("way", ["certificate", *MECHANISMS])
def test_a_stream_is_copied(spark: SparkSession, kafka: SecuredKafka, source: str, way: str, checkpoint: str, tmp_path: Path) -> None:
    options = by_certificate(kafka, tmp_path / "client.pem") if way == "certificate" else by_sasl(kafka, way)
    create_topics(kafka.bootstrap, {way: {}}, partitions=2)
    copy(spark, options, source, way, checkpoint)
    committed = {**options, "subscribe": way, "kafka.isolation.level": "read_committed"}
    found = spark.read.format("moldau").options(**committed).load().collect()
    assert sorted(int(row.value) for row in found) == list(range(ROWS))


def test_refusals_are_said(spark: SparkSession, kafka: SecuredKafka, source: str, checkpoint: str) -> None:
    with pytest.raises(Exception, match="AuthenticationError"):
        copy(spark, by_sasl(kafka, "SCRAM-SHA-512", "wrong"), source, "out", checkpoint)
    untrusted = by_sasl(kafka, "PLAIN")
    del untrusted["kafka.ssl.truststore.location"]
    with pytest.raises(Exception, match="certificate verify failed"):
        copy(spark, {**untrusted, "kafka.default.api.timeout.ms": "1000"}, source, "out", checkpoint)
