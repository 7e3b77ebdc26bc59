"""◇ The content of DescribeQuorum, from the leader's knowledge.  Called by `driver.py`."""

from moldau.raft.listener import QuorumStatus, ReplicaStatus
from moldau.raft.machine.node import RaftNode
from moldau.raft.roles import Leader
from moldau.raft.voters import ReplicaKey


def status_of(node: RaftNode, role: Leader, end_offset: int, *, now_ms: int, monotonic_ms: int) -> QuorumStatus:
    """The quorum's status.

    `end_offset` is that of the leader's own log, exclusive; `now_ms` is of the wall clock, `monotonic_ms` of the steady clock.
    """
    to_wall_ms = now_ms - monotonic_ms
    voting = {voter.key: ReplicaStatus(voter.key, -1, -1, -1) for voter in node.voters.by_id.values()}
    observing: dict[ReplicaKey, ReplicaStatus] = {}
    for key, known in role.replicas.items():
        is_leader = key.id == node.me.id
        times = [at + to_wall_ms if at >= 0 else -1 for at in (known.last_fetch_ms, known.last_caught_up_ms)]
        own = ReplicaStatus(ReplicaKey(key.id, known.directory_id), end_offset, now_ms, now_ms)
        told = voting if key in voting else observing
        told[key] = own if is_leader else ReplicaStatus(own.key, known.end_offset, *times)
    return QuorumStatus(node.me.id, node.epoch, node.high_watermark or 0, node.voters, tuple(voting.values()), tuple(observing.values()))
