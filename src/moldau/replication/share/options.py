"""◇ Options of the share partitions that a broker leads.  Source: ShareGroupConfig.

What a group may set for itself, within limits that are options too, is in `metadata/group_configs.py`.
"""

from moldau.config import Configs, at_least, between, configs, option


@configs
class SharePartitionConfig(Configs):
    """What a broker's share partitions and share sessions obey."""

    max_share_sessions: int = option("group.share.max.share.sessions", 2_000, check=at_least(1),
        doc="Share sessions of one broker at a time: one for every member that fetches from it.")  # fmt: skip
    delivery_count_limit: int = option("group.share.delivery.count.limit", 5, check=between(2, 10),
        doc="How often a record is delivered at most, unless its group says otherwise.")  # fmt: skip
    min_delivery_count_limit: int = option("group.share.min.delivery.count.limit", 2, check=between(2, 5),
        doc="Least delivery count limit that a group may be given.")  # fmt: skip
    max_delivery_count_limit: int = option("group.share.max.delivery.count.limit", 10, check=between(5, 25),
        doc="Greatest delivery count limit that a group may be given.")  # fmt: skip
    record_lock_duration_ms: int = option("group.share.record.lock.duration.ms", 30_000, check=between(1_000, 3_600_000),
        doc="How long a record stays with the member that acquired it, unless its group says otherwise.")  # fmt: skip
    min_record_lock_duration_ms: int = option("group.share.min.record.lock.duration.ms", 15_000, check=between(1_000, 30_000),
        doc="Least record lock duration that a group may be given.")  # fmt: skip
    max_record_lock_duration_ms: int = option("group.share.max.record.lock.duration.ms", 60_000, check=between(30_000, 3_600_000),
        doc="Greatest record lock duration that a group may be given.")  # fmt: skip
    max_record_locks: int = option("group.share.partition.max.record.locks", 2_000, check=between(100, 10_000),
        doc="Records of one partition that one group may have in flight, unless the group says otherwise.")  # fmt: skip
    min_max_record_locks: int = option("group.share.min.partition.max.record.locks", 100, check=between(100, 2_000),
        doc="Least number of records in flight that a group may be given.")  # fmt: skip
    max_max_record_locks: int = option("group.share.max.partition.max.record.locks", 4_000, check=between(2_000, 10_000),
        doc="Greatest number of records in flight that a group may be given.")  # fmt: skip
    dead_letter_prefix: str = option("errors.deadletterqueue.topic.name.prefix", "dlq.",
        doc="How names of topics begin that share groups may use for dead letters.")  # fmt: skip
    may_create_dead_letter_topics: bool = option("errors.deadletterqueue.auto.create.topics.enable", False,
        doc="Whether a topic for dead letters is created when it is needed first.")  # fmt: skip
