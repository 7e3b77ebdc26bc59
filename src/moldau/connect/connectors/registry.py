"""● Connectors by class name: the whole name, or its last part with or without `Connector`, as Kafka's worker finds them."""

from importlib import import_module
from typing import Final

from moldau.connect.connectors.connector import Connector
from moldau.connect.errors import BadRequest

_HERE: Final = "moldau.connect.connectors"
_MODULES: Final = {
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": (f"{_HERE}.search.sink", "OpenSearchSink"),
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": (f"{_HERE}.search.sink", "ElasticsearchSink"),
    "io.confluent.connect.jdbc.JdbcSinkConnector": (f"{_HERE}.jdbc.sink", "JdbcSink"),
    "io.confluent.connect.jdbc.JdbcSourceConnector": (f"{_HERE}.jdbc.source", "JdbcSource"),
    "io.confluent.connect.s3.S3SinkConnector": (f"{_HERE}.warehouse.parquet", "S3Sink"),
    "moldau.connect.DeltaSinkConnector": (f"{_HERE}.warehouse.delta", "DeltaSink"),
    "moldau.connect.HttpSourceConnector": (f"{_HERE}.http_source", "HttpSource"),
    "moldau.connect.LogFilesSourceConnector": (f"{_HERE}.logs.source", "LogFiles"),
    "moldau.connect.ParquetSinkConnector": (f"{_HERE}.warehouse.parquet", "ParquetSink"),
    "org.apache.iceberg.connect.IcebergSinkConnector": (f"{_HERE}.warehouse.iceberg", "IcebergSink"),
    "io.confluent.connect.http.HttpSinkConnector": (f"{_HERE}.http", "HttpSink"),
    "io.debezium.connector.postgresql.PostgresConnector": (f"{_HERE}.postgres.source", "PostgresSource"),
    "moldau.connect.TopicMirrorConnector": (f"{_HERE}.mirror", "TopicMirror"),
    "org.apache.kafka.connect.file.FileStreamSinkConnector": (f"{_HERE}.file", "FileStreamSink"),
    "org.apache.kafka.connect.file.FileStreamSourceConnector": (f"{_HERE}.file", "FileStreamSource"),
}
ALIASES: Final = {
    "io.aiven.connect.jdbc.JdbcSinkConnector": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "io.aiven.connect.jdbc.JdbcSourceConnector": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "io.aiven.kafka.connect.http.HttpSinkConnector": "io.confluent.connect.http.HttpSinkConnector",
    "io.tabular.iceberg.connect.IcebergSinkConnector": "org.apache.iceberg.connect.IcebergSinkConnector",
    "org.opensearch.kafka.connect.OpensearchSinkConnector": "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
}
"""Classes of other makers with the same options."""


def known() -> list[str]:
    """The first name of each connector, sorted."""
    return sorted(_MODULES)


def connector_of(name: str) -> Connector:
    """Errors: BadRequest."""
    name = ALIASES.get(name, name)
    for full in _MODULES:
        if name == full or name in (last := full.rpartition(".")[2], last.removesuffix("Connector")):
            return load(full)
    raise BadRequest(
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors are: {', '.join(known())}"
    )


def load(full: str) -> Connector:
    module, name = _MODULES[full]
    found = getattr(import_module(module), name)()
    assert isinstance(found, Connector)
    return found
