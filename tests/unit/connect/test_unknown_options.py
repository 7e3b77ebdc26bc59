"""Options that nobody reads are named, with the nearest one; those of converters, transforms and clients are known."""

import pytest

from moldau.connect.connectors.registry import connector_of
from moldau.connect.worker.unknown import unknown_options

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {"key.converter": STRINGS, "value.converter": STRINGS}
REGEX = "org.apache.kafka.connect.transforms.RegexRouter"


def sentences(name: str, **config: str) -> list[str]:
    return list(unknown_options(connector_of(name), {"name": "c", "connector.class": name, **config}, WORKER))


@pytest.mark.parametrize(
    "config",
    [
        {"file": "x", "topic": "t", "batch.size": "1"},
        {"transforms": "a", "transforms.a.type": REGEX, "transforms.a.regex": ".", "transforms.a.replacement": "x"},
        {"value.converter": JSON, "value.converter.schemas.enable": "false", "producer.override.linger.ms": "5"},
        {"topic.creation.groups": "g", "topic.creation.g.include": "x.*", "topic.creation.default.partitions": "3"},
    ],
)
def test_options_that_are_read_are_known(config: dict[str, str]) -> None:
    assert sentences("FileStreamSource", **config) == []


def test_a_misspelt_option_is_named_with_the_one_that_was_meant() -> None:
    assert sentences("FileStreamSource", **{"batch.sizes": "1", "colour": "red"}) == [
        "batch.sizes is no option of org.apache.kafka.connect.file.FileStreamSourceConnector here and has no effect; "
        "the nearest is batch.size",
        "colour is no option of org.apache.kafka.connect.file.FileStreamSourceConnector here and has no effect",
    ]


def test_options_of_a_converter_that_the_connector_does_not_name_have_no_effect() -> None:
    (found,) = sentences("FileStreamSource", **{"value.converter.schemas.enable": "false"})
    assert found.startswith("value.converter.schemas.enable is no option")


def test_options_that_go_on_to_a_library_are_known() -> None:
    catalog = {"iceberg.tables": "a.b", "iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite:///x"}
    assert sentences("org.apache.iceberg.connect.IcebergSinkConnector", topics="t", **catalog) == []
