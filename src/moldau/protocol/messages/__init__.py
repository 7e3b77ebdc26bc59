"""◇ One file per API, request and response side by side; this module holds the requests by their api key.

Classes and fields bear Kafka's names; If a request and its response have different structs of one name, each puts the message's name in
front.  A field's `about` says what its name cannot.  `request.refused(code)` answers any request with an error in the response's own form.

Source: Kafka 4.3.1's message definitions; only facts of the wire are taken over, no text.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from moldau.protocol.wire import Request

MODULES: Final = (
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "add_raft_voter",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "alter_share_group_offsets",
    "alter_user_scram_credentials",
    "api_versions",
    "assign_replicas_to_dirs",
    "begin_quorum_epoch",
    "broker_heartbeat",
    "broker_registration",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "controller_registration",
    "create_acls",
    "create_delegation_token",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_groups",
    "delete_records",
    "delete_share_group_offsets",
    "delete_share_group_state",
    "delete_topics",
    "describe_acls",
    "describe_client_quotas",
    "describe_cluster",
    "describe_configs",
    "describe_delegation_token",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_share_group_offsets",
    "describe_topic_partitions",
    "describe_transactions",
    "describe_user_scram_credentials",
    "elect_leaders",
    "end_quorum_epoch",
    "end_txn",
    "envelope",
    "expire_delegation_token",
    "fetch",
    "fetch_snapshot",
    "find_coordinator",
    "get_telemetry_subscriptions",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "initialize_share_group_state",
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
    "produce",
    "push_telemetry",
    "read_share_group_state",
    "read_share_group_state_summary",
    "remove_raft_voter",
    "renew_delegation_token",
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
    "unregister_broker",
    "update_features",
    "update_raft_voter",
    "vote",
    "write_share_group_state",
    "write_txn_markers",
)


class Requests(Mapping[int, type[Request[Any]]]):
    """Every request that Kafka 4.3 knows, by api key; its response is `.RESPONSE`.

    A request is loaded when first looked up: a client needs a dozen of them, and loading all would take 50 ms.
    """

    @cached_property
    def _all(self) -> dict[int, type[Request[Any]]]:
        found: dict[int, type[Request[Any]]] = {}
        for name in MODULES:
            for declared in vars(import_module(f"{__name__}.{name}")).values():
                if isinstance(declared, type) and issubclass(declared, Request) and declared is not Request:
                    assert found.setdefault(declared.API_KEY, declared) is declared, f"two requests have key {declared.API_KEY}"
        return dict(sorted(found.items()))

    def __getitem__(self, api_key: int) -> type[Request[Any]]:
        return self._all[api_key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


REQUESTS: Final = Requests()
