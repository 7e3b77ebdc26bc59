"""◇ Options of a broker's replicas: how followers fetch, and when a follower leaves the in-sync set.

Source: ReplicationConfigs, ServerConfigs.
"""

from typing import Final

from moldau.config import MAX_LONG, Configs, Long, MiB, at_least, option

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"


def _selector(value: str) -> str | None:
    if value in (RACK_AWARE, LEADER_ONLY):
        return None
    return f"a selector of your own is a Java class, which this broker cannot run: use {RACK_AWARE}, or leave the option out"


class ReplicationConfig(Configs):
    """The options of a broker's followers and of the partitions that it leads."""

    lag_time_max_ms: Long = option(
        "replica.lag.time.max.ms", 30_000, "A follower behind for this long leaves the in-sync set.", importance="high"
    )
    fetch_wait_max_ms: int = option(
        "replica.fetch.wait.max.ms",
        500,
        "How long a follower's fetch waits for new records.",
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
        f"The replica from which consumers with a rack read (KIP-392): with {RACK_AWARE} a replica in their rack, otherwise the leader.",
        check=_selector,
    )
    leader_throttled_rate: Long = option(
        "leader.replication.throttled.rate",
        MAX_LONG,
        "Bytes a second that this broker sends for replicas that leader.replication.throttled.replicas names and that are not in sync.",
        check=at_least(0),
        update="cluster-wide",
        is_ours=True,
    )
    follower_throttled_rate: Long = option(
        "follower.replication.throttled.rate",
        MAX_LONG,
        "Bytes a second that this broker fetches for replicas that follower.replication.throttled.replicas names and that are not in sync.",
        check=at_least(0),
        update="cluster-wide",
        is_ours=True,
    )
    socket_timeout_ms: int = option(
        "replica.socket.timeout.ms", 30_000, "How long a follower's fetch may stay unanswered.", importance="high"
    )
