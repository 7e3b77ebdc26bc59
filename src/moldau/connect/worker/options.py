"""● A worker's properties, with Kafka Connect's names.  Source: WorkerConfig, DistributedConfig, StandaloneConfig."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from moldau.connect.converters.catalogue import SIMPLE_HEADERS
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError
from moldau.connect.providers import Providers
from moldau.connect.worker.tls import TlsOptions


def _number(name: str, default: int, doc: str, minimum: int = 0) -> Key:
    return Key(name, Kind.INT, default, "MEDIUM", doc, check.at_least(minimum))


def _text(name: str, default: Any, doc: str) -> Key:
    return Key(name, Kind.STRING, default, "HIGH", doc)


SHARED: Final = Definition(
    Key(
        "bootstrap.servers",
        Kind.STRING,
        "localhost:9092",
        "HIGH",
        "Brokers of the cluster that the worker works with, host:port,host:port.",
    ),
    _text("key.converter", REQUIRED, "Translates keys, for connectors that name no converter of their own."),
    _text("value.converter", REQUIRED, "Translates values, for connectors that name no converter of their own."),
    _text("header.converter", SIMPLE_HEADERS, "Translates headers, for connectors that name no converter of their own."),
    _number("offset.flush.interval.ms", 60_000, "How often offsets are committed."),
    _number("offset.flush.timeout.ms", 5_000, "How long one commit of a source may wait for its records."),
    Key("listeners", Kind.LIST, ["http://:8083"], "LOW", "Where the REST API listens; one http:// or https:// address."),
    _text("rest.advertised.host.name", None, "The host that other workers reach this one by."),
    Key("rest.advertised.port", Kind.INT, None, "LOW", "The port that other workers reach this one by."),
    _number("task.shutdown.graceful.timeout.ms", 5_000, "How long a task may take to end by itself."),
    Key("topic.creation.enable", Kind.BOOLEAN, True, "LOW", "Whether topics of sources are made as topic.creation options say."),
)
DISTRIBUTED: Final = SHARED + Definition(
    _text("group.id", REQUIRED, "The name of the workers' group; workers with the same one share connectors."),
    _text("config.storage.topic", REQUIRED, "The compacted topic, of one partition, for configurations."),
    _number("config.storage.replication.factor", 3, "Its replicas, when the worker makes it.", -1),
    _text("offset.storage.topic", REQUIRED, "The compacted topic for the offsets of sources."),
    _number("offset.storage.replication.factor", 3, "Its replicas, when the worker makes it.", -1),
    _number("offset.storage.partitions", 25, "Its partitions, when the worker makes it.", -1),
    _text("status.storage.topic", REQUIRED, "The compacted topic for states of connectors and tasks."),
    _number("status.storage.replication.factor", 3, "Its replicas, when the worker makes it.", -1),
    _number("status.storage.partitions", 5, "Its partitions, when the worker makes it.", -1),
    _number("session.timeout.ms", 10_000, "A worker that was not heard of for so long is out, and others take over its tasks.", 1),
    _number("heartbeat.interval.ms", 3_000, "How often a worker is heard of.", 1),
    _number("rebalance.timeout.ms", 60_000, "How long others wait for a worker to join.", 1),
    Key(
        "exactly.once.source.support",
        Kind.STRING,
        "disabled",
        "HIGH",
        "enabled: a source's records and its offset are one transaction.",
        check.one_of_any_case("DISABLED", "ENABLED", "PREPARING"),
    ),
)
STANDALONE: Final = SHARED + Definition(
    _text("offset.storage.file.filename", REQUIRED, "The file for the offsets of sources."),
)
OWN: Final = ("topic", "partitions", "replication.factor")
"""Options of the worker's topics that are no settings of a topic."""
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "plugin.path": "connectors are Python modules",
    "plugin.discovery": "connectors are Python modules",
    "connect.protocol": "sessioned is spoken, always",
    "scheduled.rebalance.max.delay.ms": "a lost worker's tasks go to others at once",
    "inter.worker.signature.algorithm": "HmacSHA256, always",
    "inter.worker.key.generation.algorithm": "HmacSHA256, always",
    "inter.worker.verification.algorithms": "HmacSHA256, always",
}


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`values`: the parsed values, by Kafka's names; `given`: the texts as they stand in the file, with the values of variables."""

    values: Mapping[str, Any]
    given: Config
    providers: Providers = field(default_factory=Providers)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def converters(self) -> Config:
        """Converters of keys, values and headers, with their options."""
        return {"header.converter": self.values["header.converter"], **self.given}

    @property
    def listener(self) -> tuple[str, int]:
        """Host and port.  Errors: ConfigError."""
        text = self.values["listeners"][0] if self.values["listeners"] else "http://:8083"
        parts = urlsplit(text)
        if parts.scheme.lower() not in ("http", "https"):
            raise ConfigError.invalid("listeners", text, "an address as http://host:port or https://host:port is expected")
        return parts.hostname or "0.0.0.0", parts.port or 8083

    @property
    def tls(self) -> TlsOptions | None:
        """The TLS options of the REST API; None for plain HTTP."""
        is_secure = bool(self.values["listeners"]) and self.values["listeners"][0].lower().startswith("https:")
        return TlsOptions(self.given) if is_secure else None

    @property
    def url(self) -> str:
        """The address at which other workers reach this one."""
        host, port = self.listener
        shown_host = self.values["rest.advertised.host.name"] or ("localhost" if host == "0.0.0.0" else host)
        return f"{'http' if self.tls is None else 'https'}://{shown_host}:{self.values['rest.advertised.port'] or port}/"

    @property
    def worker_id(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def writes_once(self) -> bool:
        """Whether a source's records and its offset are one transaction.  A worker alone has its offsets in a file: they cannot be."""
        return str(self.values.get("exactly.once.source.support")).lower() == "enabled"

    def settings_of(self, kind: str) -> dict[str, str]:
        """The settings with which the worker makes its topic: `config.storage.segment.bytes` is segment.bytes of the config topic.

        The topic is compacted, whatever they say.  Source: DistributedConfig.configStorageTopicSettings (KIP-605).
        """
        prefix = f"{kind}.storage."
        given = {key.removeprefix(prefix): value for key, value in self.given.items() if value is not None and key.startswith(prefix)}
        return {**{key: value for key, value in given.items() if key not in OWN}, "cleanup.policy": "compact"}

    def client(self, role: str, connector: Config | None = None) -> dict[str, str]:
        """Options of a client: the worker's `producer.`, `consumer.`, `admin.` ones, and a connector's `producer.override.` ones."""
        shared = {key: value for key, value in self.given.items() if value is not None and key.startswith(("security.", "sasl.", "ssl."))}
        own = {key.removeprefix(f"{role}."): value for key, value in self.given.items() if value is not None and key.startswith(f"{role}.")}
        prefix = f"{role}.override."
        overrides = {key[len(prefix) :]: value for key, value in (connector or {}).items() if key.startswith(prefix) and value is not None}
        return {**shared, **own, **overrides}


def parse_worker(given: Config) -> WorkerOptions:
    """The options of a worker in a group.  Errors: ConfigError."""
    options = _parsed(DISTRIBUTED, given)
    if options["heartbeat.interval.ms"] >= options["session.timeout.ms"]:
        raise ConfigError.invalid("heartbeat.interval.ms", options["heartbeat.interval.ms"], "it has to be below session.timeout.ms")
    return options


def parse_standalone(given: Config) -> WorkerOptions:
    """The options of a worker alone, without a group.  Errors: ConfigError."""
    return _parsed(STANDALONE, given)


def _parsed(definition: Definition, given: Config) -> WorkerOptions:
    providers = Providers.of(given)
    given = providers.resolved(given)
    options = WorkerOptions(definition.parse(given), given, providers)
    _ = options.listener
    if options.tls is not None:
        options.tls.server()
    return options
