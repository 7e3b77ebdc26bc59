"""● DescribeQuorum: the leader and the voters of the metadata log, and how far each has it.

Versions       0-2.
Authorises     DESCRIBE on the cluster.
Behaviour      For the one partition `__cluster_metadata-0`.
Errors         UNKNOWN_TOPIC_OR_PARTITION for any other; NOT_LEADER_OR_FOLLOWER if no leader is known.
Version notes  1+ times of the last sign of each replica, 2+ directory ids and addresses.
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from moldau.raft.log_bytes import METADATA_PARTITION
from moldau.server.peers.quorum_status import described
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(DescribeQuorumRequest)
async def describe_quorum(services: Services, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_PARTITION.topic, [METADATA_PARTITION.partition])]:
        return DescribeQuorumResponse(
            error_message="",
            topics=[
                DescribeQuorumResponseTopicData(
                    topic_name=name, partitions=[_refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for number in numbers]
                )
                for name, numbers in asked
            ],
        )
    status = None if services.raft is None else services.raft.status()
    if status is None and context.client.listener not in services.config.controller_names:
        return await services.controller.forward(request, context)
    if status is None:
        return DescribeQuorumResponse(
            error_message="",
            topics=[
                DescribeQuorumResponseTopicData(
                    topic_name=METADATA_PARTITION.topic, partitions=[_refused(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
                )
            ],
        )
    return described(status, context.version)


def _refused(number: int, code: ErrorCode) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=number,
        error_code=code,
        error_message=_MESSAGES[code],
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "For requests intended only for the leader, this error indicates that the broker is not the current "
    "leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.",
}
