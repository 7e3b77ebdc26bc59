"""◇ A client's options: keywords with Kafka's names in snake_case, or a mapping in Kafka's own spelling.

    Producer("localhost:9092", linger_ms=5, compression_type="zstd")
    Producer(options={"bootstrap.servers": "localhost:9092", "linger.ms": "5"})
    Producer(options="client.properties")

An unknown option is an error that names the nearest known one.  Options of Java's clients without a meaning here are accepted;
`WITHOUT_EFFECT` lists each with its reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from moldau.config import nearest

C = TypeVar("C", bound="ClientOptions")

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "key.serializer": "a Java class; give a function as key_serializer",
    "value.serializer": "a Java class; give a function as value_serializer",
    "key.deserializer": "a Java class; give a function as key_deserializer",
    "value.deserializer": "a Java class; give a function as value_deserializer",
    "interceptor.classes": "Java classes; give objects as interceptors",
    "metric.reporters": "Java classes; read client.metrics()",
    "metrics.num.samples": "metrics are counters and histograms here",
    "metrics.recording.level": "metrics are counters and histograms here",
    "metrics.sample.window.ms": "metrics are counters and histograms here",
    "auto.include.jmx.reporter": "there is no JMX",
    "enable.metrics.push": "metrics are read by client.metrics()",
    "send.buffer.bytes": "the operating system chooses",
    "receive.buffer.bytes": "the operating system chooses",
    "connections.max.idle.ms": "connections are kept until either side closes them",
    "socket.connection.setup.timeout.max.ms": "attempts are independent",
    "client.dns.lookup": "all addresses of a name are tried",
    "retries": "an admin tries again until default.api.timeout.ms",
    "retry.backoff.max.ms": "see retry.backoff.ms",
    "reconnect.backoff.ms": "see retry.backoff.ms",
    "reconnect.backoff.max.ms": "see retry.backoff.ms",
}


PLAIN: Final = {int, float, str, bool, NoneType}
"""The types of which every value is checked."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class OptionError(ValueError):
    """An unknown option, or a value that an option cannot have.  The text names the option and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options that every client has."""

    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    client_id: str = "moldau"
    client_rack: str = ""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    metadata_max_age_ms: int = 300_000
    socket_connection_setup_timeout_ms: int = 10_000
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_jaas_config: str | None = field(default=None, repr=False)
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_truststore_type: str = "PEM"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_keystore_type: str = "PEM"
    ssl_keystore_location: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_endpoint_identification_algorithm: str = "https"

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check each value, and the values beside each other.  Errors: OptionError."""
        for name in ("request_timeout_ms", "metadata_max_age_ms", "socket_connection_setup_timeout_ms"):
            require(getattr(self, name) > 0, name, getattr(self, name), "it has to be above 0")
        require(
            self.security_protocol.upper() in PROTOCOLS,
            "security_protocol",
            self.security_protocol,
            f"one of {', '.join(PROTOCOLS)} is expected",
        )
        require(self.retry_backoff_ms >= 0, "retry_backoff_ms", self.retry_backoff_ms, "it cannot be negative")


def require(holds: bool, name: str, value: object, why: str) -> None:
    """Raise unless `holds`.  Errors: OptionError."""
    if not holds:
        raise OptionError(f"{name.replace('_', '.')} cannot be {value!r}: {why}")


def parse_options(declared: type[C], given: Mapping[str, Any]) -> C:
    """Options from names in either spelling.  Text is converted to the option's type.  None leaves an option at its default.

    Errors: OptionError.
    """
    known = {one.name: one for one in fields(declared)}
    types = get_type_hints(declared)
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace(".", "_").replace("-", "_")
        if name in known:
            if isinstance(value, str) and _is_function(types[name]):
                _check_class(key, value)
            elif value is not None or _takes_none(types[name]):
                values[name] = _parsed(key, value, types[name])
        elif key.replace("_", ".") not in WITHOUT_EFFECT:
            raise _unknown(declared, key, known)
    return declared(**values)


def _unknown(declared: type[ClientOptions], key: str, known: Mapping[str, Field[Any]]) -> OptionError:
    who = declared.__name__.removesuffix("Options").lower()
    is_dotted = "." in key
    meant = nearest(key.replace(".", "_"), known)
    if meant is None:
        return OptionError(f"{key} is not an option of a {who}; its options are {', '.join(sorted(known))}")
    return OptionError(f"{key} is not an option of a {who}; the nearest is {meant.replace('_', '.') if is_dotted else meant}")


def _takes_none(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _parsed(key: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, str):
        return _checked(key, value, kind)
    kinds = set(get_args(kind)) or {kind}
    text = value.strip()
    try:
        if bool in kinds:
            return {"true": True, "false": False}[text.lower()]
        if int in kinds and not (str in kinds and not text.lstrip("-").isdigit()):
            return int(text)
        if float in kinds:
            return float(text)
    except (KeyError, ValueError):
        wanted = "true or false" if bool in kinds else "a number"
        raise OptionError(f"{key} cannot be {value!r}: {wanted} is expected") from None
    return value


def _checked(key: str, value: Any, kind: Any) -> Any:
    kinds = tuple(get_args(kind)) or (kind,)
    if int in kinds and bool not in kinds and isinstance(value, bool):
        raise OptionError(f"{key} cannot be {value!r}: a number is expected")
    if _is_function(kind):
        if value is not None and not callable(value):
            raise OptionError(f"{key} cannot be {value!r}: a function is expected")
    elif set(kinds) <= PLAIN and not isinstance(value, (*kinds, int) if float in kinds else kinds):
        names = " or ".join(each.__name__ for each in kinds if each is not NoneType)
        raise OptionError(f"{key} cannot be {value!r}: {names} is expected")
    return value


def _is_function(kind: Any) -> bool:
    return any(get_origin(each) is Callable for each in get_args(kind))


def _check_class(key: str, name: str) -> None:
    """The name of a Java class, as in a properties file, has no effect.  Errors: OptionError for other text."""
    if "." not in name:
        raise OptionError(f"{key} cannot be {name!r}: a function is expected")


def require_objects(name: str, value: object) -> None:
    """Raise unless an option is a list of objects.  Errors: OptionError."""
    require(isinstance(value, Sequence) and not isinstance(value, str), name, value, "a list of objects is expected")


def read_properties(text: str) -> dict[str, str]:
    """The options in a properties file of Java, as far as clients' files go.

    Comments, `key=value`, `key: value` and lines continued by `\\` are read.
    """
    found: dict[str, str] = {}
    whole = ""
    for line in text.splitlines():
        line = line.lstrip()
        if not whole and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
            continue
        whole += line
        at = _end_of_key(whole)
        key, rest = whole[:at], whole[at:].lstrip(" \t")
        if rest[:1] in ("=", ":") and rest:
            rest = rest[1:].lstrip(" \t")
        found[key.replace("\\", "")] = rest.replace("\\n", "\n").replace("\\\\", "\\")
        whole = ""
    return found


def _end_of_key(line: str) -> int:
    for index, letter in enumerate(line):
        if letter in "=: \t" and (not index or line[index - 1] != "\\"):
            return index
    return len(line)


def defaults_of(declared: type[ClientOptions]) -> dict[str, Any]:
    """The default of each option by Kafka's spelling, for the reference page."""
    return {one.name.replace("_", "."): one.default if one.default is not MISSING else None for one in fields(declared)}
