"""Options in either spelling and from files, and errors that say in words what is wrong with them."""

import pytest

from moldau.clients.connecting import cluster_of
from moldau.clients.consumer import ConsumerOptions
from moldau.clients.options import OptionError, parse_options, read_properties

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
    ],
)
def test_what_cannot_be(given: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse_options(ConsumerOptions, given)


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
