"""◇ Options of the share partitions that a broker leads.  Source: ShareGroupConfig.

What a group may set for itself, within limits that are options too, is in `metadata/group_configs.py`.
"""

from moldau.config import HOUR_MS, Configs, at_least, between, option


class SharePartitionConfig(Configs):
    """What a broker's share partitions and share sessions obey."""

    max_share_sessions: int = option(
        "group.share.max.share.sessions",
        2_000,
        "Share sessions of one broker at a time: one for every member that fetches from it.",
        check=at_least(1),
    )
    delivery_count_limit: int = option(
        "group.share.delivery.count.limit",
        5,
        "How often a record is delivered at most, unless its group says otherwise.",
        check=between(2, 10),
    )
    min_delivery_count_limit: int = option(
        "group.share.min.delivery.count.limit", 2, "Least delivery count limit that a group may be given.", check=between(2, 5)
    )
    max_delivery_count_limit: int = option(
        "group.share.max.delivery.count.limit", 10, "Greatest delivery count limit that a group may be given.", check=between(5, 25)
    )
    record_lock_duration_ms: int = option(
        "group.share.record.lock.duration.ms",
        30_000,
        "How long a record stays with the member that acquired it, unless its group says otherwise.",
        check=between(1_000, HOUR_MS),
    )
    min_record_lock_duration_ms: int = option(
        "group.share.min.record.lock.duration.ms",
        15_000,
        "Least record lock duration that a group may be given.",
        check=between(1_000, 30_000),
    )
    max_record_lock_duration_ms: int = option(
        "group.share.max.record.lock.duration.ms",
        60_000,
        "Greatest record lock duration that a group may be given.",
        check=between(30_000, HOUR_MS),
    )
    max_record_locks: int = option(
        "group.share.partition.max.record.locks",
        2_000,
        "Records of one partition that one group may have in flight, unless the group says otherwise.",
        check=between(100, 10_000),
    )
    min_max_record_locks: int = option(
        "group.share.min.partition.max.record.locks",
        100,
        "Least number of records in flight that a group may be given.",
        check=between(100, 2_000),
    )
    max_max_record_locks: int = option(
        "group.share.max.partition.max.record.locks",
        4_000,
        "Greatest number of records in flight that a group may be given.",
        check=between(2_000, 10_000),
    )
    dead_letter_prefix: str = option(
        "errors.deadletterqueue.topic.name.prefix",
        "dlq.",
        "How names of topics begin that share groups may use for dead letters.",
        is_ours=True,
    )
    may_create_dead_letter_topics: bool = option(
        "errors.deadletterqueue.auto.create.topics.enable",
        False,
        "Whether a topic for dead letters is created when it is needed first.",
        is_ours=True,
    )
