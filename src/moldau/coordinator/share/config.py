"""◇ Options of the share coordinator.  Source: ShareCoordinatorConfig."""

from moldau.config import MINUTE_MS, Configs, MiB, Short, at_least, between, option


class ShareCoordinatorConfig(Configs):
    """The options of a broker's states of share partitions."""

    topic_partition_count: int = option(
        "share.coordinator.state.topic.num.partitions",
        50,
        "Partitions of __share_group_state; not to be changed once share groups exist.",
        check=at_least(1),
        importance="high",
    )
    topic_replication_factor: Short = option(
        "share.coordinator.state.topic.replication.factor",
        3,
        "Replicas of __share_group_state; the topic is created once that many brokers are there.",
        check=at_least(1),
        importance="high",
    )
    topic_min_insync_replicas: Short = option(
        "share.coordinator.state.topic.min.isr", 2, "min.insync.replicas of __share_group_state.", check=at_least(1), importance="high"
    )
    topic_segment_bytes: int = option(
        "share.coordinator.state.topic.segment.bytes",
        100 * MiB,
        "Segment size of __share_group_state, in bytes.",
        check=at_least(1),
        importance="high",
    )
    topic_compression_codec: int = option(
        "share.coordinator.state.topic.compression.codec",
        0,
        "Codec of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
        importance="high",
    )
    load_buffer_size: int = option(
        "share.coordinator.load.buffer.size", 5 * MiB, "Bytes read at once while states are loaded.", check=at_least(1), importance="high"
    )
    updates_per_snapshot: int = option(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "The number of updates of a share partition after which its whole state is written anew.",
        check=between(0, 500),
    )
    prune_interval_ms: int = option(
        "share.coordinator.state.topic.prune.interval.ms",
        5 * MINUTE_MS,
        "How often outdated records of __share_group_state are deleted.",
        check=at_least(1),
        importance="low",
    )
    cold_snapshot_interval_ms: int = option(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        5 * MINUTE_MS,
        "A state whose snapshot is this old is written anew, so that older records can be deleted.",
        check=at_least(1),
        importance="low",
    )
