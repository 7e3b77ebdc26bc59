"""● The APIs between the replicas of the metadata log: passed on to the replica of this process, see `raft/driver.py`.

Fetch on a listener of controllers is about that log alone.  Source: ControllerApis.handleRaftRequest; KIP-595, 630, 853.
"""

from collections.abc import Awaitable
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from moldau.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from moldau.protocol.messages.vote import VoteRequest
from moldau.protocol.wire import Response
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import Api, RequestContext


def ask_replica(services: Services, context: RequestContext, request: Any) -> Awaitable[Response]:
    if services.raft is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node has no replica of the metadata log")
    return services.raft.handle(request, context.version)


def change_voters(services: Services, context: RequestContext, request: Any) -> Awaitable[Response]:
    """Change voters here on a listener of controllers.  A broker passes the request on to the active controller, as Kafka's does."""
    if context.client.listener not in services.config.controller_names:
        return services.controller.forward(request, context)
    if services.raft is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node has no replica of the metadata log")
    return services.raft.change_voters(request)


APIS: Final = (
    Api(
        AddRaftVoterRequest,
        change_voters,
        """a controller that has caught up becomes a voter of the metadata log.

Versions       0-1.
Authorises     ALTER on the cluster.
Behaviour      One change at a time.  The leader asks the new voter for its kraft.version range;
               the answer comes once the change is committed.
Version notes  1+ may ask to be answered as soon as the change is in the log.
Errors         NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, UNSUPPORTED_VERSION in kraft.version 0, DUPLICATE_VOTER, INCONSISTENT_CLUSTER_ID,
               REQUEST_TIMED_OUT while another change is under way, the voter lags behind or the change is not committed in time.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        RemoveRaftVoterRequest,
        change_voters,
        """a controller is no voter of the metadata log any more.

Versions       0.
Authorises     ALTER on the cluster.
Behaviour      One change at a time; the answer comes once it is committed.  A leader that is removed resigns then.
Errors         NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, UNSUPPORTED_VERSION in kraft.version 0, VOTER_NOT_FOUND, INCONSISTENT_CLUSTER_ID,
               REQUEST_TIMED_OUT while another change is under way.
Differs from Kafka: the only voter is not removed: INVALID_REQUEST.
""",
    ),
    Api(
        UpdateRaftVoterRequest,
        change_voters,
        """a voter has another address or kraft.version range than in the metadata log.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Answered once the change is in the log.  In kraft.version 0 it is only remembered, for the way to 1.
Errors         NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INVALID_REQUEST, VOTER_NOT_FOUND,
               INCONSISTENT_CLUSTER_ID, REQUEST_TIMED_OUT while another change is under way.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        BeginQuorumEpochRequest,
        ask_replica,
        """a leader of the metadata log tells a voter of its epoch.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Answered once the epoch and its leader are on the disk.
Version notes  1+ names the voter that is meant and where the leader listens (KIP-853).
Errors         INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; on the partition FENCED_LEADER_EPOCH, INVALID_VOTER_KEY.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        EndQuorumEpochRequest,
        ask_replica,
        """a leader of the metadata log resigns, and names its preferred successors.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      The voter that is named first stands for election at once, the others give it time.
Version notes  1+ names candidates by id and directory (KIP-853).
Errors         INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; on the partition FENCED_LEADER_EPOCH.
Differs from Kafka: a voter that knows of the end answers pre-votes of others as if it had never fetched.
""",
    ),
    Api(
        FetchRequest,
        ask_replica,
        """a replica of the metadata log reads on, and reports how much of it is on its disk.

Versions       4-18.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Records are sent whether they are committed or not.  Waits for records, or for a higher high
               watermark than the replica's, max_wait_ms at
               most.  If the logs differ, the answer names the point; records that the log no longer has come as a snapshot.
Version notes  17+ carries the directory id (KIP-853), 18+ the replica's high watermark (KIP-1166).
Errors         INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; on the partition FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
               NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, BROKER_NOT_AVAILABLE while an election is being noted.
Differs from Kafka: nothing known.
""",
        listeners=("controller",),
    ),
    Api(
        FetchSnapshotRequest,
        ask_replica,
        """a replica of the metadata log reads part of a snapshot.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Errors         INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; on the partition SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, FENCED_LEADER_EPOCH,
               UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        VoteRequest,
        ask_replica,
        """a voter of the metadata log asks for a vote, or whether it would get one.

Versions       0-2.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Answered once the vote is on the disk.
Version notes  1+ names the candidate's directory and the voter that is meant (KIP-853); 2+ may ask first (KIP-996).
Errors         INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; on the partition FENCED_LEADER_EPOCH, INVALID_REQUEST, INVALID_VOTER_KEY.
Differs from Kafka: a voter that has a log and has lost its record of votes votes no more.
""",
    ),
)
