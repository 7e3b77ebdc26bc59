"""◇ The options of a node: roles, listeners, limits, intervals, by Kafka's names.

`ServerConfig` holds what no single room below reads; the options of a log, of the quorum, of groups are declared where they are read.
`node_config.py` puts all of them together.  Source: ServerConfigs, SocketServerConfigs, KRaftConfigs, ReplicationConfigs, ServerLogConfigs.
"""

from typing import Final

from moldau.config import MAX_INT, MAX_LONG, Configs, Kind, at_least, configs, each_of, one_of, option
from moldau.server.endpoints import PROTOCOLS

ROLES: Final = ("broker", "controller")


@configs
class ServerConfig(Configs):
    """What the process as a whole goes by."""

    process_roles: tuple[str, ...] = option(
        "process.roles", (), check=each_of(*ROLES), importance="high", doc="What this process is: broker, controller, or both."
    )
    node_id: int = option("node.id", -1, fallbacks=[("broker.id", 1)], importance="high", doc="The number of this node in its cluster.")
    listeners: tuple[str, ...] = option(
        "listeners", ("PLAINTEXT://:9092",), importance="high", doc="Addresses to listen on, as NAME://host:port,…"
    )
    advertised_listeners: tuple[str, ...] = option(
        "advertised.listeners",
        (),
        update="read-only",
        importance="high",
        nullable=True,
        doc="Addresses told to clients, as NAME://host:port,…; without it they are told those of listeners.",
    )
    listener_security_protocol_map: tuple[str, ...] = option(
        "listener.security.protocol.map",
        tuple(f"{name}:{name}" for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        update="per-broker",
        importance="low",
        doc="What each listener speaks, as NAME:PROTOCOL,…",
    )
    controller_listener_names: tuple[str, ...] = option(
        "controller.listener.names", (), importance="high", doc="The listeners on which controllers talk to each other and to brokers."
    )
    inter_broker_listener_name: str | None = option(
        "inter.broker.listener.name", None, doc="The listener on which brokers talk to each other."
    )
    security_inter_broker_protocol: str = option(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        check=one_of(*PROTOCOLS),
        doc="The listener between brokers by its protocol, where inter.broker.listener.name does not name it.",
    )
    log_dirs: tuple[str, ...] = option(
        "log.dirs", ("/tmp/kafka-logs",), fallbacks=[("log.dir", 1)], importance="high", doc="The folders that hold partitions."
    )
    metadata_log_dir: str | None = option(
        "metadata.log.dir", None, importance="high", doc="The folder of the metadata log; without it, the first of log.dirs."
    )
    num_recovery_threads_per_data_dir: int = option(
        "num.recovery.threads.per.data.dir",
        2,
        check=at_least(1),
        update="cluster-wide",
        importance="high",
        doc="How many logs of each folder are loaded at a time when the broker starts.",
    )
    num_replica_alter_log_dirs_threads: int | None = option(
        "num.replica.alter.log.dirs.threads",
        None,
        kind=Kind.INT,
        doc="How many logs move between folders at a time; without it, as many as there are folders.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        MAX_LONG,
        kind=Kind.LONG,
        check=at_least(0),
        update="per-broker",
        doc="The most that one log that moves between folders copies a second.",
    )
    broker_rack: str | None = option("broker.rack", None, doc="Where this broker stands: replicas are spread over racks.")

    num_partitions: int = option("num.partitions", 1, check=at_least(1), doc="Partitions of a topic that does not say how many.")
    default_replication_factor: int = option(
        "default.replication.factor", 1, check=at_least(1), doc="Replicas of a partition of a topic that does not say how many."
    )
    auto_create_topics_enable: bool = option(
        "auto.create.topics.enable", True, importance="high", doc="Whether a topic comes to be when a client that allows it asks for it."
    )
    delete_topic_enable: bool = option("delete.topic.enable", True, importance="high", doc="Whether topics can be deleted.")

    socket_request_max_bytes: int = option(
        "socket.request.max.bytes", 100 << 20, check=at_least(1), importance="high", doc="The largest request that is taken."
    )
    socket_send_buffer_bytes: int = option(
        "socket.send.buffer.bytes",
        102400,
        importance="high",
        doc="SO_SNDBUF of a connection; -1 leaves it to the system.  Not set: 262144.",
    )
    socket_receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes",
        102400,
        importance="high",
        doc="SO_RCVBUF of a connection; -1 leaves it to the system, as when it is not set.",
    )
    socket_listen_backlog_size: int = option(
        "socket.listen.backlog.size", 50, check=at_least(1), doc="Connections that may wait to be accepted."
    )
    connections_max_idle_ms: int = option(
        "connections.max.idle.ms", 600_000, kind=Kind.LONG, doc="Close a connection on which nothing moved for this long."
    )
    max_connections: int = option(
        "max.connections", MAX_INT, check=at_least(0), update="cluster-wide", doc="Connections that the process takes at a time."
    )
    max_connections_per_ip: int = option(
        "max.connections.per.ip", MAX_INT, check=at_least(0), update="cluster-wide", doc="Connections from one address at a time."
    )
    max_connections_per_ip_overrides: str = option(
        "max.connections.per.ip.overrides", "", update="cluster-wide", doc="Other limits for some addresses, as host:number,…"
    )
    max_connection_creation_rate: int = option(
        "max.connection.creation.rate", MAX_INT, check=at_least(0), update="cluster-wide", doc="New connections a second."
    )
    queued_max_requests: int = option(
        "queued.max.requests", 500, check=at_least(1), importance="high", doc="Requests of one connection that may be in work at a time."
    )
    queued_max_request_bytes: int = option(
        "queued.max.request.bytes", -1, kind=Kind.LONG, doc="Bytes of requests that may be in work at a time; -1 for no limit."
    )
    request_timeout_ms: int = option("request.timeout.ms", 30_000, importance="high", doc="How long a request to another node may take.")

    fetch_max_bytes: int = option("fetch.max.bytes", 55 << 20, check=at_least(1024), doc="The most that one fetch is answered with.")
    max_incremental_fetch_session_cache_slots: int = option(
        "max.incremental.fetch.session.cache.slots", 1000, check=at_least(0), doc="Fetch sessions kept at a time (KIP-227)."
    )
    max_request_partition_size_limit: int = option(
        "max.request.partition.size.limit", 2000, check=at_least(1), doc="Partitions in one page of DescribeTopicPartitions."
    )

    replica_lag_time_max_ms: int = option(
        "replica.lag.time.max.ms", 30_000, kind=Kind.LONG, importance="high", doc="A follower behind for this long leaves the in-sync set."
    )
    replica_fetch_wait_max_ms: int = option(
        "replica.fetch.wait.max.ms", 500, importance="high", doc="How long a follower's fetch waits for something to come."
    )
    replica_fetch_max_bytes: int = option(
        "replica.fetch.max.bytes", 1 << 20, check=at_least(0), doc="Bytes that a follower fetches of one partition at a time."
    )
    replica_fetch_min_bytes: int = option("replica.fetch.min.bytes", 1, importance="high", doc="Bytes that a follower's fetch waits for.")
    replica_fetch_response_max_bytes: int = option(
        "replica.fetch.response.max.bytes", 10 << 20, check=at_least(0), doc="Bytes that a follower fetches at a time."
    )
    replica_fetch_backoff_ms: int = option(
        "replica.fetch.backoff.ms", 1000, check=at_least(0), doc="How long a follower waits after a failed fetch."
    )
    replica_socket_timeout_ms: int = option(
        "replica.socket.timeout.ms", 30_000, importance="high", doc="How long a follower's fetch may stay unanswered."
    )
    replica_high_watermark_checkpoint_interval_ms: int = option(
        "replica.high.watermark.checkpoint.interval.ms", 5000, kind=Kind.LONG, importance="high", doc="How often high watermarks are noted."
    )

    log_retention_check_interval_ms: int = option(
        "log.retention.check.interval.ms", 300_000, kind=Kind.LONG, check=at_least(1), doc="How often old segments are looked for."
    )
    log_initial_task_delay_ms: int = option(
        "log.initial.task.delay.ms", 30_000, kind=Kind.LONG, check=at_least(0), doc="How long after the start the first look is taken."
    )
    log_flush_scheduler_interval_ms: int = option(
        "log.flush.scheduler.interval.ms",
        MAX_LONG,
        kind=Kind.LONG,
        importance="high",
        doc="How often logs are looked at for flush.ms; the default is never.",
    )
    log_flush_offset_checkpoint_interval_ms: int = option(
        "log.flush.offset.checkpoint.interval.ms", 60_000, check=at_least(0), importance="high", doc="How often recovery points are noted."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = option(
        "log.flush.start.offset.checkpoint.interval.ms", 60_000, check=at_least(0), importance="high", doc="How often log starts are noted."
    )
    producer_id_expiration_ms: int = option(
        "producer.id.expiration.ms",
        86_400_000,
        check=at_least(1),
        update="cluster-wide",
        importance="low",
        doc="How long a partition remembers a producer that writes no more.",
    )
    producer_id_expiration_check_interval_ms: int = option(
        "producer.id.expiration.check.interval.ms", 600_000, check=at_least(1), importance="low", doc="How often they are looked for."
    )

    broker_heartbeat_interval_ms: int = option(
        "broker.heartbeat.interval.ms", 2000, doc="How often a broker tells the controller it lives."
    )
    broker_session_timeout_ms: int = option("broker.session.timeout.ms", 9000, doc="A broker silent for this long is fenced.")
    initial_broker_registration_timeout_ms: int = option(
        "initial.broker.registration.timeout.ms", 60_000, doc="A broker that could not register in this time gives up."
    )
    controlled_shutdown_enable: bool = option(
        "controlled.shutdown.enable", True, doc="Whether a broker that stops hands its leaderships over first."
    )
