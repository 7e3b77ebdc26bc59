"""● DescribeQuorum's answer from the status of the metadata log's leader."""

from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from moldau.raft.listener import QuorumStatus, ReplicaStatus
from moldau.raft.log_bytes import METADATA_PARTITION
from moldau.types import ZERO_UUID

ADDRESSES_SINCE = 2


def described(status: QuorumStatus, version: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_message="",
        topics=[DescribeQuorumResponseTopicData(topic_name=METADATA_PARTITION.topic, partitions=[_partition(status, version)])],
        nodes=[]
        if version < ADDRESSES_SINCE
        else [
            Node(
                node_id=voter.id,
                listeners=[Listener(name=address.name, host=address.host, port=address.port) for address in voter.addresses],
            )
            for voter in status.voters.by_id.values()
        ],
    )


def _partition(status: QuorumStatus, version: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_message="",
        leader_id=status.leader_id,
        leader_epoch=status.epoch,
        high_watermark=status.high_watermark,
        current_voters=[_replica(one, version) for one in status.replicas],
        observers=[_replica(one, version) for one in status.observers],
    )


def _replica(status: ReplicaStatus, version: int) -> ReplicaState:
    return ReplicaState(
        replica_id=status.key.id,
        replica_directory_id=ZERO_UUID if version < ADDRESSES_SINCE else status.key.directory_id,
        log_end_offset=status.end_offset,
        last_fetch_timestamp=status.last_fetch_ms,
        last_caught_up_timestamp=status.last_caught_up_ms,
    )
