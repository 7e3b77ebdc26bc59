"""◇ Listeners: `NAME://host:port`, the protocol of each name, and the addresses for clients.

Source: SocketServerConfigs, AbstractKafkaConfig.listenerListToEndPoints; KIP-103, KIP-631.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.config import ConfigError

PROTOCOLS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The security protocols by Kafka's numbers."""

_URI: Final = re.compile(r"(?P<name>[^:/\s]+)://(?P<host>\[[0-9a-fA-F:.%]*\]|[^:\[\]/\s]*):(?P<port>-?\d{1,10})")
WILDCARD_HOSTS: Final = ("0.0.0.0", "::")


class Endpoint(NamedTuple):
    """One listener.  An empty host is every address of the machine."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(entries: Sequence[str], key: str) -> dict[str, str]:
    """The protocols in `NAME:PROTOCOL,…`.  Errors: ConfigError."""
    protocols: dict[str, str] = {}
    for entry in entries:
        name, colon, protocol = entry.partition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or not name or not protocol:
            raise ConfigError(key, entry, "each entry is LISTENER:PROTOCOL, as in CONTROLLER:PLAINTEXT")
        if protocol not in PROTOCOLS:
            raise ConfigError(key, entry, f"the protocol is one of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    return protocols


def parse_endpoints(key: str, entries: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool = True) -> tuple[Endpoint, ...]:
    """The listeners in an option.  Errors: ConfigError naming `key` and the entry."""
    endpoints: list[Endpoint] = []
    for entry in entries:
        endpoints.append(_parse_endpoint(key, entry, protocols))
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(key, ",".join(entries), f"the listener {name} is there twice: each needs a name of its own")
    if distinct_ports:
        _check_ports(key, endpoints)
    return tuple(endpoints)


def _parse_endpoint(key: str, entry: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _URI.fullmatch(entry)
    if match is None:
        raise ConfigError(key, repr(entry), "a listener is NAME://host:port, as in PLAINTEXT://localhost:9092")
    name, host, port = match["name"].upper(), match["host"].strip("[]"), int(match["port"])
    if not 0 <= port <= 65535:
        raise ConfigError(key, entry, "a port lies between 0 and 65535; 0 takes any that is free")
    if name not in protocols:
        raise ConfigError(
            key,
            entry,
            f"{name} has no protocol: add {name}:PLAINTEXT (or SSL, SASL_PLAINTEXT, SASL_SSL) to listener.security.protocol.map",
        )
    return Endpoint(name, host, port, protocols[name])


def _check_ports(key: str, endpoints: Iterable[Endpoint]) -> None:
    """Two listeners may share a port only when one is IPv4 and the other IPv6."""
    taken: dict[int, Endpoint] = {}
    for endpoint in endpoints:
        other = taken.get(endpoint.port)
        if endpoint.port and other is not None and not _is_dual_stack(endpoint.host, other.host):
            raise ConfigError(key, str(endpoint), f"port {endpoint.port} is taken by {other}: give each listener a port of its own")
        taken[endpoint.port] = endpoint


def _is_dual_stack(one: str, other: str) -> bool:
    return bool(one and other) and (":" in one) != (":" in other)
