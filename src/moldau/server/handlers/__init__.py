"""● One file per API: what the broker does with a request.  `registry.apis_of(MODULES, listener)` is what a listener serves."""

from typing import Final

_PREFIX: Final = "moldau.server.handlers."

MODULES: Final = tuple(
    _PREFIX + name
    for name in (
        "add_offsets_to_txn",
        "add_partitions_to_txn",
        "api_versions",
        "consumer_group_describe",
        "consumer_group_heartbeat",
        "create_topics",
        "delete_groups",
        "delete_records",
        "describe_groups",
        "describe_log_dirs",
        "describe_producers",
        "describe_transactions",
        "end_txn",
        "fetch",
        "find_coordinator",
        "heartbeat",
        "init_producer_id",
        "join_group",
        "leave_group",
        "list_groups",
        "list_offsets",
        "list_transactions",
        "metadata",
        "offset_commit",
        "offset_delete",
        "offset_fetch",
        "offset_for_leader_epoch",
        "produce",
        "sync_group",
        "txn_offset_commit",
        "write_txn_markers",
    )
)
