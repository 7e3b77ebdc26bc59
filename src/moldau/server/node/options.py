"""◇ The options of a node: roles, listeners, limits, intervals, by Kafka's names.

`ServerConfig` holds the options that no single room below reads; options of a log, of the quorum and of groups are declared in their rooms.
`config.py` puts all of them together.

Source: ServerConfigs, SocketServerConfigs, KRaftConfigs, ReplicationConfigs, ServerLogConfigs.
"""

from typing import Final

from moldau.config import DAY_MS, MAX_INT, MAX_LONG, ConfigError, Configs, Kind, Long, MiB, at_least, each_of, one_of, option
from moldau.server.requests.endpoints import PROTOCOLS

ROLES: Final = ("broker", "controller")


class ServerConfig(Configs):
    """The options of the process as a whole."""

    process_roles: tuple[str, ...] = option(
        "process.roles",
        (),
        "The roles of this process: broker, controller, or both.",
        check=each_of(*ROLES),
        importance="high",
        has_default=False,
    )
    node_id: int = option(
        "node.id", -1, "The number of this node in its cluster.", fallbacks=[("broker.id", 1)], importance="high", has_default=False
    )
    listeners: tuple[str, ...] = option(
        "listeners", ("PLAINTEXT://:9092",), "Addresses to listen on, as NAME://host:port,…", importance="high"
    )
    advertised_listeners: tuple[str, ...] = option(
        "advertised.listeners",
        (),
        "Addresses told to clients, as NAME://host:port,…; without it, those of listeners.",
        importance="high",
        nullable=True,
    )
    listener_security_protocol_map: tuple[str, ...] = option(
        "listener.security.protocol.map",
        tuple(f"{name}:{name}" for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        "The protocol of each listener, as NAME:PROTOCOL,…",
        update="per-broker",
        importance="low",
        told_as=Kind.STRING,
    )
    controller_listener_names: tuple[str, ...] = option(
        "controller.listener.names",
        (),
        "The listeners on which controllers talk to each other and to brokers.",
        importance="high",
        has_default=False,
    )
    inter_broker_listener_name: str | None = option("inter.broker.listener.name", None, "The listener on which brokers talk to each other.")
    security_inter_broker_protocol: str = option(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The listener between brokers by its protocol, where inter.broker.listener.name does not name it.",
        check=one_of(*PROTOCOLS),
    )
    log_dirs: tuple[str, ...] = option(
        "log.dirs",
        ("/tmp/kafka-logs",),
        "The folders that hold partitions.",
        fallbacks=[("log.dir", 1)],
        importance="high",
        has_default=False,
    )
    metadata_log_dir: str | None = option(
        "metadata.log.dir", None, "The folder of the metadata log; without it, the first of log.dirs.", importance="high"
    )
    num_recovery_threads_per_data_dir: int = option(
        "num.recovery.threads.per.data.dir",
        2,
        "How many logs of each folder are loaded at a time when the broker starts.",
        check=at_least(1),
        update="cluster-wide",
        importance="high",
        is_pool_size=True,
    )
    num_replica_alter_log_dirs_threads: int | None = option(
        "num.replica.alter.log.dirs.threads",
        None,
        "How many logs move between folders at a time; without it, as many as there are folders.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: Long = option(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        MAX_LONG,
        "The most bytes a second that all moves of logs between folders copy together.",
        check=at_least(0),
        update="cluster-wide",
        is_ours=True,
    )
    broker_rack: str | None = option("broker.rack", None, "The rack of this broker: replicas are spread over racks.")

    num_partitions: int = option("num.partitions", 1, "Partitions of a topic that is created without a number.", check=at_least(1))
    default_replication_factor: int = option(
        "default.replication.factor", 1, "Replicas of each partition of a topic that is created without a number.", check=at_least(1)
    )
    auto_create_topics_enable: bool = option(
        "auto.create.topics.enable", True, "Whether a missing topic is created when a client that allows it asks for it.", importance="high"
    )
    delete_topic_enable: bool = option("delete.topic.enable", True, "Whether topics can be deleted.", importance="high")

    socket_request_max_bytes: int = option(
        "socket.request.max.bytes", 100 * MiB, "The largest request that is accepted.", check=at_least(1), importance="high"
    )
    socket_send_buffer_bytes: int = option(
        "socket.send.buffer.bytes", 102400, "SO_SNDBUF of a connection; -1 leaves it to the system.  Not set: 1048576.", importance="high"
    )
    socket_receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes",
        102400,
        "SO_RCVBUF of a connection; -1 leaves it to the system, and so does no value.",
        importance="high",
    )
    socket_listen_backlog_size: int = option(
        "socket.listen.backlog.size", 50, "Connections that may wait to be accepted; at least 1024 always may.", check=at_least(1)
    )
    connections_max_idle_ms: Long = option("connections.max.idle.ms", 600_000, "Close a connection on which nothing moved for this long.")
    max_connections: int = option(
        "max.connections", MAX_INT, "Connections that the process takes at a time.", check=at_least(0), update="cluster-wide"
    )
    max_connections_per_ip: int = option(
        "max.connections.per.ip", MAX_INT, "Connections from one address at a time.", check=at_least(0), update="cluster-wide"
    )
    max_connections_per_ip_overrides: str = option(
        "max.connections.per.ip.overrides", "", "Other limits for some addresses, as host:number,…", update="cluster-wide"
    )
    max_connection_creation_rate: int = option(
        "max.connection.creation.rate", MAX_INT, "New connections a second.", check=at_least(0), update="cluster-wide"
    )
    queued_max_requests: int = option(
        "queued.max.requests", 500, "Requests of one connection that may be in work at a time.", check=at_least(1), importance="high"
    )
    queued_max_request_bytes: Long = option(
        "queued.max.request.bytes", -1, "Bytes of requests that may be in work at a time; -1 for no limit."
    )
    request_timeout_ms: int = option("request.timeout.ms", 30_000, "How long a request to another node may take.", importance="high")

    fetch_max_bytes: int = option("fetch.max.bytes", 55 * MiB, "The most bytes in the answer to one fetch.", check=at_least(1024))
    max_incremental_fetch_session_cache_slots: int = option(
        "max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions kept at a time (KIP-227).", check=at_least(0)
    )
    max_request_partition_size_limit: int = option(
        "max.request.partition.size.limit", 2000, "Partitions in one page of DescribeTopicPartitions.", check=at_least(1)
    )

    replica_high_watermark_checkpoint_interval_ms: Long = option(
        "replica.high.watermark.checkpoint.interval.ms", 5000, "How often high watermarks are noted.", importance="high"
    )

    log_retention_check_interval_ms: Long = option(
        "log.retention.check.interval.ms", 300_000, "How often retention is checked.", check=at_least(1)
    )
    log_initial_task_delay_ms: Long = option(
        "log.initial.task.delay.ms", 30_000, "How long after the start retention is checked first.", check=at_least(0)
    )
    log_flush_scheduler_interval_ms: Long = option(
        "log.flush.scheduler.interval.ms",
        MAX_LONG,
        "Without effect: every second all logs are checked for flush.ms.",
        importance="high",
    )
    log_flush_offset_checkpoint_interval_ms: int = option(
        "log.flush.offset.checkpoint.interval.ms", 60_000, "How often recovery points are noted.", check=at_least(0), importance="high"
    )
    log_flush_start_offset_checkpoint_interval_ms: int = option(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "Without effect: log starts are noted with high watermarks, every replica.high.watermark.checkpoint.interval.ms.",
        check=at_least(0),
        importance="high",
    )
    producer_id_expiration_ms: int = option(
        "producer.id.expiration.ms",
        DAY_MS,
        "How long a partition remembers a producer that no longer writes.",
        check=at_least(1),
        update="cluster-wide",
        importance="low",
    )
    producer_id_expiration_check_interval_ms: int = option(
        "producer.id.expiration.check.interval.ms", 600_000, "How often expired producers are removed.", check=at_least(1), importance="low"
    )

    broker_heartbeat_interval_ms: int = option(
        "broker.heartbeat.interval.ms", 2000, "How often a broker sends a heartbeat to the controller."
    )
    broker_session_timeout_ms: int = option("broker.session.timeout.ms", 9000, "A broker silent for this long is fenced.")
    initial_broker_registration_timeout_ms: int = option(
        "initial.broker.registration.timeout.ms", 60_000, "A broker gives up if it cannot register within this time."
    )
    controlled_shutdown_enable: bool = option(
        "controlled.shutdown.enable", True, "Whether a broker that stops hands its leaderships over first."
    )

    @property
    def per_ip_overrides(self) -> dict[str, int]:
        """The limit of each address in max.connections.per.ip.overrides.  Errors: ValueError."""
        entries = (entry.rpartition(":") for entry in self.max_connections_per_ip_overrides.split(",") if entry.strip())
        return {host.strip(): int(number) for host, _, number in entries}

    def refusal(self) -> ConfigError | None:
        try:
            self.per_ip_overrides  # noqa: B018
        except ValueError:
            text = "each entry is host:number, as in 10.0.0.7:100"
            return ConfigError("max.connections.per.ip.overrides", self.max_connections_per_ip_overrides, text)
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            return ConfigError(
                "queued.max.request.bytes",
                self.queued_max_request_bytes,
                f"it must be at least socket.request.max.bytes, which is {self.socket_request_max_bytes}: change one of the two",
            )
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            text = "no client could connect: set max.connections.per.ip.overrides, or a number above 0"
            return ConfigError("max.connections.per.ip", 0, text)
        return None
