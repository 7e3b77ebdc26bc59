"""◇ Options of the share coordinator.  Source: ShareCoordinatorConfig."""

from moldau.config import Configs, Kind, at_least, between, configs, option


@configs
class ShareCoordinatorConfig(Configs):
    """What a broker's share partitions' states obey."""

    topic_partition_count: int = option("share.coordinator.state.topic.num.partitions", 50, importance="high",
        check=at_least(1), doc="Partitions of __share_group_state; not to be changed once share groups exist.")  # fmt: skip
    topic_replication_factor: int = option("share.coordinator.state.topic.replication.factor", 3, kind=Kind.SHORT, importance="high",
        check=at_least(1), doc="Replicas of __share_group_state; the topic is created once that many brokers are there.")  # fmt: skip
    topic_min_insync_replicas: int = option("share.coordinator.state.topic.min.isr", 2, kind=Kind.SHORT, importance="high",
        check=at_least(1), doc="min.insync.replicas of __share_group_state.")  # fmt: skip
    topic_segment_bytes: int = option("share.coordinator.state.topic.segment.bytes", 100 * 1024 * 1024, importance="high",
        check=at_least(1), doc="Segment size of __share_group_state, in bytes.")  # fmt: skip
    topic_compression_codec: int = option("share.coordinator.state.topic.compression.codec", 0, check=between(0, 4), importance="high",
        doc="Codec of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")  # fmt: skip
    load_buffer_size: int = option("share.coordinator.load.buffer.size", 5 * 1024 * 1024, check=at_least(1), importance="high",
        doc="Bytes read at once while states are loaded.")  # fmt: skip
    updates_per_snapshot: int = option("share.coordinator.snapshot.update.records.per.snapshot", 500,
        check=between(0, 500), doc="After so many updates of a share partition its whole state is written anew.")  # fmt: skip
    prune_interval_ms: int = option("share.coordinator.state.topic.prune.interval.ms", 5 * 60 * 1000, importance="low",
        check=at_least(1), doc="How often records of __share_group_state that newer ones replace are deleted.")  # fmt: skip
    cold_snapshot_interval_ms: int = option("share.coordinator.cold.partition.snapshot.interval.ms", 5 * 60 * 1000, importance="low",
        check=at_least(1), doc="A state whose snapshot is this old is written anew: what lies before it can go.")  # fmt: skip
