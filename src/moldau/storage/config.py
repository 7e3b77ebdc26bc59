"""◇ Options of a log: every topic option of Kafka with the broker's keys that stand behind it.

`LogConfig.load(server_properties).override(topic_configs)` has the options of one partition's log.
Options without a broker key (an empty one) can be set on a topic only.
Source: org.apache.kafka.common.config.TopicConfig, storage LogConfig, ServerTopicConfigSynonyms.
"""

import re
from typing import Final

from moldau.config import (
    DAY_MS,
    HOUR_MS,
    MAX_LONG,
    MINUTE_MS,
    ConfigError,
    Configs,
    GiB,
    Long,
    MiB,
    at_least,
    between,
    each_of,
    one_of,
    option,
)

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SAME_AS_RETENTION: Final = -2
_THROTTLED_REPLICA: Final = re.compile("[0-9]+:[0-9]+")


def _gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "Value must be between 1 and 9 or equal to -1"


def _throttled_replicas(entries: tuple[str, ...]) -> str | None:
    """A star, or a list of partition:broker."""
    if entries in (("*",), (), ("",)):
        return None
    if all(map(_THROTTLED_REPLICA.fullmatch, entries)):
        return None
    return "must be the literal '*' or a list of replicas as [partitionId]:[brokerId],[partitionId]:[brokerId],..."


class LogConfig(Configs, update="cluster-wide"):
    """The options of one partition's log."""

    segment_bytes: int = option(
        "log.segment.bytes",
        GiB,
        "Roll to a new segment before the active one would exceed this many bytes.",
        topic="segment.bytes",
        check=at_least(MiB),
        importance="high",
    )
    segment_ms: Long = option(
        "log.roll.ms",
        168 * HOUR_MS,
        "Roll to a new segment when the active one is this old, even if it is not full.",
        topic="segment.ms",
        fallbacks=[("log.roll.hours", HOUR_MS)],
        check=at_least(1),
    )
    segment_jitter_ms: Long = option(
        "log.roll.jitter.ms",
        0,
        "Take up to this much off segment.ms, differently for each segment, so that not all of them roll at once.",
        topic="segment.jitter.ms",
        fallbacks=[("log.roll.jitter.hours", HOUR_MS)],
        check=at_least(0),
    )
    segment_index_bytes: int = option(
        "log.index.size.max.bytes",
        10 * MiB,
        "Roll to a new segment when its offset index or time index reaches this size.",
        topic="segment.index.bytes",
        check=at_least(4),
    )
    flush_messages: Long = option(
        "log.flush.interval.messages",
        MAX_LONG,
        "Sync the log after this many records at the latest.",
        topic="flush.messages",
        check=at_least(1),
    )
    flush_ms: Long = option(
        "log.flush.interval.ms",
        MAX_LONG,
        "Sync the log when a record has waited this long.",
        topic="flush.ms",
        fallbacks=[("log.flush.scheduler.interval.ms", 1)],
        check=at_least(0),
    )
    retention_bytes: Long = option(
        "log.retention.bytes",
        -1,
        "Delete the oldest segments while the partition is larger than this; -1 for no limit.",
        topic="retention.bytes",
    )
    retention_ms: Long = option(
        "log.retention.ms",
        168 * HOUR_MS,
        "Delete segments whose newest record is older than this; -1 for no limit.",
        topic="retention.ms",
        fallbacks=[("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)],
        check=at_least(-1),
    )
    local_retention_bytes: Long = option(
        "log.local.retention.bytes",
        SAME_AS_RETENTION,
        "With tiered storage: bytes of a partition that stay on the broker; -2 for retention.bytes.",
        topic="local.retention.bytes",
        check=at_least(-2),
    )
    local_retention_ms: Long = option(
        "log.local.retention.ms",
        SAME_AS_RETENTION,
        "With tiered storage: how long a segment stays on the broker; -2 for retention.ms.",
        topic="local.retention.ms",
        check=at_least(-2),
    )
    max_message_bytes: int = option(
        "message.max.bytes",
        MiB + 12,
        "The largest record batch that is accepted, compressed as it came.",
        topic="max.message.bytes",
        check=at_least(0),
        importance="high",
    )
    index_interval_bytes: int = option(
        "log.index.interval.bytes",
        4096,
        "One entry in the offset index for this many bytes of log.",
        topic="index.interval.bytes",
        check=at_least(0),
    )
    delete_retention_ms: Long = option(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        "How long the tombstone of a key outlives its compaction.",
        topic="delete.retention.ms",
        check=at_least(0),
    )
    min_compaction_lag_ms: Long = option(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "A record younger than this is not compacted.",
        topic="min.compaction.lag.ms",
        check=at_least(0),
        bounds=["<= log.cleaner.max.compaction.lag.ms"],
    )
    max_compaction_lag_ms: Long = option(
        "log.cleaner.max.compaction.lag.ms",
        MAX_LONG,
        "A record older than this is compacted whatever the dirty ratio says.",
        topic="max.compaction.lag.ms",
        check=at_least(1),
    )
    file_delete_delay_ms: Long = option(
        "log.segment.delete.delay.ms",
        MINUTE_MS,
        "How long a deleted segment's files stay on the disk under another name.",
        topic="file.delete.delay.ms",
        check=at_least(0),
    )
    min_cleanable_dirty_ratio: float = option(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "Compact a log when this share of it has not been compacted yet.",
        topic="min.cleanable.dirty.ratio",
        check=between(0, 1),
    )
    cleanup_policy: tuple[str, ...] = option(
        "log.cleanup.policy",
        ("delete",),
        "delete: old segments go by time and size; compact: the last value of each key stays; both; empty: everything stays.",
        topic="cleanup.policy",
        check=each_of("compact", "delete"),
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that is not in sync may lead as a last resort: the partition goes on, but records are lost.",
        topic="unclean.leader.election.enable",
        importance="high",
    )
    takes_dead_letters: bool = option(
        "", False, "Whether share groups may write dead letters here (KIP-1191).", topic="errors.deadletterqueue.group.enable", is_ours=True
    )
    share_delivery_delay_ms: Long = option(
        "",
        0,
        "How long after its timestamp a record is first delivered to share groups without a value of their own.",
        topic="share.delivery.delay.ms",
        check=at_least(0),
        is_ours=True,
    )
    share_retry_delay_ms: Long = option(
        "",
        0,
        "How long a record waits after a failed delivery in share groups without a value of their own.",
        topic="share.retry.delay.ms",
        check=at_least(0),
        is_ours=True,
    )
    min_insync_replicas: int = option(
        "min.insync.replicas",
        1,
        "How many replicas must have a record before acks=all is answered.",
        topic="min.insync.replicas",
        check=at_least(1),
        importance="high",
    )
    compression_type: str = option(
        "compression.type",
        "producer",
        "The codec of stored batches: as the producer compressed them, or compressed again by the broker.",
        topic="compression.type",
        check=one_of(*COMPRESSION_TYPES),
        importance="high",
    )
    compression_gzip_level: int = option(
        "compression.gzip.level", -1, "Level when the broker compresses with gzip.", topic="compression.gzip.level", check=_gzip_level
    )
    compression_lz4_level: int = option(
        "compression.lz4.level", 9, "Level when the broker compresses with lz4.", topic="compression.lz4.level", check=between(1, 17)
    )
    compression_zstd_level: int = option(
        "compression.zstd.level",
        3,
        "Level when the broker compresses with zstd.",
        topic="compression.zstd.level",
        check=between(-131072, 22),
    )
    preallocate: bool = option(
        "log.preallocate",
        False,
        "Without effect: segments grow as they are written, and a file system on Linux gains nothing from space allocated in advance.",
        topic="preallocate",
    )
    message_timestamp_type: str = option(
        "log.message.timestamp.type",
        "CreateTime",
        "Whether a record's timestamp is the producer's or the broker's at the append.",
        topic="message.timestamp.type",
        check=one_of("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms: Long = option(
        "log.message.timestamp.before.max.ms",
        MAX_LONG,
        "How far a record's timestamp may lie behind the broker's clock.",
        topic="message.timestamp.before.max.ms",
        check=at_least(0),
    )
    message_timestamp_after_max_ms: Long = option(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        "How far a record's timestamp may lie ahead of the broker's clock.",
        topic="message.timestamp.after.max.ms",
        check=at_least(0),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        "",
        (),
        "Replicas whose sending is throttled: partition:broker,… or *.",
        topic="leader.replication.throttled.replicas",
        check=_throttled_replicas,
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        "",
        (),
        "Replicas whose fetching is throttled: partition:broker,… or *.",
        topic="follower.replication.throttled.replicas",
        check=_throttled_replicas,
    )
    remote_storage_enable: bool = option("", False, "Whether older segments are copied to the object store.", topic="remote.storage.enable")
    remote_log_copy_disable: bool = option(
        "", False, "Whether copying to the object store stops; segments there stay readable.", topic="remote.log.copy.disable"
    )
    remote_log_delete_on_disable: bool = option(
        "",
        False,
        "Whether segments in the object store are deleted when remote.storage.enable is switched off.",
        topic="remote.log.delete.on.disable",
    )
    flush_policy: str = option(
        "log.flush.policy",
        "ack",
        "ack: acks=all is answered once the batch is on stable storage; os: once it is in the page cache, as Kafka does it.",
        check=one_of("ack", "os"),
        update="read-only",
        importance="high",
        is_ours=True,
    )

    record_validation: str = option(
        "log.record.validation",
        "small",
        "Which records of a produced batch are checked beyond its header and CRC, so that all that is stored can be read: structure, "
        "all records, those of large batches in a worker process; small, the records of batches of up to 8; header, none.",
        topic="record.validation",
        check=one_of("structure", "small", "header"),
        is_ours=True,
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

    def refusal(self) -> ConfigError | None:
        # The check is for the broker's value only: a topic that asks for it loses all its records at the next retention check.
        if self.retention_ms == 0:
            return ConfigError("log.retention.ms", 0, "all topics would lose their records at once: give -1 for no limit, or 1 and more")
        return None


class CleanerConfig(Configs):
    """The resources that compaction may use."""

    enable: bool = option("log.cleaner.enable", True, "Whether logs with cleanup.policy=compact are compacted.")
    threads: int = option(
        "log.cleaner.threads", 1, "How many logs are compacted at once.", check=at_least(0), update="cluster-wide", is_pool_size=True
    )
    io_max_bytes_per_second: float = option(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "The most that one compaction reads and writes a second.",
        update="cluster-wide",
    )
    dedupe_buffer_size: Long = option(
        "log.cleaner.dedupe.buffer.size",
        128 * MiB,
        "Memory for the newest offset of each key; a log with more keys than fit is compacted in several rounds.",
        update="cluster-wide",
    )
    backoff_ms: Long = option(
        "log.cleaner.backoff.ms", 15_000, "How long the cleaner waits when no log is dirty.", check=at_least(0), update="cluster-wide"
    )

    def refusal(self) -> ConfigError | None:
        if self.dedupe_buffer_size <= MiB * self.threads:
            return ConfigError(
                "log.cleaner.dedupe.buffer.size",
                self.dedupe_buffer_size,
                f"it must be above 1 MiB for each of log.cleaner.threads, which is {self.threads}: give more, or fewer threads",
            )
        return None
