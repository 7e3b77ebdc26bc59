"""Configurations as the makers' own pages print them are taken; what would change the records is refused by name."""

import pytest

from moldau.connect.worker.validation import validate

JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {"key.converter": JSON, "value.converter": JSON}
POSTGRES = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1", "database.hostname": "postgres",
    "database.port": "5432", "database.user": "postgres", "database.password": "postgres", "database.dbname": "postgres",
    "topic.prefix": "dbserver1", "schema.include.list": "inventory", "plugin.name": "pgoutput", "slot.drop.on.stop": "false",
    "max.queue.size": "8192", "snapshot.fetch.size": "10240", "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState", "transforms.unwrap.drop.tombstones": "false",
    "transforms.unwrap.delete.handling.mode": "rewrite", "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "1",
}  # fmt: skip
JDBC = {"connection.url": "jdbc:postgresql://localhost:5432/db", "connection.user": "u", "connection.password": "p"}
SOURCE = {
    **JDBC, "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "mode": "timestamp+incrementing",
    "table.whitelist": "orders",
    "incrementing.column.name": "id", "timestamp.column.name": "updated_at", "topic.prefix": "pg-", "poll.interval.ms": "1000",
    "validate.non.null": "false", "numeric.mapping": "best_fit", "transforms": "key,id", "transforms.id.field": "id",
    "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey", "transforms.key.fields": "id",
    "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
}  # fmt: skip
SINK = {
    **JDBC, "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector", "topics": "orders", "auto.create": "true", "auto.evolve": "true",
    "insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true", "batch.size": "3000",
    "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq", "errors.deadletterqueue.topic.replication.factor": "1",
}  # fmt: skip
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t", "s3.region": "us-west-2", "s3.bucket.name": "b",
    "s3.part.size": "5242880", "flush.size": "3", "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "schema.compatibility": "NONE",
    "partitioner.class": "io.confluent.connect.storage.partitioner.DefaultPartitioner",
}  # fmt: skip
HTTP = {
    "connector.class": "io.confluent.connect.http.HttpSinkConnector", "topics": "t", "http.api.url": "http://localhost:8080/api/messages",
    "request.method": "post", "headers": "Content-Type:application/json|X:1", "auth.type": "BASIC", "connection.user": "admin",
    "connection.password": "pw", "reporter.bootstrap.servers": "localhost:9092",
}  # fmt: skip
SEARCH = {"connector.class": "org.opensearch.kafka.connect.OpensearchSinkConnector", "topics": "t", "connection.url": "http://h:9200"}
TABULAR = {"connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector", "topics": "t", "iceberg.tables": "a.b"}


def errors(config: dict[str, str], **more: str) -> list[str]:
    found, _ = validate({"name": "c", **config, **more}, WORKER)
    return [error for one in found.values() for error in one.errors]


@pytest.mark.parametrize("config", [POSTGRES, SOURCE, SINK, S3, HTTP, SEARCH, {**SEARCH, "key.ignore": "true"}, TABULAR])
def test_they_are_taken(config: dict[str, str]) -> None:
    assert errors(config) == []


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        (POSTGRES, "message.key.columns", "public.t:id"),
        (POSTGRES, "snapshot.mode", "always"),
        (POSTGRES, "plugin.name", "wal2json"),
        (SOURCE, "query", "SELECT 1"),
        (SOURCE, "table.blacklist", "orders"),
        (S3, "format.class", "io.confluent.connect.s3.format.avro.AvroFormat"),
        (S3, "partitioner.class", "io.confluent.connect.storage.partitioner.TimeBasedPartitioner"),
        (HTTP, "auth.type", "OAUTH2"),
    ],
)
def test_what_would_change_the_records_is_refused_by_name(config: dict[str, str], name: str, value: str) -> None:
    (error,) = errors(config, **{name: value})
    assert f"for configuration {name}: " in error
