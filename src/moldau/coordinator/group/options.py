"""◇ Options of the group coordinator.  Source: GroupCoordinatorConfig, GroupConfig."""

from moldau.config import MAX_INT, Configs, Kind, at_least, between, configs, each_of, one_of, option


@configs
class GroupCoordinatorConfig(Configs):
    """What a broker's groups obey."""

    offsets_topic_partition_count: int = option("offsets.topic.num.partitions", 50, check=at_least(1), importance="high",
        doc="Partitions of __consumer_offsets; not to be changed once groups exist.")  # fmt: skip
    offsets_topic_replication_factor: int = option("offsets.topic.replication.factor", 3, kind=Kind.SHORT, importance="high",
        check=at_least(1), doc="Replicas of __consumer_offsets; the topic is created once that many brokers are there.")  # fmt: skip
    offsets_topic_segment_bytes: int = option("offsets.topic.segment.bytes", 100 * 1024 * 1024, check=at_least(1), importance="high",
        doc="Segment size of __consumer_offsets, in bytes: small ones compact and load faster.")  # fmt: skip
    offsets_topic_compression_codec: int = option("offsets.topic.compression.codec", 0, check=between(0, 4), importance="high",
        doc="Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")  # fmt: skip
    offsets_load_buffer_size: int = option("offsets.load.buffer.size", 5 * 1024 * 1024, check=at_least(1), importance="high",
        doc="Bytes read at once while offsets and groups are loaded.")  # fmt: skip
    offset_metadata_max_bytes: int = option("offset.metadata.max.bytes", 4096, importance="high",
        doc="Longest text that a client may keep with a committed offset, in characters.")  # fmt: skip
    offsets_retention_minutes: int = option("offsets.retention.minutes", 7 * 24 * 60, check=at_least(1), importance="high",
        doc="How long offsets outlive a group's last member or, without members, their commit.")  # fmt: skip
    offsets_retention_check_interval_ms: int = option("offsets.retention.check.interval.ms", 600_000, kind=Kind.LONG, importance="high",
        check=at_least(1), doc="How often offsets that have expired are looked for.")  # fmt: skip
    min_session_timeout_ms: int = option("group.min.session.timeout.ms", 6_000,
        doc="Shortest session time-out that a classic member may ask for.")  # fmt: skip
    max_session_timeout_ms: int = option("group.max.session.timeout.ms", 1_800_000,
        doc="Longest session time-out that a classic member may ask for.")  # fmt: skip
    initial_rebalance_delay_ms: int = option("group.initial.rebalance.delay.ms", 3_000,
        doc="How long the first rebalance of an empty classic group waits for more members.")  # fmt: skip
    max_size: int = option("group.max.size", MAX_INT, check=at_least(1),
        doc="Most members of a classic group.")  # fmt: skip
    rebalance_protocols: tuple[str, ...] = option("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
        check=each_of("classic", "consumer", "share", "streams"),
        doc="Without consumer, requests of the consumer protocol are refused.")  # fmt: skip
    consumer_session_timeout_ms: int = option("group.consumer.session.timeout.ms", 45_000, check=at_least(1),
        doc="How long a consumer group's member may be silent.")  # fmt: skip
    consumer_min_session_timeout_ms: int = option("group.consumer.min.session.timeout.ms", 45_000, check=at_least(1),
        doc="Least session time-out that a group may be given.")  # fmt: skip
    consumer_max_session_timeout_ms: int = option("group.consumer.max.session.timeout.ms", 60_000, check=at_least(1),
        doc="Greatest session time-out that a group may be given.")  # fmt: skip
    consumer_heartbeat_interval_ms: int = option("group.consumer.heartbeat.interval.ms", 5_000, check=at_least(1),
        doc="How often a consumer group's members report.")  # fmt: skip
    consumer_min_heartbeat_interval_ms: int = option("group.consumer.min.heartbeat.interval.ms", 5_000, check=at_least(1),
        doc="Least heartbeat interval that a group may be given.")  # fmt: skip
    consumer_max_heartbeat_interval_ms: int = option("group.consumer.max.heartbeat.interval.ms", 15_000, check=at_least(1),
        doc="Greatest heartbeat interval that a group may be given.")  # fmt: skip
    consumer_max_size: int = option("group.consumer.max.size", MAX_INT, check=at_least(1),
        doc="Most members of a consumer group.")  # fmt: skip
    consumer_assignors: tuple[str, ...] = option("group.consumer.assignors", ("uniform", "range"), check=each_of("uniform", "range"),
        doc="Assignors of the server side; the first is the default.")  # fmt: skip
    consumer_assignment_interval_ms: int = option("group.consumer.assignment.interval.ms", 1_000, check=at_least(0), update="cluster-wide",
        doc="Least time between two assignments of one group.")  # fmt: skip
    consumer_min_assignment_interval_ms: int = option("group.consumer.min.assignment.interval.ms", 0, check=at_least(0),
        doc="Least assignment interval that a group may be given.")  # fmt: skip
    consumer_max_assignment_interval_ms: int = option("group.consumer.max.assignment.interval.ms", 15_000, check=at_least(0),
        doc="Greatest assignment interval that a group may be given.")  # fmt: skip
    consumer_regex_refresh_interval_ms: int = option("group.consumer.regex.refresh.interval.ms", 600_000, check=at_least(10_000),
        doc="Without effect: regular expressions are matched anew with the first heartbeat after topics changed.")  # fmt: skip
    consumer_migration_policy: str = option("group.consumer.migration.policy", "bidirectional",
        check=one_of("disabled", "upgrade", "downgrade", "bidirectional"),
        doc="Which way a living group may change its protocol.")  # fmt: skip
    share_session_timeout_ms: int = option("group.share.session.timeout.ms", 45_000, check=at_least(1),
        doc="How long a share group's member may be silent.")  # fmt: skip
    share_min_session_timeout_ms: int = option("group.share.min.session.timeout.ms", 45_000, check=at_least(1),
        doc="Least session time-out that a share group may be given.")  # fmt: skip
    share_max_session_timeout_ms: int = option("group.share.max.session.timeout.ms", 60_000, check=at_least(1),
        doc="Greatest session time-out that a share group may be given.")  # fmt: skip
    share_heartbeat_interval_ms: int = option("group.share.heartbeat.interval.ms", 5_000, check=at_least(1),
        doc="How often a share group's members report.")  # fmt: skip
    share_min_heartbeat_interval_ms: int = option("group.share.min.heartbeat.interval.ms", 5_000, check=at_least(1),
        doc="Least heartbeat interval that a share group may be given.")  # fmt: skip
    share_max_heartbeat_interval_ms: int = option("group.share.max.heartbeat.interval.ms", 15_000, check=at_least(1),
        doc="Greatest heartbeat interval that a share group may be given.")  # fmt: skip
    share_max_size: int = option("group.share.max.size", 200, check=between(1, 1_000),
        doc="Most members of a share group.")  # fmt: skip
    share_assignors: tuple[str, ...] = option("group.share.assignors", ("simple",), check=each_of("simple"),
        doc="Assignor of share groups: there is one.")  # fmt: skip
    share_assignment_interval_ms: int = option("group.share.assignment.interval.ms", 1_000, check=at_least(0), update="cluster-wide",
        doc="Least time between two assignments of one share group.")  # fmt: skip
    share_min_assignment_interval_ms: int = option("group.share.min.assignment.interval.ms", 0, check=at_least(0),
        doc="Least assignment interval that a share group may be given.")  # fmt: skip
    share_max_assignment_interval_ms: int = option("group.share.max.assignment.interval.ms", 15_000, check=at_least(0),
        doc="Greatest assignment interval that a share group may be given.")  # fmt: skip
    share_initialize_retry_interval_ms: int = option("group.share.initialize.retry.interval.ms", 30_000, importance="low",
        check=at_least(1), doc="After this long the share coordinator is asked again to begin a state.")  # fmt: skip
