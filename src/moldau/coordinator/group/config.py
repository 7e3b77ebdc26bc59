"""◇ Options of the group coordinator.

Source: GroupCoordinatorConfig, GroupConfig; KIP-848, 932, 1071.

Groups of three kinds have the same three options, each within limits of its kind.  A single group may have a value of its own.
"""

from typing import Any

from moldau.config import MAX_INT, Configs, Long, MiB, Short, at_least, between, each_of, group_limit, group_option, one_of, option


def _session_timeout(kind: str) -> Any:
    return group_option(
        f"{kind}.session.timeout.ms",
        45_000,
        f"How long a {kind} group's member may be silent.",
        check=at_least(1),
        bounds=[f"> group.{kind}.heartbeat.interval.ms"],
    )


def _heartbeat_interval(kind: str) -> Any:
    return group_option(f"{kind}.heartbeat.interval.ms", 5_000, f"How often a {kind} group's members report.", check=at_least(1))


def _assignment_interval(kind: str) -> Any:
    return group_option(
        f"{kind}.assignment.interval.ms",
        1_000,
        f"Least time between two assignments of one {kind} group.",
        check=at_least(0),
        update="cluster-wide",
    )


class GroupCoordinatorConfig(Configs):
    """The options of a broker's groups."""

    offsets_topic_partition_count: int = option(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets; not to be changed once groups exist.",
        check=at_least(1),
        importance="high",
    )
    offsets_topic_replication_factor: Short = option(
        "offsets.topic.replication.factor",
        3,
        "Replicas of __consumer_offsets; the topic is created once that many brokers are there.",
        check=at_least(1),
        importance="high",
    )
    offsets_topic_segment_bytes: int = option(
        "offsets.topic.segment.bytes",
        100 * MiB,
        "Segment size of __consumer_offsets, in bytes: small ones compact and load faster.",
        check=at_least(1),
        importance="high",
    )
    offsets_topic_compression_codec: int = option(
        "offsets.topic.compression.codec",
        0,
        "Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
        importance="high",
    )
    is_connection_order_enabled: bool = option(
        "group.connection.order.enable",
        True,
        "Close a connection on which a member's heartbeat arrives after the member has sent others on a newer one: the old "
        "report is not the present state. Switch off for proxies that spread a client over many connections.",
        importance="low",
        is_ours=True,
    )
    offsets_load_buffer_size: int = option(
        "offsets.load.buffer.size", 5 * MiB, "Bytes read at once while offsets and groups are loaded.", check=at_least(1), importance="high"
    )
    offset_metadata_max_bytes: int = option(
        "offset.metadata.max.bytes", 4096, "Longest text that a client may keep with a committed offset, in characters.", importance="high"
    )
    offsets_retention_minutes: int = option(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long offsets outlive a group's last member or, without members, their commit.",
        check=at_least(1),
        importance="high",
    )
    offsets_retention_check_interval_ms: Long = option(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often expired offsets are removed.",
        check=at_least(1),
        importance="high",
    )
    min_session_timeout_ms: int = option(
        "group.min.session.timeout.ms", 6_000, "Shortest session time-out that a classic member may ask for."
    )
    max_session_timeout_ms: int = option(
        "group.max.session.timeout.ms", 1_800_000, "Longest session time-out that a classic member may ask for."
    )
    initial_rebalance_delay_ms: int = option(
        "group.initial.rebalance.delay.ms", 3_000, "How long the first rebalance of an empty classic group waits for more members."
    )
    max_size: int = option("group.max.size", MAX_INT, "Most members of a classic group.", check=at_least(1))
    rebalance_protocols: tuple[str, ...] = option(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "Without consumer or streams, requests of that protocol are refused.",
        check=each_of("classic", "consumer", "share", "streams"),
    )
    consumer_session_timeout_ms: int = _session_timeout("consumer")
    consumer_min_session_timeout_ms: int = group_limit("min", "consumer.session.timeout.ms", 45_000, check=at_least(1))
    consumer_max_session_timeout_ms: int = group_limit("max", "consumer.session.timeout.ms", 60_000, check=at_least(1))
    consumer_heartbeat_interval_ms: int = _heartbeat_interval("consumer")
    consumer_min_heartbeat_interval_ms: int = group_limit("min", "consumer.heartbeat.interval.ms", 5_000, check=at_least(1))
    consumer_max_heartbeat_interval_ms: int = group_limit("max", "consumer.heartbeat.interval.ms", 15_000, check=at_least(1))
    consumer_assignment_interval_ms: int = _assignment_interval("consumer")
    consumer_min_assignment_interval_ms: int = group_limit("min", "consumer.assignment.interval.ms", 0, check=at_least(0))
    consumer_max_assignment_interval_ms: int = group_limit("max", "consumer.assignment.interval.ms", 15_000, check=at_least(0))
    consumer_max_size: int = option("group.consumer.max.size", MAX_INT, "Most members of a consumer group.", check=at_least(1))
    consumer_assignors: tuple[str, ...] = option(
        "group.consumer.assignors",
        ("uniform", "range"),
        "Assignors of the server side; the first is the default.",
        check=each_of("uniform", "range"),
    )
    consumer_regex_refresh_interval_ms: int = option(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "Without effect: regular expressions are matched anew with the first heartbeat after topics changed.",
        check=at_least(10_000),
    )
    consumer_migration_policy: str = option(
        "group.consumer.migration.policy",
        "bidirectional",
        "The directions in which a living group may change its protocol.",
        check=one_of("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    share_session_timeout_ms: int = _session_timeout("share")
    share_min_session_timeout_ms: int = group_limit("min", "share.session.timeout.ms", 45_000, check=at_least(1))
    share_max_session_timeout_ms: int = group_limit("max", "share.session.timeout.ms", 60_000, check=at_least(1))
    share_heartbeat_interval_ms: int = _heartbeat_interval("share")
    share_min_heartbeat_interval_ms: int = group_limit("min", "share.heartbeat.interval.ms", 5_000, check=at_least(1))
    share_max_heartbeat_interval_ms: int = group_limit("max", "share.heartbeat.interval.ms", 15_000, check=at_least(1))
    share_assignment_interval_ms: int = _assignment_interval("share")
    share_min_assignment_interval_ms: int = group_limit("min", "share.assignment.interval.ms", 0, check=at_least(0))
    share_max_assignment_interval_ms: int = group_limit("max", "share.assignment.interval.ms", 15_000, check=at_least(0))
    share_max_size: int = option("group.share.max.size", 200, "Most members of a share group.", check=between(1, 1_000))
    share_assignors: tuple[str, ...] = option(
        "group.share.assignors",
        ("simple",),
        "Without effect: `simple` is the only assignor.",
        check=each_of("simple"),
    )
    share_initialize_retry_interval_ms: int = option(
        "group.share.initialize.retry.interval.ms",
        30_000,
        "How long until the share coordinator is asked again to begin a state.",
        check=at_least(1),
        importance="low",
    )
    streams_session_timeout_ms: int = _session_timeout("streams")
    streams_min_session_timeout_ms: int = group_limit("min", "streams.session.timeout.ms", 45_000, check=at_least(1))
    streams_max_session_timeout_ms: int = group_limit("max", "streams.session.timeout.ms", 60_000, check=at_least(1))
    streams_heartbeat_interval_ms: int = _heartbeat_interval("streams")
    streams_min_heartbeat_interval_ms: int = group_limit("min", "streams.heartbeat.interval.ms", 5_000, check=at_least(1))
    streams_max_heartbeat_interval_ms: int = group_limit("max", "streams.heartbeat.interval.ms", 15_000, check=at_least(1))
    streams_assignment_interval_ms: int = _assignment_interval("streams")
    streams_min_assignment_interval_ms: int = group_limit("min", "streams.assignment.interval.ms", 0, check=at_least(0))
    streams_max_assignment_interval_ms: int = group_limit("max", "streams.assignment.interval.ms", 15_000, check=at_least(0))
    streams_max_size: int = option("group.streams.max.size", MAX_INT, "Most members of a streams group.", check=at_least(1))
    streams_standby_count: int = option(
        "group.streams.num.standby.replicas",
        0,
        "Stand-by copies of each task with state.",
        group="streams.num.standby.replicas",
        check=at_least(0),
        bounds=["<= group.streams.max.standby.replicas"],
    )
    streams_max_standby_count: int = option(
        "group.streams.max.standby.replicas", 2, "Most stand-by copies that a streams group may have.", check=at_least(0)
    )
    streams_initial_rebalance_delay_ms: int = option(
        "group.streams.initial.rebalance.delay.ms",
        3_000,
        "How long the first assignment of an empty streams group waits for more members.",
        group="streams.initial.rebalance.delay.ms",
        check=at_least(0),
    )
