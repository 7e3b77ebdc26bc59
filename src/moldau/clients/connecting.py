"""● Makes a client's cluster from its options: addresses, TLS, SASL.

    cluster = cluster_of("localhost:9092", options)          # or a `Cluster` that is shared with others

TLS: an `ssl_context`, or Kafka's options with PEM files.  SASL: credentials as an object, or Kafka's options with a JAAS line.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

from moldau.clients.cluster import Cluster
from moldau.clients.options import ClientOptions, OptionError, read_properties
from moldau.net.sasl import Credentials, Plain, Scram
from moldau.net.transport import Network

Given = Mapping[str, Any] | str | PathLike[str]
"""Options by name, or the path of a properties file."""

_JAAS_PAIR: Final = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")


def cluster_of(
    servers: str | Sequence[str] | None,
    options: ClientOptions,
    *,
    ssl_context: ssl.SSLContext | None = None,
    sasl: Credentials | None = None,
    network: Network | None = None,
    at_controllers: bool = False,
) -> Cluster:
    """The cluster for these options; no connection is open yet.  `at_controllers`: `servers` are controllers.

    Errors: OptionError; OSError for certificate files that cannot be read.
    """
    name = "bootstrap.controllers" if at_controllers else "bootstrap.servers"
    if isinstance(servers, Mapping):
        raise OptionError("a client's first argument are addresses, such as 'localhost:9092': give options={…}")
    given: object = options.bootstrap_servers if servers is None else servers
    if isinstance(given, bytes) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise OptionError(f"{name} cannot be {given!r}: give 'host:port,host:port', or a list of such")
    bootstrap = given if isinstance(given, str) else ",".join(given)
    protocol = options.security_protocol.upper()
    if ssl_context is None and protocol.endswith("SSL"):
        ssl_context = _context_of(options)
    if sasl is None and protocol.startswith("SASL"):
        sasl = _credentials_of(options)
    try:
        return Cluster.connect(
            bootstrap,
            network=network,
            client_id=options.client_id,
            connect_within_s=options.socket_connection_setup_timeout_ms / 1000,
            answer_within_s=options.request_timeout_ms / 1000,
            ssl_context=ssl_context,
            sasl=sasl,
            at_controllers=at_controllers,
        )
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from None


def mapping_of(options: Given | None) -> Mapping[str, Any]:
    """Options that are given as a mapping, or as the path of a properties file.  Errors: OSError; UnicodeError."""
    if isinstance(options, str | PathLike):
        return read_properties(Path(options).read_text(encoding="utf-8"))
    return options or {}


def _context_of(options: ClientOptions) -> ssl.SSLContext:
    for name, kind in (("ssl_truststore_type", options.ssl_truststore_type), ("ssl_keystore_type", options.ssl_keystore_type)):
        if kind.upper() != "PEM":
            raise OptionError(
                f"{name.replace('_', '.')} cannot be {kind!r}: Python reads PEM; `openssl pkcs12 -in store.p12 -out store.pem` converts"
            )
    context = ssl.create_default_context(cafile=options.ssl_truststore_location, cadata=options.ssl_truststore_certificates)
    if options.ssl_keystore_location is not None:
        context.load_cert_chain(options.ssl_keystore_location, password=options.ssl_key_password)
    if not options.ssl_endpoint_identification_algorithm:
        context.check_hostname = False
    return context


def _credentials_of(options: ClientOptions) -> Credentials:
    mechanism = options.sasl_mechanism.upper()
    jaas = _jaas(options.sasl_jaas_config or "")
    username, password = options.sasl_username or jaas.get("username"), options.sasl_password or jaas.get("password")
    if mechanism == "OAUTHBEARER":
        raise OptionError("sasl.mechanism OAUTHBEARER needs a token: give sasl=OAuthBearer(token)")
    if username is None or password is None:
        raise OptionError(f"sasl.mechanism {mechanism} needs a name and a password: sasl.username and sasl.password, or sasl.jaas.config")
    if mechanism == "PLAIN":
        return Plain(username, password)
    try:
        return Scram(username, password, mechanism, is_token=jaas.get("tokenauth", "").lower() == "true")
    except ValueError:
        raise OptionError(
            f"sasl.mechanism cannot be {options.sasl_mechanism!r}: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER is expected"
        ) from None


def _jaas(text: str) -> dict[str, str]:
    found = {}
    for name, value in _JAAS_PAIR.findall(text):
        found[name] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] in "\"'" else value
    return found
