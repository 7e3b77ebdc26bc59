"""◇ Options of the active controller about partition leaders.

Source: ReplicationConfigs, ServerConfigs, KRaftConfigs; defaults are Kafka's.
"""

from moldau.config import Configs, Long, at_least, option


class ControllerOptions(Configs):
    """The options for moving leaderships automatically."""

    auto_leader_rebalance_enable: bool = option(
        "auto.leader.rebalance.enable", True, "Whether leaderships go back to the preferred replicas by themselves.", importance="high"
    )
    leader_imbalance_check_interval_seconds: Long = option(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks for partitions that their preferred replica does not lead.",
        check=at_least(1),
        importance="high",
    )
    unclean_leader_election_interval_ms: Long = option(
        "unclean.leader.election.interval.ms",
        300_000,
        "How often the controller looks for partitions without a leader, where unclean.leader.election.enable allows any replica to lead.",
        check=at_least(1),
        importance="high",
    )
