"""Kafka's security options become a TLS context and credentials, or a clear error."""

import ssl

import pytest

from moldau.net.sasl import Plain, Scram
from pyspark_moldau.options import OptionError, read_options
from pyspark_moldau.security import authentication_of, credentials_of, tls_of

LOGIN = r'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="quite \"secret\"";'


def told(**options: str) -> object:
    return read_options({"kafka.bootstrap.servers": "h:1"} | {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()})


def test_a_login_line_is_read() -> None:
    assert credentials_of(told(sasl_mechanism="PLAIN", sasl_jaas_config=LOGIN)) == Plain("alice", 'quite "secret"')  # type: ignore[arg-type]
    found = credentials_of(told(sasl_mechanism="scram-sha-256", sasl_username="bob", sasl_password="x"))  # type: ignore[arg-type]
    assert (found, found.mechanism) == (Scram("bob", "x", mechanism="SCRAM-SHA-256"), "SCRAM-SHA-256")


def test_without_security_there_is_none() -> None:
    assert tls_of(told()) is None  # type: ignore[arg-type]
    assert authentication_of(told()) is None  # type: ignore[arg-type]


def test_names_are_compared_unless_told_otherwise() -> None:
    context = tls_of(told(security_protocol="SSL"))  # type: ignore[arg-type]
    assert context is not None and context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
    context = tls_of(told(security_protocol="SSL", ssl_endpoint_identification_algorithm=""))  # type: ignore[arg-type]
    assert context is not None and not context.check_hostname


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security_protocol": "SASL_SSL"}, "PLAIN or SCRAM-SHA-256"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "not 'GSSAPI'"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "it says no username"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "kafka.sasl.oauthbearer.token"),
    ],
)
def test_what_is_missing_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        authentication_of(told(**options))  # type: ignore[arg-type]


def test_a_file_that_is_no_certificate_is_said() -> None:
    with pytest.raises(OptionError, match=r"option 'kafka\.ssl\.truststore\.location': certificates in PEM"):
        tls_of(told(security_protocol="SSL", ssl_truststore_location="/nowhere.pem"))  # type: ignore[arg-type]
