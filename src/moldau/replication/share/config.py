"""◇ Options of the share partitions that a broker leads, and of single share groups.

Source: ShareGroupConfig, GroupConfig; KIP-932, 1191.
"""

from moldau.config import HOUR_MS, Configs, at_least, between, group_limit, group_option, one_of, option


def _offset_reset(value: str) -> str | None:
    if value in ("earliest", "latest") or value.startswith("by_duration:P"):
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'."
    )


class SharePartitionConfig(Configs):
    """The options of a broker's share partitions and share sessions."""

    max_share_sessions: int = option(
        "group.share.max.share.sessions",
        2_000,
        "Share sessions of one broker at a time: one for every member that fetches from it.",
        check=at_least(1),
        bounds=[">= group.share.max.size"],
    )
    delivery_count_limit: int = group_option(
        "share.delivery.count.limit", 5, "The most deliveries of a record.", check=between(2, 10), group_check=at_least(2)
    )
    min_delivery_count_limit: int = group_limit("min", "share.delivery.count.limit", 2, check=between(2, 5))
    max_delivery_count_limit: int = group_limit("max", "share.delivery.count.limit", 10, check=between(5, 25))
    record_lock_duration_ms: int = group_option(
        "share.record.lock.duration.ms",
        30_000,
        "How long a record stays with the member that acquired it.",
        check=between(1_000, HOUR_MS),
        group_check=at_least(1_000),
    )
    min_record_lock_duration_ms: int = group_limit("min", "share.record.lock.duration.ms", 15_000, check=between(1_000, 30_000))
    max_record_lock_duration_ms: int = group_limit("max", "share.record.lock.duration.ms", 60_000, check=between(30_000, HOUR_MS))
    max_record_locks: int = group_option(
        "share.partition.max.record.locks",
        2_000,
        "Records of one partition that one group may have in flight.",
        check=between(100, 10_000),
        group_check=at_least(100),
    )
    min_max_record_locks: int = group_limit("min", "share.partition.max.record.locks", 100, check=between(100, 2_000))
    max_max_record_locks: int = group_limit("max", "share.partition.max.record.locks", 4_000, check=between(2_000, 10_000))
    auto_offset_reset: str = option(
        "", "latest", "The offset at which a new share group begins.", group="share.auto.offset.reset", check=_offset_reset
    )
    isolation_level: str = option(
        "",
        "read_uncommitted",
        "Whether records of open transactions are delivered.",
        group="share.isolation.level",
        check=one_of("read_committed", "read_uncommitted"),
    )
    is_renewing_allowed: bool = option("", True, "Whether a record's lock can be renewed.", group="share.renew.acknowledge.enable")
    delivery_delay_ms: int = option(
        "",
        0,
        "How long after its timestamp a record is first delivered.",
        group="share.delivery.delay.ms",
        check=at_least(0),
        is_ours=True,
    )
    retry_delay_ms: int = option(
        "",
        0,
        "How long a record waits after a failed delivery; doubles each time.",
        group="share.retry.delay.ms",
        check=at_least(0),
        is_ours=True,
    )
    retry_delay_max_ms: int = option(
        "",
        0,
        "The longest wait before a retry, up to which it doubles; without this option the wait does not grow.",
        group="share.retry.delay.max.ms",
        check=at_least(0),
        is_ours=True,
    )
    dead_letter_topic: str = option(
        "",
        "",
        "The topic for records that are rejected, or delivered in vain too often.",
        group="errors.deadletterqueue.topic.name",
        is_ours=True,
    )
    has_copies_in_dead_letters: bool = option(
        "",
        False,
        "Whether a dead letter carries its record's key and value.",
        group="errors.deadletterqueue.copy.record.enable",
        is_ours=True,
    )
    dead_letter_prefix: str = option(
        "errors.deadletterqueue.topic.name.prefix",
        "dlq.",
        "The prefix of topic names that share groups may use for dead letters.",
        is_ours=True,
    )
    may_create_dead_letter_topics: bool = option(
        "errors.deadletterqueue.auto.create.topics.enable",
        False,
        "Whether a missing topic for dead letters is created.",
        is_ours=True,
    )
