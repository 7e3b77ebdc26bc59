"""◇ Options of the quorum and of its log.

Source: QuorumConfig, MetadataLogConfig, KRaftConfigs; defaults are Kafka's.
"""

from moldau.config import DAY_MS, HOUR_MS, Configs, GiB, Long, MiB, at_least, option


class QuorumConfig(Configs):
    """The options of voters, elections and the metadata log."""

    voters: tuple[str, ...] = option(
        "controller.quorum.voters", (), "A fixed set of controllers, as id@host:port,…; empty for one that can change.", importance="high"
    )
    bootstrap_servers: tuple[str, ...] = option(
        "controller.quorum.bootstrap.servers", (), "The addresses at which to look for the controllers, as host:port,…", importance="high"
    )
    election_timeout_ms: int = option(
        "controller.quorum.election.timeout.ms", 1000, "How long a candidate waits for votes before it tries again.", importance="high"
    )
    fetch_timeout_ms: int = option(
        "controller.quorum.fetch.timeout.ms", 2000, "How long a voter goes on without hearing from its leader.", importance="high"
    )
    election_backoff_max_ms: int = option(
        "controller.quorum.election.backoff.max.ms", 1000, "The longest pause before a candidate stands again.", importance="high"
    )
    append_linger_ms: int = option(
        "controller.quorum.append.linger.ms", 25, "Without effect: waiting appends share one sync, and no append waits for others."
    )
    request_timeout_ms: int = option("controller.quorum.request.timeout.ms", 2000, "How long one request may take.")
    retry_backoff_ms: int = option("controller.quorum.retry.backoff.ms", 20, "The pause before it is sent again.", importance="low")
    auto_join_enable: bool = option(
        "controller.quorum.auto.join.enable", False, "Whether a controller asks to become a voter.", importance="low"
    )
    fetch_max_bytes: int = option("controller.quorum.fetch.max.bytes", MiB, "Bytes of one fetch of the log.", check=at_least(1))
    fetch_snapshot_max_bytes: int = option(
        "controller.quorum.fetch.snapshot.max.bytes", MiB, "Bytes of one fetch of a snapshot.", check=at_least(1)
    )

    segment_bytes: int = option("metadata.log.segment.bytes", GiB, "Size of a segment.", check=at_least(8 * MiB), importance="high")
    segment_ms: Long = option(
        "metadata.log.segment.ms", 7 * DAY_MS, "Age at which a new segment begins.", check=at_least(1), importance="high"
    )
    max_bytes_between_snapshots: Long = option(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MiB,
        "A snapshot is written when the log has grown by this many bytes since the last.",
        check=at_least(1),
        importance="high",
    )
    max_snapshot_interval_ms: Long = option(
        "metadata.log.max.snapshot.interval.ms",
        HOUR_MS,
        "A snapshot is written when the last is this old and something has changed; 0 for never by time.",
        check=at_least(0),
        importance="high",
    )
    max_retention_bytes: Long = option(
        "metadata.max.retention.bytes",
        100 * MiB,
        "Old snapshots and the log before them go when both together are larger than this.",
        importance="high",
    )
    max_retention_ms: Long = option(
        "metadata.max.retention.ms", 7 * DAY_MS, "Snapshots older than this are deleted, with the log before them.", importance="high"
    )
    max_idle_interval_ms: int = option(
        "metadata.max.idle.interval.ms",
        500,
        "An idle leader writes a record this often, so that followers see that it lives; 0 for never. "
        "A lone node has no followers and does so only if the option is set: two syncs a second would be for nothing.",
        check=at_least(0),
        importance="low",
    )
