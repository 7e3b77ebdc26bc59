"""Options in either spelling and from files, and errors that say in words what is wrong with them."""

from typing import Any

import pytest

from moldau.clients.connecting import cluster_of
from moldau.clients.consumer import ConsumerOptions
from moldau.clients.options import OptionError, parse_options, read_properties
from moldau.clients.producer.options import ProducerOptions

FILE = """
# a comment
! another
bootstrap.servers = h:1,i:2
group.id: readers
  enable.auto.commit=false
sasl.jaas.config=org.apache.Module required \\
    username="alice" password="se=cret";
client.id=
"""


def test_a_properties_file() -> None:
    found = read_properties(FILE)
    assert found["bootstrap.servers"] == "h:1,i:2"
    assert found["sasl.jaas.config"] == 'org.apache.Module required username="alice" password="se=cret";'
    options = parse_options(ConsumerOptions, found)
    assert (options.group_id, options.enable_auto_commit, options.client_id) == ("readers", False, "")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"auto_offset_reset": "begin"}, "by_duration:PT1H"),
        ({"auto_offset_reset": "by_duration:1h"}, "by_duration:PT1H"),
        ({"partition_assignment_strategy": "best"}, "cooperative-sticky"),
        ({"heartbeat_interval_ms": 60_000}, "session.timeout.ms=45000"),
        ({"isolation.level": "serializable"}, "read_committed"),
        ({"max_poll_record": 5}, "nearest is max_poll_records"),
        ({"enable.auto.commit": "yes"}, "true or false"),
        ({"fetch_max_bytes": True}, "a number is expected"),
        ({"security.protocol": "TELNET"}, "SASL_SSL"),
        ({"group_id": 5}, "str is expected"),
        ({"group_id": " "}, "it cannot be empty"),
        ({"group_instance_id": ""}, "ASCII"),
        ({"group_instance_id": "a b"}, "ASCII"),
        ({"value_deserializer": 5}, "a function is expected"),
        ({"value_deserializer": "json"}, "a function is expected"),
        ({"interceptors": object()}, "a list of objects is expected"),
        ({"max_poll_records": 1.5}, "int is expected"),
    ],
)
def test_what_cannot_be(given: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse_options(ConsumerOptions, given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"compression_gzip_level": 10}, "1 to 9"),
        ({"compression.lz4.level": "18"}, "1 to 17"),
        ({"compression_zstd_level": 23}, "-131072 to 22"),
        ({"key_serializer": "str"}, "a function is expected"),
        ({"interceptors": "x"}, "a list of objects is expected"),
    ],
)
def test_what_cannot_be_of_a_producer(given: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse_options(ProducerOptions, given)


def test_javas_classes_have_no_effect() -> None:
    """A properties file of a Java program works, too."""
    options = parse_options(ProducerOptions, {"key.serializer": "org.apache.kafka.common.serialization.StringSerializer"})
    assert options.key_serializer is None
    assert parse_options(ProducerOptions, {"compression.gzip.level": "-1"}).compression_gzip_level == -1


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({"group_protocol": "consumer", "session_timeout_ms": 6000}, ["session_timeout_ms"]),
        ({"group_protocol": "consumer", "partition_assignment_strategy": "range"}, ["partition_assignment_strategy"]),
        ({"group_remote_assignor": "uniform"}, ["group_remote_assignor"]),
        ({"session_timeout_ms": 6000}, []),
        ({"group_protocol": "consumer", "group_remote_assignor": "uniform"}, []),
    ],
)
def test_options_of_the_other_protocol(given: dict[str, object], unused: list[str]) -> None:
    assert parse_options(ConsumerOptions, given).without_meaning == unused


@pytest.mark.parametrize("servers", [5, b"h:1", ("h", 9092), []])
def test_addresses_that_cannot_be(servers: Any) -> None:
    with pytest.raises(OptionError, match=r"bootstrap\.servers"):
        cluster_of(servers, ConsumerOptions())


def test_addresses_in_a_list() -> None:
    assert cluster_of(None, parse_options(ConsumerOptions, {"bootstrap.servers": ["h:1", "[::1]:2"]})).bootstrap == "h:1,[::1]:2"


def test_durations() -> None:
    assert parse_options(ConsumerOptions, {"auto_offset_reset": "by_duration:P1DT1H2M3.5S"}).reset_before_ms == 90_123_500


def test_no_secret_is_shown() -> None:
    options = parse_options(ConsumerOptions, {"sasl_password": "sesame", "sasl_jaas_config": 'x password="sesame"'})
    assert "sesame" not in repr(options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"security_protocol": "SASL_PLAINTEXT"}, "needs a name and a password"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_username": "a", "sasl_password": "b"}, "SCRAM-SHA-512"),
        ({"security_protocol": "SSL", "ssl_truststore_type": "JKS"}, "openssl pkcs12"),
        ({"bootstrap_servers": "h:x"}, "host:port"),
    ],
)
def test_connections_that_cannot_be(given: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        cluster_of(None, parse_options(ConsumerOptions, given))
