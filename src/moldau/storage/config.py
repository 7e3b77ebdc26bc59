"""◇ Options of a log: every topic option of Kafka with the broker's keys that stand behind it.

`LogConfig.load(server_properties).override(topic_configs)` is what one partition's log works with.
Options without a broker key (an empty one) can be set on a topic only.
Source: org.apache.kafka.common.config.TopicConfig, storage LogConfig, ServerTopicConfigSynonyms.
"""

from typing import Final

from moldau.config import MAX_LONG, ConfigError, Configs, Kind, at_least, between, configs, each_of, one_of, option

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
MiB: Final = 1 << 20
GiB: Final = 1 << 30

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SAME_AS_RETENTION: Final = -2


def _gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "Value must be between 1 and 9 or equal to -1"


def _throttled_replicas(entries: tuple[str, ...]) -> str | None:
    """A star, or a list of partition:broker."""
    if entries in (("*",), (), ("",)):
        return None
    for entry in entries:
        partition, colon, broker = entry.partition(":")
        if not (colon and partition.isdigit() and broker.isdigit()):
            return "must be the literal '*' or a list of replicas as [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    return None


@configs
class LogConfig(Configs):
    """What one partition's log goes by."""

    segment_bytes: int = option(
        "log.segment.bytes",
        GiB,
        topic="segment.bytes",
        check=at_least(MiB),
        update="cluster-wide",
        importance="high",
        doc="Roll to a new segment before the active one would exceed this many bytes.",
    )
    segment_ms: int = option(
        "log.roll.ms",
        168 * HOUR_MS,
        kind=Kind.LONG,
        topic="segment.ms",
        fallbacks=[("log.roll.hours", HOUR_MS)],
        check=at_least(1),
        update="cluster-wide",
        doc="Roll to a new segment when the active one is this old, even if it is not full.",
    )
    segment_jitter_ms: int = option(
        "log.roll.jitter.ms",
        0,
        kind=Kind.LONG,
        topic="segment.jitter.ms",
        fallbacks=[("log.roll.jitter.hours", HOUR_MS)],
        check=at_least(0),
        update="cluster-wide",
        doc="Take up to this much off segment.ms, differently for each segment, so that not all of them roll at once.",
    )
    segment_index_bytes: int = option(
        "log.index.size.max.bytes",
        10 * MiB,
        topic="segment.index.bytes",
        check=at_least(4),
        update="cluster-wide",
        doc="Roll to a new segment when its offset index or time index reaches this size.",
    )
    flush_messages: int = option(
        "log.flush.interval.messages",
        MAX_LONG,
        kind=Kind.LONG,
        topic="flush.messages",
        check=at_least(1),
        update="cluster-wide",
        doc="Sync the log after this many records at the latest.",
    )
    flush_ms: int = option(
        "log.flush.interval.ms",
        MAX_LONG,
        kind=Kind.LONG,
        topic="flush.ms",
        fallbacks=[("log.flush.scheduler.interval.ms", 1)],
        check=at_least(0),
        update="cluster-wide",
        doc="Sync the log when a record has waited this long.",
    )
    retention_bytes: int = option(
        "log.retention.bytes",
        -1,
        kind=Kind.LONG,
        topic="retention.bytes",
        update="cluster-wide",
        doc="Delete the oldest segments while the partition is larger than this; -1 for no limit.",
    )
    retention_ms: int = option(
        "log.retention.ms",
        168 * HOUR_MS,
        kind=Kind.LONG,
        topic="retention.ms",
        fallbacks=[("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)],
        check=at_least(-1),
        update="cluster-wide",
        doc="Delete segments whose newest record is older than this; -1 for no limit.",
    )
    local_retention_bytes: int = option(
        "log.local.retention.bytes",
        SAME_AS_RETENTION,
        kind=Kind.LONG,
        topic="local.retention.bytes",
        check=at_least(-2),
        update="cluster-wide",
        doc="With tiered storage: bytes of a partition that stay on the broker; -2 for retention.bytes.",
    )
    local_retention_ms: int = option(
        "log.local.retention.ms",
        SAME_AS_RETENTION,
        kind=Kind.LONG,
        topic="local.retention.ms",
        check=at_least(-2),
        update="cluster-wide",
        doc="With tiered storage: how long a segment stays on the broker; -2 for retention.ms.",
    )
    max_message_bytes: int = option(
        "message.max.bytes",
        MiB + 12,
        topic="max.message.bytes",
        check=at_least(0),
        update="cluster-wide",
        importance="high",
        doc="The largest record batch that is taken, compressed as it came.",
    )
    index_interval_bytes: int = option(
        "log.index.interval.bytes",
        4096,
        topic="index.interval.bytes",
        check=at_least(0),
        update="cluster-wide",
        doc="One entry in the offset index for this many bytes of log.",
    )
    delete_retention_ms: int = option(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        kind=Kind.LONG,
        topic="delete.retention.ms",
        check=at_least(0),
        update="cluster-wide",
        doc="How long the tombstone of a key outlives its compaction.",
    )
    min_compaction_lag_ms: int = option(
        "log.cleaner.min.compaction.lag.ms",
        0,
        kind=Kind.LONG,
        topic="min.compaction.lag.ms",
        check=at_least(0),
        update="cluster-wide",
        doc="A record younger than this is not compacted.",
    )
    max_compaction_lag_ms: int = option(
        "log.cleaner.max.compaction.lag.ms",
        MAX_LONG,
        kind=Kind.LONG,
        topic="max.compaction.lag.ms",
        check=at_least(1),
        update="cluster-wide",
        doc="A record older than this is compacted whatever the dirty ratio says.",
    )
    file_delete_delay_ms: int = option(
        "log.segment.delete.delay.ms",
        MINUTE_MS,
        kind=Kind.LONG,
        topic="file.delete.delay.ms",
        check=at_least(0),
        update="cluster-wide",
        doc="How long a deleted segment's files stay on the disk under another name.",
    )
    min_cleanable_dirty_ratio: float = option(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        topic="min.cleanable.dirty.ratio",
        check=between(0, 1),
        update="cluster-wide",
        doc="Compact a log when this share of it has not been compacted yet.",
    )
    cleanup_policy: tuple[str, ...] = option(
        "log.cleanup.policy",
        ("delete",),
        topic="cleanup.policy",
        check=each_of("compact", "delete"),
        update="cluster-wide",
        doc="delete: old segments go by time and size; compact: the last value of each key stays; both; empty: everything stays.",
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable",
        False,
        topic="unclean.leader.election.enable",
        update="cluster-wide",
        importance="high",
        doc="Whether a replica that is not in sync may lead as a last resort: the partition goes on, records are lost.",
    )
    takes_dead_letters: bool = option(
        "",
        False,
        topic="errors.deadletterqueue.group.enable",
        update="cluster-wide",
        doc="Whether share groups may write dead letters here (KIP-1191).",
    )
    share_delivery_delay_ms: int = option(
        "",
        0,
        topic="share.delivery.delay.ms",
        kind=Kind.LONG,
        check=at_least(0),
        update="cluster-wide",
        doc="How long after its timestamp a record is first delivered to share groups that do not say so themselves.",
    )
    share_retry_delay_ms: int = option(
        "",
        0,
        topic="share.retry.delay.ms",
        kind=Kind.LONG,
        check=at_least(0),
        update="cluster-wide",
        doc="How long a record waits after a failed delivery in share groups that do not say so themselves.",
    )
    min_insync_replicas: int = option(
        "min.insync.replicas",
        1,
        topic="min.insync.replicas",
        check=at_least(1),
        update="cluster-wide",
        importance="high",
        doc="How many replicas must have a record before acks=all is answered.",
    )
    compression_type: str = option(
        "compression.type",
        "producer",
        topic="compression.type",
        check=one_of(*COMPRESSION_TYPES),
        update="cluster-wide",
        importance="high",
        doc="How batches are stored: as the producer compressed them, or compressed again by the broker.",
    )
    compression_gzip_level: int = option(
        "compression.gzip.level",
        -1,
        topic="compression.gzip.level",
        check=_gzip_level,
        update="cluster-wide",
        doc="Level when the broker compresses with gzip.",
    )
    compression_lz4_level: int = option(
        "compression.lz4.level",
        9,
        topic="compression.lz4.level",
        check=between(1, 17),
        update="cluster-wide",
        doc="Level when the broker compresses with lz4.",
    )
    compression_zstd_level: int = option(
        "compression.zstd.level",
        3,
        topic="compression.zstd.level",
        check=between(-131072, 22),
        update="cluster-wide",
        doc="Level when the broker compresses with zstd.",
    )
    preallocate: bool = option(
        "log.preallocate",
        False,
        topic="preallocate",
        update="cluster-wide",
        doc="Accepted for Kafka's sake; a file system on Linux gains nothing from it and segments grow as they are written.",
    )
    message_timestamp_type: str = option(
        "log.message.timestamp.type",
        "CreateTime",
        topic="message.timestamp.type",
        check=one_of("CreateTime", "LogAppendTime"),
        update="cluster-wide",
        doc="Whether a record's timestamp is the producer's or the broker's at the append.",
    )
    message_timestamp_before_max_ms: int = option(
        "log.message.timestamp.before.max.ms",
        MAX_LONG,
        kind=Kind.LONG,
        topic="message.timestamp.before.max.ms",
        check=at_least(0),
        update="cluster-wide",
        doc="How far a record's timestamp may lie behind the broker's clock.",
    )
    message_timestamp_after_max_ms: int = option(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        kind=Kind.LONG,
        topic="message.timestamp.after.max.ms",
        check=at_least(0),
        update="cluster-wide",
        doc="How far a record's timestamp may lie ahead of the broker's clock.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        "",
        (),
        topic="leader.replication.throttled.replicas",
        check=_throttled_replicas,
        update="cluster-wide",
        doc="Replicas whose sending is throttled: partition:broker,… or *.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        "",
        (),
        topic="follower.replication.throttled.replicas",
        check=_throttled_replicas,
        update="cluster-wide",
        doc="Replicas whose fetching is throttled: partition:broker,… or *.",
    )
    remote_storage_enable: bool = option(
        "", False, topic="remote.storage.enable", update="cluster-wide", doc="Whether older segments move to the object store."
    )
    remote_log_copy_disable: bool = option(
        "",
        False,
        topic="remote.log.copy.disable",
        update="cluster-wide",
        doc="No more copying to the object store; what is there stays readable.",
    )
    remote_log_delete_on_disable: bool = option(
        "",
        False,
        topic="remote.log.delete.on.disable",
        update="cluster-wide",
        doc="Delete what is in the object store when remote.storage.enable goes off.",
    )
    flush_policy: str = option(
        "log.flush.policy",
        "ack",
        check=one_of("ack", "os"),
        update="read-only",
        importance="high",
        doc="ack: acks=all is answered once the batch is on stable storage; os: once it is in the page cache, as Kafka does it.",
    )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def effective_local_retention_bytes(self) -> int:
        return self.retention_bytes if self.local_retention_bytes == SAME_AS_RETENTION else self.local_retention_bytes

    @property
    def effective_local_retention_ms(self) -> int:
        return self.retention_ms if self.local_retention_ms == SAME_AS_RETENTION else self.local_retention_ms

    def validate(self) -> None:
        """What no single option can say.  Errors: ConfigError."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "min.compaction.lag.ms",
                self.min_compaction_lag_ms,
                f"must not be larger than max.compaction.lag.ms, which is {self.max_compaction_lag_ms}",
            )


@configs
class CleanerConfig(Configs):
    """What compaction may take of the machine."""

    enable: bool = option("log.cleaner.enable", True, doc="Whether logs with cleanup.policy=compact are compacted.")
    threads: int = option("log.cleaner.threads", 1, check=at_least(0), update="cluster-wide", doc="How many logs are compacted at once.")
    io_max_bytes_per_second: float = option(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        update="cluster-wide",
        doc="The most that one compaction reads and writes a second.",
    )
    dedupe_buffer_size: int = option(
        "log.cleaner.dedupe.buffer.size",
        128 * MiB,
        kind=Kind.LONG,
        update="cluster-wide",
        doc="Memory for the newest offset of each key; a log with more keys than fit is compacted in several rounds.",
    )
    backoff_ms: int = option(
        "log.cleaner.backoff.ms",
        15_000,
        kind=Kind.LONG,
        check=at_least(0),
        update="cluster-wide",
        doc="How long to wait when nothing is dirty.",
    )
