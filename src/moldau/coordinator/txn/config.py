"""◇ Options of the transaction coordinator.  Source: TransactionStateManagerConfig, TransactionLogConfig."""

from moldau.config import DAY_MS, HOUR_MS, MINUTE_MS, Configs, MiB, Short, at_least, option


class TransactionConfig(Configs):
    """The options of a broker's transactions."""

    topic_partition_count: int = option(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state; not to be changed once transactional ids exist.",
        check=at_least(1),
        importance="high",
    )
    topic_replication_factor: Short = option(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of __transaction_state; the topic is created once that many brokers are there.",
        check=at_least(1),
        importance="high",
    )
    topic_min_insync_replicas: int = option(
        "transaction.state.log.min.isr", 2, "min.insync.replicas of __transaction_state.", check=at_least(1), importance="high"
    )
    topic_segment_bytes: int = option(
        "transaction.state.log.segment.bytes",
        100 * MiB,
        "Segment size of __transaction_state, in bytes.",
        check=at_least(1),
        importance="high",
    )
    max_timeout_ms: int = option(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        "Longest transaction timeout that a producer may ask for.",
        check=at_least(1),
        importance="high",
    )
    transactional_id_expiration_ms: int = option(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        "A transactional id without activity for this long is forgotten.",
        check=at_least(1),
        importance="high",
    )
    abort_interval_ms: int = option(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions past their timeout are aborted.",
        check=at_least(1),
        importance="low",
    )
    expiry_interval_ms: int = option(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        HOUR_MS,
        "How often expired transactional ids are removed.",
        check=at_least(1),
        importance="low",
    )
    is_verification_enabled: bool = option(
        "transaction.partition.verification.enable",
        True,
        "Ask the coordinator whether a partition is part of the transaction before the first write to it (KIP-890).",
        update="cluster-wide",
        importance="low",
    )
    add_partitions_backoff_ms: int = option(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "How long a broker waits at most before it asks again to add a partition while the transaction before is being completed.",
        check=at_least(1),
        importance="high",
    )
    add_partitions_backoff_max_ms: int = option(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long a broker asks again at most; after that the client has to ask again.",
        check=at_least(0),
        importance="high",
    )
    is_connection_order_enabled: bool = option(
        "transaction.connection.order.enable",
        True,
        "Close a connection on which a transactional producer's request arrives after the producer has sent others on a newer one: a "
        "delayed request must not touch the next transaction. Switch off for proxies that spread a client over many connections.",
        importance="low",
        is_ours=True,
    )
    is_two_phase_commit_enabled: bool = option(
        "transaction.two.phase.commit.enable",
        False,
        "Without effect: transactions without a timeout (KIP-939) need a version of InitProducerId that is not served yet.",
        importance="low",
    )
