"""● The security options of Kafka's clients in a blocking connection's terms: a TLS context, and a proof of the client's identity."""

import re
import ssl
from collections.abc import Callable
from typing import Final

from moldau.clients.blocking.authentication import authenticating
from moldau.clients.blocking.connection import Connection
from moldau.net.sasl import AuthenticationFailed, Credentials, OAuthBearer, Plain, Scram
from pyspark_moldau.options import OptionError, Options

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")


def tls_of(options: Options) -> ssl.SSLContext | None:
    """Errors: OptionError."""
    if options.get("kafka.security.protocol", "plaintext") not in ("ssl", "sasl_ssl"):
        return None
    location, certificates = options.get("kafka.ssl.truststore.location"), options.get("kafka.ssl.truststore.certificates")
    try:
        context = ssl.create_default_context(cafile=location, cadata=certificates)
    except (OSError, ValueError) as error:
        name = "location" if location else "certificates"
        raise OptionError(f"kafka.ssl.truststore.{name}", f"certificates in PEM are expected: {error}") from None
    if not options.get("kafka.ssl.endpoint.identification.algorithm", "https"):
        context.check_hostname = False
    own = options.get("kafka.ssl.keystore.location")
    if own is not None:
        try:
            context.load_cert_chain(own, password=options.get("kafka.ssl.key.password"))
        except (OSError, ValueError) as error:
            raise OptionError("kafka.ssl.keystore.location", f"a key and its certificates in PEM are expected: {error}") from None
    return context


def authentication_of(options: Options) -> Callable[[Connection], int] | None:
    """Errors: OptionError."""
    if options.get("kafka.security.protocol", "plaintext") not in ("sasl_plaintext", "sasl_ssl"):
        return None
    try:
        return authenticating(credentials_of(options))
    except (ValueError, AuthenticationFailed) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError("kafka.sasl.mechanism", str(error)) from None


def credentials_of(options: Options) -> Credentials:
    """Errors: OptionError, ValueError."""
    mechanism = str(options.get("kafka.sasl.mechanism", "")).upper()
    if mechanism not in MECHANISMS:
        raise OptionError("kafka.sasl.mechanism", f"{' or '.join(MECHANISMS)} is expected, not {mechanism!r}")
    if mechanism == "OAUTHBEARER":
        token = options.get("kafka.sasl.oauthbearer.token")
        if token is None:
            raise OptionError("kafka.sasl.oauthbearer.token", "it is needed: a token for OAUTHBEARER")
        return OAuthBearer(token)
    username, password = _told(options, "username"), _told(options, "password")
    return Plain(username, password) if mechanism == "PLAIN" else Scram(username, password, mechanism=mechanism)


def _told(options: Options, name: str) -> str:
    told = options.get(f"kafka.sasl.{name}")
    if told is not None:
        return str(told)
    jaas = options.get("kafka.sasl.jaas.config")
    found = None if jaas is None else re.search(rf"""\b{name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", jaas)
    if found is None:
        raise OptionError("kafka.sasl.jaas.config", f'it says no {name}: org.apache.kafka…LoginModule required username="…" password="…";')
    return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2])
