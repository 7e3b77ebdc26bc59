"""● Describes the controllers' quorum, and adds and removes voters.

Source: Admin.describeMetadataQuorum, addRaftVoter, removeRaftVoter; KIP-836, 853.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.clients.admin.answers import raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.values import TIMEOUT_MS
from moldau.clients.cluster import Cluster
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
    Node,
)
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.types import METADATA_TOPIC


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    state: DescribeQuorumResponsePartitionData
    nodes: Sequence[Node]


class QuorumAdmin(Limited):
    """Describes and changes the controllers' quorum.  Errors: KafkaError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self) -> QuorumDescription:
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        response = await self._cluster.send(DescribeQuorumRequest(topics=[topic]))
        raise_for(response.error_code, response.error_message)
        state = response.topics[0].partitions[0]
        raise_for(state.error_code, state.error_message)
        return QuorumDescription(state, response.nodes)

    async def add_voter(
        self,
        voter_id: int,
        directory_id: UUID,
        listeners: Mapping[str, tuple[str, int]],
        *,
        cluster_id: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Add a controller to the voters.

        `listeners`: the host and port at which the voter is reached, by the listener's name.  Errors: KafkaError (DUPLICATE_VOTER, …).
        """
        named = [Listener(name=name, host=host, port=port) for name, (host, port) in listeners.items()]
        request = AddRaftVoterRequest(
            cluster_id=cluster_id, timeout_ms=timeout_ms, voter_id=voter_id, voter_directory_id=directory_id, listeners=named
        )
        response = await self._cluster.send(request, extra_s=timeout_ms / 1000)
        raise_for(response.error_code, response.error_message)

    async def remove_voter(self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Remove a controller from the voters.  Errors: KafkaError (VOTER_NOT_FOUND, …)."""
        request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)
        response = await self._cluster.send(request, extra_s=TIMEOUT_MS / 1000)
        raise_for(response.error_code, response.error_message)
