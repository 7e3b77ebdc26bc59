"""◇ Options of the transaction coordinator.  Source: TransactionStateManagerConfig, TransactionLogConfig."""

from moldau.config import Configs, Kind, at_least, configs, option


@configs
class TransactionConfig(Configs):
    """What a broker's transactions obey."""

    topic_partition_count: int = option("transaction.state.log.num.partitions", 50, importance="high",
        check=at_least(1), doc="Partitions of __transaction_state; not to be changed once transactional ids exist.")  # fmt: skip
    topic_replication_factor: int = option("transaction.state.log.replication.factor", 3, kind=Kind.SHORT, importance="high",
        check=at_least(1), doc="Replicas of __transaction_state; the topic is created once that many brokers are there.")  # fmt: skip
    topic_min_insync_replicas: int = option("transaction.state.log.min.isr", 2, importance="high",
        check=at_least(1), doc="min.insync.replicas of __transaction_state.")  # fmt: skip
    topic_segment_bytes: int = option("transaction.state.log.segment.bytes", 100 * 1024 * 1024, importance="high",
        check=at_least(1), doc="Segment size of __transaction_state, in bytes.")  # fmt: skip
    max_timeout_ms: int = option("transaction.max.timeout.ms", 15 * 60 * 1000, importance="high",
        check=at_least(1), doc="Longest time that a producer may ask for a transaction.")  # fmt: skip
    transactional_id_expiration_ms: int = option("transactional.id.expiration.ms", 7 * 24 * 3600 * 1000, importance="high",
        check=at_least(1), doc="A transactional id that did nothing for this long is forgotten.")  # fmt: skip
    abort_interval_ms: int = option("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, importance="low",
        check=at_least(1), doc="How often transactions past their time-out are looked for and aborted.")  # fmt: skip
    expiry_interval_ms: int = option("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, importance="low",
        check=at_least(1), doc="How often transactional ids that have expired are looked for.")  # fmt: skip
    is_verification_enabled: bool = option("transaction.partition.verification.enable", True, update="cluster-wide", importance="low",
        doc="Ask the coordinator whether a partition is part of the transaction before the first write to it (KIP-890).")  # fmt: skip
    add_partitions_backoff_ms: int = option("add.partitions.to.txn.retry.backoff.ms", 20, importance="high", check=at_least(1),
        doc="How long a broker waits before it asks again to add a partition while the transaction before is being completed.")  # fmt: skip
    add_partitions_backoff_max_ms: int = option("add.partitions.to.txn.retry.backoff.max.ms", 100, importance="high", check=at_least(0),
        doc="How long a broker asks again at most; then the client is told to.")  # fmt: skip
    is_connection_order_enabled: bool = option("transaction.connection.order.enable", True, importance="low",
        doc="Close a connection on which a transactional producer's request arrives after it has sent others on a newer one: what was "
        "delayed must not touch the next transaction. Switch off for proxies that spread a client over many connections.")  # fmt: skip
    is_two_phase_commit_enabled: bool = option("transaction.two.phase.commit.enable", False, importance="low",
        doc="Whether producers may hold transactions open without a time-out (KIP-939).")  # fmt: skip
