"""◇ Options of a broker's replicas: how followers fetch, and when one of them counts as in sync no longer.

Source: ReplicationConfigs, ServerConfigs.
"""

from typing import Final

from moldau.config import MAX_LONG, Configs, Long, MiB, at_least, option

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"


def _selector(value: str) -> str | None:
    if value in (RACK_AWARE, LEADER_ONLY):
        return None
    return f"selectors of your own are Java classes, which this broker cannot run: use {RACK_AWARE}, or leave the option out"


class ReplicationConfig(Configs):
    """What the followers of a broker, and the partitions that it leads, obey."""

    lag_time_max_ms: Long = option(
        "replica.lag.time.max.ms", 30_000, "A follower behind for this long leaves the in-sync set.", importance="high"
    )
    fetch_wait_max_ms: int = option(
        "replica.fetch.wait.max.ms",
        500,
        "How long a follower's fetch waits for something to come.",
        bounds=["<= replica.lag.time.max.ms", "<= replica.socket.timeout.ms"],
        importance="high",
    )
    fetch_max_bytes: int = option(
        "replica.fetch.max.bytes", MiB, "Bytes that a follower fetches of one partition at a time.", check=at_least(0)
    )
    fetch_min_bytes: int = option("replica.fetch.min.bytes", 1, "Bytes that a follower's fetch waits for.", importance="high")
    fetch_response_max_bytes: int = option(
        "replica.fetch.response.max.bytes", 10 * MiB, "Bytes that a follower fetches at a time.", check=at_least(0)
    )
    fetch_backoff_ms: int = option(
        "replica.fetch.backoff.ms",
        1000,
        "How long a follower waits after a failed fetch at most; after the first failures it waits less.",
        check=at_least(0),
    )
    selector_class: str | None = option(
        "replica.selector.class",
        None,
        f"Where consumers read that say in which rack they are (KIP-392): with {RACK_AWARE} from a replica in their rack, "
        "otherwise from the leader.",
        check=_selector,
    )
    leader_throttled_rate: Long = option(
        "leader.replication.throttled.rate",
        MAX_LONG,
        "Bytes that this broker sends a second of replicas that leader.replication.throttled.replicas names and that are not in sync.",
        check=at_least(0),
        update="cluster-wide",
        is_ours=True,
    )
    follower_throttled_rate: Long = option(
        "follower.replication.throttled.rate",
        MAX_LONG,
        "Bytes that this broker fetches a second of replicas that follower.replication.throttled.replicas names and that are not in sync.",
        check=at_least(0),
        update="cluster-wide",
        is_ours=True,
    )
    socket_timeout_ms: int = option(
        "replica.socket.timeout.ms", 30_000, "How long a follower's fetch may stay unanswered.", importance="high"
    )
