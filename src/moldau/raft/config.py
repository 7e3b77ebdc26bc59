"""◇ Options of the quorum and of its log.

Source: QuorumConfig, MetadataLogConfig, KRaftConfigs; defaults are Kafka's.
"""

from typing import Final

from moldau.config import Configs, Kind, at_least, configs, option

DAY_MS: Final = 86_400_000
MiB: Final = 1 << 20


@configs
class QuorumConfig(Configs):
    """Who votes, how patient they are, and how the metadata log is kept."""

    voters: tuple[str, ...] = option(
        "controller.quorum.voters",
        (),
        importance="high",
        doc="A fixed set of controllers, as id@host:port,…; empty for one that can change.",
    )
    bootstrap_servers: tuple[str, ...] = option(
        "controller.quorum.bootstrap.servers", (), importance="high", doc="Where to look for the controllers, as host:port,…"
    )
    election_timeout_ms: int = option(
        "controller.quorum.election.timeout.ms", 1000, importance="high", doc="How long a candidate waits for votes before it tries again."
    )
    fetch_timeout_ms: int = option(
        "controller.quorum.fetch.timeout.ms",
        2000,
        importance="high",
        doc="How long a voter bears to hear nothing of its leader.",
    )
    election_backoff_max_ms: int = option(
        "controller.quorum.election.backoff.max.ms", 1000, importance="high", doc="The longest pause between two candidatures."
    )
    append_linger_ms: int = option(
        "controller.quorum.append.linger.ms",
        25,
        doc="Without effect: appends that wait share one sync, and none waits for others.",
    )
    request_timeout_ms: int = option("controller.quorum.request.timeout.ms", 2000, doc="How long one request may take.")
    retry_backoff_ms: int = option("controller.quorum.retry.backoff.ms", 20, importance="low", doc="The pause before it is sent again.")
    auto_join_enable: bool = option(
        "controller.quorum.auto.join.enable", False, importance="low", doc="Whether a controller asks to become a voter."
    )
    fetch_max_bytes: int = option("controller.quorum.fetch.max.bytes", MiB, check=at_least(1), doc="Bytes of one fetch of the log.")
    fetch_snapshot_max_bytes: int = option(
        "controller.quorum.fetch.snapshot.max.bytes", MiB, check=at_least(1), doc="Bytes of one fetch of a snapshot."
    )

    segment_bytes: int = option("metadata.log.segment.bytes", 1 << 30, check=at_least(8 * MiB), importance="high", doc="Size of a segment.")
    segment_ms: int = option(
        "metadata.log.segment.ms",
        7 * DAY_MS,
        kind=Kind.LONG,
        check=at_least(1),
        importance="high",
        doc="Age at which a new segment begins.",
    )
    max_bytes_between_snapshots: int = option(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MiB,
        kind=Kind.LONG,
        check=at_least(1),
        importance="high",
        doc="A snapshot is written when the log has grown by this many bytes since the last.",
    )
    max_snapshot_interval_ms: int = option(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        kind=Kind.LONG,
        check=at_least(0),
        importance="high",
        doc="A snapshot is written when the last is this old and something has changed; 0 for never by time.",
    )
    max_retention_bytes: int = option(
        "metadata.max.retention.bytes",
        100 * MiB,
        kind=Kind.LONG,
        importance="high",
        doc="Old snapshots and the log before them go when both together are larger than this.",
    )
    max_retention_ms: int = option(
        "metadata.max.retention.ms",
        7 * DAY_MS,
        kind=Kind.LONG,
        importance="high",
        doc="Old snapshots and the log before them go then.",
    )
    max_idle_interval_ms: int = option(
        "metadata.max.idle.interval.ms",
        500,
        check=at_least(0),
        importance="low",
        doc="An idle leader writes a record this often, so that those who follow see that it lives; 0 for never. "
        "A lone node, whom nobody follows, does so only when the option is set: two syncs a second would be for nothing.",
    )
