"""● One file per API that decides something; an API that is only passed on is a row in `passed_on.py`.

`registry.apis_of(MODULES, listener)` lists the APIs of a listener.
"""

from typing import Final

_PREFIX: Final = "moldau.server.handlers."

MODULES: Final = tuple(
    _PREFIX + name
    for name in (
        "add_offsets_to_txn",
        "add_partitions_to_txn",
        "alter_replica_log_dirs",
        "alter_share_group_offsets",
        "api_versions",
        "consumer_group_describe",
        "consumer_group_heartbeat",
        "create_acls",
        "delete_acls",
        "delete_groups",
        "delete_records",
        "delete_share_group_offsets",
        "describe_acls",
        "describe_cluster",
        "describe_configs",
        "describe_groups",
        "describe_log_dirs",
        "describe_producers",
        "describe_quorum",
        "describe_share_group_offsets",
        "describe_topic_partitions",
        "describe_transactions",
        "end_txn",
        "envelope",
        "fetch",
        "find_coordinator",
        "heartbeat",
        "incremental_alter_configs",
        "init_producer_id",
        "join_group",
        "leave_group",
        "list_config_resources",
        "list_groups",
        "list_offsets",
        "list_partition_reassignments",
        "list_transactions",
        "metadata",
        "offset_commit",
        "offset_delete",
        "offset_fetch",
        "offset_for_leader_epoch",
        "passed_on",
        "produce",
        "quorum",
        "sasl_authenticate",
        "sasl_handshake",
        "share_acknowledge",
        "share_fetch",
        "share_group_describe",
        "share_group_heartbeat",
        "streams_group_describe",
        "streams_group_heartbeat",
        "sync_group",
        "txn_offset_commit",
        "write_txn_markers",
    )
)
