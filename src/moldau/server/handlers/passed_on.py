"""● The APIs that are only passed on: to the active controller, or to the share coordinator, wherever each is.

A row is an API, the destination of its request, and its documentation.  The answer is passed back.  Source: ForwardingManager; KIP-590,
932.
"""

from collections.abc import Awaitable
from typing import Any, Final

from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_partition import AlterPartitionRequest
from moldau.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from moldau.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from moldau.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.update_features import UpdateFeaturesRequest
from moldau.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from moldau.protocol.wire import Request, Response
from moldau.server.requests.broker import Broker, Services
from moldau.server.requests.dispatch import Api, RequestContext


def ask_controller(services: Services, context: RequestContext, request: Request[Any]) -> Awaitable[Response]:
    return services.controller.forward(request, context)


def ask_share_states(broker: Broker, context: RequestContext, request: Request[Any]) -> Awaitable[Response]:
    return broker.coordinators.share_persister.ask(request, attempts=1)


APIS: Final = (
    Api(
        AllocateProducerIdsRequest,
        ask_controller,
        """a broker gets its next block of producer ids.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Errors         STALE_BROKER_EPOCH; NOT_CONTROLLER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        AlterConfigsRequest,
        ask_controller,
        """all options of topics, brokers, groups or client metrics replaced by those given.

Versions       0-2.
Authorises     ALTER_CONFIGS on the cluster or on each topic or group.
Behaviour      Options that are not named are removed: IncrementalAlterConfigs is the API to use.
Errors         those of `metadata.configs.alter_configs`; NOT_CONTROLLER.
Differs from Kafka: a resource that is named twice is answered INVALID_REQUEST each time; Kafka gives no answer at all.
""",
    ),
    Api(
        AlterPartitionRequest,
        ask_controller,
        """a leader proposes another in-sync set.

Versions       2-3.
Authorises     CLUSTER_ACTION on the cluster.
Errors         those of `metadata.elections.alter_partition`; NOT_CONTROLLER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        AlterPartitionReassignmentsRequest,
        ask_controller,
        """partitions begin to move to other brokers, or stop moving.

Versions       0-1.
Authorises     ALTER on the cluster.
Errors         those of `metadata.elections.alter_partition_reassignments`; NOT_CONTROLLER.
Version notes  Version 1 can forbid that the number of replicas changes.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        AssignReplicasToDirsRequest,
        ask_controller,
        """a broker reports the folder of each of its replicas.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Errors         those of `metadata.directories.assign_replicas_to_dirs`; NOT_CONTROLLER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        BrokerHeartbeatRequest,
        ask_controller,
        """a broker proves that it lives, and asks to be unfenced or to stop.

Versions       0-2.
Authorises     CLUSTER_ACTION on the cluster.
Errors         STALE_BROKER_EPOCH; NOT_CONTROLLER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        BrokerRegistrationRequest,
        ask_controller,
        """a broker joins the cluster.

Versions       0-4.
Authorises     CLUSTER_ACTION on the cluster.
Errors         those of `metadata.brokers.register_broker`; NOT_CONTROLLER.
Differs from Kafka: more than 1,000 listeners, features or directories are refused.
""",
    ),
    Api(
        ControllerRegistrationRequest,
        ask_controller,
        """a controller tells the active one its addresses.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Errors         INVALID_REGISTRATION; NOT_CONTROLLER.
Differs from Kafka: more than 1,000 listeners or features are refused.
""",
    ),
    Api(
        CreatePartitionsRequest,
        ask_controller,
        """adds partitions to topics; the controller decides.

Versions       0-3.
Authorises     ALTER on each topic.
Errors         those of `metadata.topics.create_partitions`; NOT_CONTROLLER.
Differs from Kafka: a request for more than 10,000 is a POLICY_VIOLATION of that topic, not an UNKNOWN_SERVER_ERROR.
""",
    ),
    Api(
        CreateTopicsRequest,
        ask_controller,
        """creates topics; the controller decides.

Versions       2-7.
Authorises     CREATE on the cluster or on each topic.
Errors         those of `metadata.topics.create_topics`; NOT_CONTROLLER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        DeleteShareGroupStateRequest,
        ask_share_states,
        """deletes the states of share partitions.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      A missing state counts as deleted.
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        DeleteTopicsRequest,
        ask_controller,
        """deletes topics, with their partitions and configs; the controller decides.

Versions       1-6.
Authorises     DELETE on each topic.
Behaviour      By name, from version 6 on also by id.  Answered once the deletion is committed.
               The logs are renamed at once and deleted a minute later.
Errors         those of `metadata.topics.delete_topics`; NOT_CONTROLLER.
Version notes  Before version 3 disabled deletion is INVALID_REQUEST.
Differs from Kafka: the answers come in the order of the request, names before ids; Kafka shuffles them.
""",
    ),
    Api(
        ElectLeadersRequest,
        ask_controller,
        """elects the preferred replica, or with unclean election any live one.

Versions       0-2.
Authorises     ALTER on the cluster.
Behaviour      With null topics every topic is listed, but only the partitions that needed an election.
Errors         those of `metadata.elections.elect_leaders`; NOT_CONTROLLER.
Version notes  Version 0 knows preferred elections only.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        InitializeShareGroupStateRequest,
        ask_share_states,
        """begins states of share partitions, or begins them anew.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      The group coordinator asks, before a share group first reads a partition or when its offsets are reset.
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
               FENCED_STATE_EPOCH.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        ReadShareGroupStateRequest,
        ask_share_states,
        """the state with which a new leader of a share partition begins.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Leaders of older epochs are fenced from then on.
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
               FENCED_LEADER_EPOCH.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        ReadShareGroupStateSummaryRequest,
        ask_share_states,
        """the start offsets of share groups.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Start offsets without the runs behind them; -1 for a state that was never begun.
Version notes  1+ counts the records behind the start offset that are done with (KIP-1226).
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        UnregisterBrokerRequest,
        ask_controller,
        """the cluster forgets a broker that will not come back.

Versions       0.
Authorises     ALTER on the cluster.
Errors         BROKER_ID_NOT_REGISTERED; NOT_CONTROLLER.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        UpdateFeaturesRequest,
        ask_controller,
        """finalized levels go up or down, all of them or none.

Versions       0-2.
Authorises     ALTER on the cluster.
Errors         those of `metadata.feature_updates.update_features`; NOT_CONTROLLER.
Version notes  From version 1 on upgrade_type says what may be lost, in version 0 allow_downgrade;
               from version 2 on there are no results per feature.
Differs from Kafka: nothing known.
""",
    ),
    Api(
        WriteShareGroupStateRequest,
        ask_share_states,
        """stores the decisions of share partitions' leaders.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Answered once it cannot be lost any more.  A state that was never begun is not written.
Version notes  1+ counts the records behind the start offset that are done with (KIP-1226).
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
               FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
Differs from Kafka: nothing known.
""",
    ),
)
