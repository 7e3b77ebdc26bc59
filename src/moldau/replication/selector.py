"""◇ Chooses the replica that a consumer reads from: one in its own rack, if one there can serve it.

Source: RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica; KIP-392.  Called by `handlers/fetch.py`, on the leader.
"""

from collections.abc import Callable

from moldau.replication.partition import Partition


def preferred_replica(partition: Partition, offset: int, rack: str, rack_of: Callable[[int], str | None], now_ms: int) -> int | None:
    """The broker to read from; None for the leader.

    `rack_of`: the rack of a broker.  `now_ms` is the steady clock's.  A follower can serve the records that it has.  One that is fenced, or
    has not fetched yet, serves none.  Of several, the follower with the highest offset is chosen, then the one that kept up last.
    """
    local_id = partition.leader_id
    if not rack or rack_of(local_id) == rack:
        return None
    candidates = [
        (state.log_end_offset, state.last_caught_up_ms - now_ms, -broker_id)
        for broker_id, state in partition.followers.items()
        if broker_id in partition.eligible and rack_of(broker_id) == rack and state.log_start_offset <= offset <= state.log_end_offset
    ]
    return -max(candidates)[2] if candidates else None
