"""◇ `server.properties` as a whole: the options of all modules, the listeners, and errors of the file in one clear line.

An unknown key that is nearly a known one refuses the start: with `log.retention.hour` the default would otherwise delete records after a
week. Any other unknown key is a warning, since files carry the keys of plug-ins too.  Kafka ignores both.  Called by `tools/cli` and
`node.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from moldau.config import ConfigError, Configs, first_refusal, nearest, shortened
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.metadata.options import ControllerOptions
from moldau.raft.config import QuorumConfig
from moldau.raft.voters import VoterSet
from moldau.replication.config import ReplicationConfig
from moldau.replication.share.config import SharePartitionConfig
from moldau.server.node.accepted import PREFIXES, REFUSED, REMOVED, accepted_options
from moldau.server.node.options import ROLES, ServerConfig
from moldau.server.requests.endpoints import WILDCARD_HOSTS, Endpoint, parse_endpoints, parse_protocol_map
from moldau.storage.config import CleanerConfig, LogConfig
from moldau.storage.tiered.config import TOPIC_BASED, MetadataTopicConfig, RemoteLogConfig, StoreConfig, local_retention_refusal

ROOMS: Final[tuple[type[Configs], ...]] = (
    ServerConfig,
    LogConfig,
    RemoteLogConfig,
    CleanerConfig,
    QuorumConfig,
    ReplicationConfig,
    ControllerOptions,
    GroupCoordinatorConfig,
    TransactionConfig,
    ShareCoordinatorConfig,
    SharePartitionConfig,
)
"""Every class of options that a node reads."""

SPOKEN_PROTOCOLS: Final = ("PLAINTEXT",)
"""The protocols that listeners can speak so far."""

PLUG_INS: Final = {
    "remote.log.storage.manager.class.name": "",
    "remote.log.storage.manager.class.path": "",
    "remote.log.metadata.manager.class.name": TOPIC_BASED,
    "remote.log.metadata.manager.class.path": "",
}
"""Options of Kafka that name code to run for tiered storage, with the one value that fits here."""

TYPO_DISTANCE: Final = 2
"""The most letters by which a typo differs from a known key; a key further away belongs to other software."""

C = TypeVar("C", bound=Configs)


class UnknownOption(ConfigError):
    """An unknown key that is nearly a known one."""

    def __init__(self, key: str, value: str, meant: str) -> None:
        super().__init__(key, value, f"there is no such option; did you mean {meant}?")
        self.meant = meant


@dataclass(frozen=True)
class NodeConfig:
    """The options of a node: use `NodeConfig.parse`."""

    properties: Mapping[str, str]
    rooms: Mapping[type[Configs], Configs]
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_protocols: Mapping[str, str]
    """The protocol of each name in controller.listener.names."""
    inter_broker_listener_name: str
    warnings: tuple[str, ...]

    @classmethod
    def parse(cls, properties: Mapping[str, str], rooms: Sequence[type[Configs]] = ROOMS) -> "NodeConfig":
        """The options in `properties`.  Errors: ConfigError."""
        properties = _under_both_names({key: value for key, value in properties.items() if key})
        warnings = tuple(_check_keys(properties, rooms))
        loaded = {room: room.load(properties) for room in rooms}
        server = cast(ServerConfig, loaded[ServerConfig])
        refusal = first_refusal(loaded.values())
        if refusal is not None:
            raise refusal
        _check_identity(properties, server)
        protocols = _protocol_map(properties, server)
        listeners = parse_endpoints("listeners", server.listeners, protocols)
        advertised = (
            parse_endpoints("advertised.listeners", server.advertised_listeners, protocols, distinct_ports=False)
            if server.advertised_listeners
            else listeners
        )
        inter_broker = _inter_broker_listener(properties, server)
        config = cls(
            properties=properties,
            rooms=loaded,
            listeners=listeners,
            advertised=advertised,
            controller_protocols={
                name.upper(): protocols[name.upper()] for name in server.controller_listener_names if name.upper() in protocols
            },
            inter_broker_listener_name=inter_broker,
            warnings=(*warnings, *_doubtful(loaded)),
        )
        _check_roles(config)
        _check_quorum(config)
        if config.remote_log.system_enable:
            _check_tiering(config)
        return config

    def of(self, room: type[C]) -> C:
        """The options of one room."""
        return cast(C, self.rooms[room])

    @property
    def server(self) -> ServerConfig:
        return self.of(ServerConfig)

    @property
    def log(self) -> LogConfig:
        return self.of(LogConfig)

    @property
    def remote_log(self) -> RemoteLogConfig:
        return self.of(RemoteLogConfig)

    @property
    def store(self) -> StoreConfig:
        """The options of tiered storage's object store.  Errors: ConfigError."""
        return StoreConfig.behind(self.remote_log.storage_prefix, self.properties)

    @property
    def remote_log_metadata(self) -> MetadataTopicConfig:
        """The options of the remote log metadata.  Errors: ConfigError."""
        return MetadataTopicConfig.behind(self.remote_log.metadata_prefix, self.properties)

    @property
    def node_id(self) -> int:
        return self.server.node_id

    @property
    def is_broker(self) -> bool:
        return "broker" in self.server.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.server.process_roles

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.server.log_dirs

    @property
    def metadata_log_dir(self) -> str:
        return self.server.metadata_log_dir or self.log_dirs[0]

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.listeners if endpoint.name not in self.controller_names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.listeners if endpoint.name in self.controller_names)

    @property
    def advertised_broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.advertised if endpoint.name not in self.controller_names)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """The controllers' addresses in the order of controller.listener.names.

        A name that is not advertised falls back to its listening address.
        """
        found = []
        for name in self.controller_names:
            for endpoint in (*self.advertised, *self.listeners):
                if endpoint.name == name:
                    found.append(endpoint)
                    break
        return tuple(found)

    @property
    def controller_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.server.controller_listener_names)


def _check_keys(properties: Mapping[str, str], rooms: Sequence[type[Configs]]) -> Iterable[str]:
    """Check the keys.  Returns warnings, one line each.  Errors: UnknownOption, ConfigError."""
    declared = {key for room in rooms for option in room.OPTIONS.values() for key in option.keys if key}
    accepted = accepted_options()
    for key, value in properties.items():
        if key in declared:
            continue
        known = accepted.get(key)
        if known is not None:
            if not known.is_default(value) and key in REFUSED:
                raise ConfigError(key, value, REFUSED[key])
            continue
        if key in REMOVED:
            yield f"{key} was removed from Kafka and has no effect: take the line out"
            continue
        if key.startswith(PREFIXES):
            continue
        meant = nearest(key, declared | accepted.keys())
        if meant is not None and _distance(key, meant) <= TYPO_DISTANCE:
            raise UnknownOption(key, value, meant)
        yield f"{shortened(key)} is not an option of this broker and has no effect" + (f"; the nearest is {meant}" if meant else "")


def _doubtful(rooms: Mapping[type[Configs], Configs]) -> Iterable[str]:
    """Warnings about options that are valid together but hardly intended."""
    values = {option.key: getattr(room, field) for room in rooms.values() for field, option in room.OPTIONS.items()}
    for key, other, so in (
        ("broker.heartbeat.interval.ms", "broker.session.timeout.ms", "the broker is fenced between two heartbeats"),
        ("transaction.state.log.min.isr", "transaction.state.log.replication.factor", "no transaction can begin"),
        (
            "share.coordinator.state.topic.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "share groups cannot keep their state",
        ),
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms", "no classic consumer can join a group"),
    ):
        if key in values and other in values and values[key] > values[other]:
            yield f"{key}={values[key]} is above {other}={values[other]}: {so}"


def _distance(one: str, other: str) -> int:
    """The number of letters to add, drop, change or swap to make one of the other (restricted Damerau-Levenshtein)."""
    before: list[int] = []
    previous = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        current = [i]
        for j, right in enumerate(other, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, previous = previous, current
    return previous[-1]


def _under_both_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with node.id under both of its names: tools ask for either."""
    known = {key: properties[key] for key in ("broker.id", "node.id") if key in properties}
    return {**properties, **dict.fromkeys(("node.id", "broker.id"), next(iter(known.values()))), **known} if known else dict(properties)


def _check_identity(properties: Mapping[str, str], server: ServerConfig) -> None:
    if not server.process_roles:
        raise ConfigError(
            "process.roles", properties.get("process.roles", ""), "say what this node is: broker,controller for a single node"
        )
    if len(set(server.process_roles)) < len(server.process_roles):
        raise ConfigError("process.roles", ",".join(server.process_roles), f"each of {', '.join(ROLES)} at most once")
    if "node.id" in properties and "broker.id" in properties and properties["node.id"].strip() != properties["broker.id"].strip():
        raise ConfigError("broker.id", properties["broker.id"], f"it must equal node.id, which is {properties['node.id']}: leave it out")
    if server.node_id < 0:
        raise ConfigError("node.id", properties.get("node.id", ""), "give this node a number from 0 up that no other node has")
    if not all(server.log_dirs) or not server.log_dirs:
        raise ConfigError("log.dirs", ",".join(server.log_dirs), "name at least one folder")
    if len(set(server.log_dirs)) < len(server.log_dirs):
        raise ConfigError("log.dirs", ",".join(server.log_dirs), "a folder is there twice")
    for key, path in (("metadata.log.dir", server.metadata_log_dir or ""), *(("log.dirs", path) for path in server.log_dirs)):
        if "\0" in path or not _is_encodable(path):
            raise ConfigError(key, path, "no folder has a zero byte or half of a surrogate pair in its name")


def _is_encodable(path: str) -> bool:
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _protocol_map(properties: Mapping[str, str], server: ServerConfig) -> dict[str, str]:
    """The protocol of each listener.  Controller listeners without one are PLAINTEXT if the file names no protocols, as in Kafka."""
    key = "listener.security.protocol.map"
    protocols = parse_protocol_map(server.listener_security_protocol_map, key)
    if key not in properties:
        names = [listener.partition(":")[0].upper() for listener in server.listeners]
        secured = {"SSL", "SASL_PLAINTEXT", "SASL_SSL"}
        if secured.isdisjoint(names) and secured.isdisjoint(name.upper() for name in server.controller_listener_names):
            for name in server.controller_listener_names:
                protocols.setdefault(name.upper(), "PLAINTEXT")
    return protocols


def _inter_broker_listener(properties: Mapping[str, str], server: ServerConfig) -> str:
    if server.inter_broker_listener_name is None:
        return server.security_inter_broker_protocol
    if "security.inter.broker.protocol" in properties:
        raise ConfigError(
            "security.inter.broker.protocol",
            server.security_inter_broker_protocol,
            "inter.broker.listener.name is set, too: leave one of the two out",
        )
    return server.inter_broker_listener_name.upper()


def _check_roles(config: NodeConfig) -> None:
    """Check which listeners go with which roles."""
    names = ",".join(config.controller_names)
    if not config.controller_names:
        raise ConfigError("controller.listener.names", "", "name the listener of the controllers, as in CONTROLLER")
    if config.is_controller:
        missing = [name for name in config.controller_names if name not in {endpoint.name for endpoint in config.listeners}]
        if missing:
            raise ConfigError(
                "controller.listener.names", names, f"a controller needs all of these listeners: add {missing[0]}://:9093 to listeners"
            )
        if not config.is_broker and config.broker_listeners:
            raise ConfigError(
                "listeners", config.broker_listeners[0], "a node that is only a controller listens on controller.listener.names alone"
            )
    elif config.controller_listeners:
        raise ConfigError("listeners", config.controller_listeners[0], "only a controller has this listener: take it out of listeners")
    elif config.controller_names[0] not in config.controller_protocols:
        raise ConfigError(
            "controller.listener.names", names, f"its protocol is missing: add {config.controller_names[0]}:PLAINTEXT to the protocol map"
        )
    if config.is_broker:
        _check_broker_listeners(config)
    for endpoint in config.advertised:
        if endpoint.host in WILDCARD_HOSTS:
            raise ConfigError(
                "advertised.listeners",
                endpoint,
                "clients cannot connect to this address: advertise a name or an address that they can reach",
            )
    for endpoint in config.listeners:
        if endpoint.protocol not in SPOKEN_PROTOCOLS:
            raise ConfigError("listeners", endpoint, f"{endpoint.protocol} is not served yet: use {', '.join(SPOKEN_PROTOCOLS)}")


def _check_broker_listeners(config: NodeConfig) -> None:
    advertised = [endpoint.name for endpoint in config.advertised_broker_listeners]
    listening = {endpoint.name for endpoint in config.listeners}
    if not advertised:
        raise ConfigError(
            "advertised.listeners", ",".join(map(str, config.advertised)), "a broker needs a listener for clients beside the controllers'"
        )
    for name in advertised:
        if name not in listening:
            raise ConfigError("advertised.listeners", name, f"no such listener: listeners has {', '.join(sorted(listening))}")
    if config.inter_broker_listener_name not in advertised:
        raise ConfigError(
            "inter.broker.listener.name",
            config.inter_broker_listener_name,
            f"it must be one of the advertised listeners: {', '.join(advertised)}",
        )


def _check_quorum(config: NodeConfig) -> None:
    quorum = config.of(QuorumConfig)
    if quorum.auto_join_enable and not config.is_controller:
        raise ConfigError(
            "controller.quorum.auto.join.enable", True, "only a controller can vote: take it out, or add controller to process.roles"
        )
    if not quorum.voters and not quorum.bootstrap_servers:
        raise ConfigError(
            "controller.quorum.bootstrap.servers",
            "",
            "say where the controllers are, as in localhost:9093 (or set controller.quorum.voters)",
        )
    VoterSet.from_option(quorum.voters, config.controller_names[0])


def _check_tiering(config: NodeConfig) -> None:
    """Check the options of tiered storage, whose errors would otherwise show only when the first segment is copied."""
    for key, known in PLUG_INS.items():
        named = config.properties.get(key, known)
        if named and named != known:
            text = "plug-ins are Java classes and cannot run here; this broker copies segments itself: take the line out"
            raise ConfigError(key, named, text)
    StoreConfig.behind(config.remote_log.storage_prefix, config.properties)
    MetadataTopicConfig.behind(config.remote_log.metadata_prefix, config.properties)
    refusal = local_retention_refusal(config.log, prefix="log.")
    if refusal is not None:
        raise refusal
