"""● The interface to the active controller for all parts of a broker.

    handlers, life cycle, producer ids, directories ─▶ ControllerCalls ─▶ LocalController ─▶ metadata/controller.py

`ask` is for this node's own requests, `forward` for those of clients: the controller then learns of the client (KIP-590).
Source: NodeToControllerChannelManager, ForwardingManager, ControllerApis.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.controller import Controller
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_partition import AlterPartitionRequest
from moldau.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.update_features import UpdateFeaturesRequest
from moldau.protocol.wire import AnyResponse, Request
from moldau.server.peers.quorum_status import described
from moldau.server.requests.dispatch import Client, RequestContext

Decision = Callable[[Controller, Any, int], Awaitable[Any]]
"""A function of (controller, request, its version) that returns the response."""


async def _describe_quorum(controller: Controller, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
    return described(controller.quorum_status(), version)


DECISIONS: Final[Mapping[type[Request[Any]], Decision]] = {
    AddRaftVoterRequest: lambda controller, request, _: controller.change_voters(request),
    AllocateProducerIdsRequest: lambda controller, request, _: controller.allocate_producer_ids(request),
    AlterConfigsRequest: lambda controller, request, _: controller.alter_configs(request),
    AlterPartitionRequest: lambda controller, request, version: controller.alter_partition(request, version=version),
    AlterPartitionReassignmentsRequest: lambda controller, request, _: controller.alter_partition_reassignments(request),
    AssignReplicasToDirsRequest: lambda controller, request, _: controller.assign_replicas_to_dirs(request),
    BrokerHeartbeatRequest: lambda controller, request, _: controller.broker_heartbeat(request),
    BrokerRegistrationRequest: lambda controller, request, _: controller.register_broker(request),
    ControllerRegistrationRequest: lambda controller, request, _: controller.register_controller(request),
    CreatePartitionsRequest: lambda controller, request, _: controller.create_partitions(request),
    CreateTopicsRequest: lambda controller, request, _: controller.create_topics(request),
    DeleteTopicsRequest: lambda controller, request, version: controller.delete_topics(request, version=version),
    DescribeQuorumRequest: _describe_quorum,
    ElectLeadersRequest: lambda controller, request, _: controller.elect_leaders(request),
    IncrementalAlterConfigsRequest: lambda controller, request, _: controller.incremental_alter_configs(request),
    RemoveRaftVoterRequest: lambda controller, request, _: controller.change_voters(request),
    UnregisterBrokerRequest: lambda controller, request, _: controller.unregister_broker(request),
    UpdateFeaturesRequest: lambda controller, request, version: controller.update_features(request, version=version),
}
"""The active controller's decisions by request."""


class ControllerCalls(Protocol):
    """See the module.  Errors of both calls: KafkaError, NOT_CONTROLLER where no controller is active or known in time."""

    async def ask(self, request: Request[AnyResponse], *, version: int | None = None) -> AnyResponse:
        """Send a request of this node itself.  Without `version`, the newest that both ends know is used."""
        ...

    async def forward(self, request: Request[AnyResponse], context: RequestContext) -> AnyResponse:
        """Forward a client's request in the version that the client chose."""
        ...


class LocalController:
    """The controller of this process."""

    def __init__(self, controller: Controller, on_heartbeat: Callable[[int, Client], None] = lambda broker_id, client: None) -> None:
        """`on_heartbeat` is called with the connection of a broker's heartbeat."""
        self._controller: Final = controller
        self._on_heartbeat: Final = on_heartbeat

    async def ask(self, request: Request[AnyResponse], *, version: int | None = None) -> AnyResponse:
        decision = DECISIONS[type(request)]
        response: AnyResponse = await decision(self._controller, request, request.VERSIONS[-1] if version is None else version)
        return response

    async def forward(self, request: Request[AnyResponse], context: RequestContext) -> AnyResponse:
        if isinstance(request, BrokerHeartbeatRequest):
            self._on_heartbeat(request.broker_id, context.client)
        return await self.ask(request, version=context.version)


async def create_internal_topic(
    controller: ControllerCalls, topic: str, partition_count: int, replication_factor: int, configs: Mapping[str, str], *, timeout_ms: int
) -> None:
    """Create a topic of the brokers' own; an existing one is as good.  Errors: KafkaError."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=partition_count,
                replication_factor=replication_factor,
                assignments=[],
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
            )
        ],
        timeout_ms=timeout_ms,
    )
    (result,) = (await controller.ask(request)).topics
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(ErrorCode.of(result.error_code), result.error_message)


async def allocate_producer_ids(controller: ControllerCalls, broker_id: int, broker_epoch: int) -> range:
    """The next block of ids for this broker's producers.  Errors: KafkaError."""
    response = await controller.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch))
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode.of(response.error_code))
    return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
