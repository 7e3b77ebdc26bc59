"""● The admin client, in rooms: `admin.topics.create(…)`, `admin.groups.describe(…)`.

Answers are the protocol's own structs where those say it best.  A call about several things answers for each: the value, or the
`KafkaError` that it ended in, which is returned, not raised.  Errors that concern the whole request are raised.

Each room is loaded with its first use: importing this module costs next to nothing.
"""

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.clients.admin.limited import Limited
from moldau.clients.admin.values import EndpointType
from moldau.clients.unpicklable import Unpicklable
from moldau.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import ssl

    from moldau.clients.admin.acls import AclAdmin
    from moldau.clients.admin.configs import ConfigAdmin
    from moldau.clients.admin.features import FeatureAdmin
    from moldau.clients.admin.groups import GroupAdmin
    from moldau.clients.admin.partitions import PartitionAdmin
    from moldau.clients.admin.quorum import QuorumAdmin
    from moldau.clients.admin.quotas import QuotaAdmin
    from moldau.clients.admin.share_groups import ShareGroupAdmin
    from moldau.clients.admin.streams_groups import StreamsGroupAdmin
    from moldau.clients.admin.tokens import TokenAdmin
    from moldau.clients.admin.topics import TopicAdmin
    from moldau.clients.admin.transactions import TransactionAdmin
    from moldau.clients.admin.users import UserAdmin
    from moldau.clients.cluster import Cluster
    from moldau.clients.connecting import Given
    from moldau.net.sasl import Credentials
    from moldau.net.transport import Network
    from moldau.protocol.messages.api_versions import ApiVersionsResponse
    from moldau.protocol.messages.describe_cluster import DescribeClusterResponse


class Admin(Limited, Unpicklable):
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

        async with Admin("localhost:9092") as admin:
            await admin.topics.create([NewTopic("orders", 3)])
            await admin.groups.describe("billing")

    Options as for the other clients, and `default_api_timeout_ms`, the limit for each call.

    `bootstrap_controllers="host:port,host:port"` instead of `servers` asks the controllers themselves, also when no broker runs (KIP-919):
    for the quorum, features, ACLs, configs, reassignments, and the cluster itself.  Other calls raise a KafkaError
    UNSUPPORTED_ENDPOINT_TYPE.
    """

    def __init__(
        self,
        servers: "str | Sequence[str] | Cluster | None" = None,
        options: "Given | None" = None,
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        network: "Network | None" = None,
        **given: Any,
    ) -> None:
        from moldau.clients.cluster import Cluster

        self._owns_cluster = not isinstance(servers, Cluster)
        if isinstance(servers, Cluster):
            self.cluster = servers
        else:
            from moldau.clients.admin.options import AdminOptions, refuse_two_bootstraps
            from moldau.clients.connecting import cluster_of, mapping_of
            from moldau.clients.options import parse_options

            named = {**mapping_of(options), **given}
            refuse_two_bootstraps(servers, named)
            chosen = parse_options(AdminOptions, named)
            controllers = chosen.bootstrap_controllers or None
            self.cluster = cluster_of(
                controllers or servers,
                chosen,
                ssl_context=ssl_context,
                sasl=sasl,
                network=network,
                at_controllers=controllers is not None,
            )
            self.limit_s = chosen.default_api_timeout_ms / 1000

    def with_timeout(self, timeout_ms: int) -> "Admin":
        """This client with another limit for each call, in milliseconds.  It has the same connections, and leaves them open.

            await admin.with_timeout(5_000).groups.describe("billing")

        Source: AbstractOptions.timeoutMs.
        """
        if timeout_ms <= 0:
            raise ValueError(f"a limit of {timeout_ms} ms leaves no time for a call")
        return Admin(self.cluster).within(timeout_ms / 1000)

    @cached_property
    def topics(self) -> "TopicAdmin":
        """Lists, describes, creates and deletes topics, and adds partitions."""
        from moldau.clients.admin.topics import TopicAdmin

        return TopicAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def configs(self) -> "ConfigAdmin":
        """Describes and changes the configs of topics, brokers, groups, loggers and client metrics."""
        from moldau.clients.admin.configs import ConfigAdmin

        return ConfigAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def partitions(self) -> "PartitionAdmin":
        """Reads and changes partitions: offsets, leaders, replicas and their folders."""
        from moldau.clients.admin.partitions import PartitionAdmin

        return PartitionAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def groups(self) -> "GroupAdmin":
        """Describes and changes groups of the classic and of the consumer protocol."""
        from moldau.clients.admin.groups import GroupAdmin

        return GroupAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def share_groups(self) -> "ShareGroupAdmin":
        """Describes and changes share groups, whose members take records off the same partitions (KIP-932)."""
        from moldau.clients.admin.share_groups import ShareGroupAdmin

        return ShareGroupAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def streams_groups(self) -> "StreamsGroupAdmin":
        """Describes the groups of Kafka Streams (KIP-1071)."""
        from moldau.clients.admin.streams_groups import StreamsGroupAdmin

        return StreamsGroupAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def transactions(self) -> "TransactionAdmin":
        """Lists and describes transactions, finds those that hang and ends them."""
        from moldau.clients.admin.transactions import TransactionAdmin

        return TransactionAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def quorum(self) -> "QuorumAdmin":
        """Describes the controllers and their voters, and changes the voters."""
        from moldau.clients.admin.quorum import QuorumAdmin

        return QuorumAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def features(self) -> "FeatureAdmin":
        """Describes and changes the levels of the cluster's features."""
        from moldau.clients.admin.features import FeatureAdmin

        return FeatureAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def acls(self) -> "AclAdmin":
        """Lists, adds and deletes access control lists."""
        from moldau.clients.admin.acls import AclAdmin

        return AclAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def quotas(self) -> "QuotaAdmin":
        """Describes and changes the quotas of users, client ids and addresses."""
        from moldau.clients.admin.quotas import QuotaAdmin

        return QuotaAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def users(self) -> "UserAdmin":
        """Describes and changes SCRAM credentials."""
        from moldau.clients.admin.users import UserAdmin

        return UserAdmin(self.cluster).within(self.limit_s)

    @cached_property
    def tokens(self) -> "TokenAdmin":
        """Issues, renews, ends and lists delegation tokens."""
        from moldau.clients.admin.tokens import TokenAdmin

        return TokenAdmin(self.cluster).within(self.limit_s)

    # ------------------------------------------------------------ the cluster itself

    async def describe_cluster(
        self, *, endpoint_type: EndpointType | None = None, include_fenced: bool = False, authorized_operations: bool = False
    ) -> "DescribeClusterResponse":
        """The nodes, the controller and the cluster's id.  Errors: KafkaError.

        `endpoint_type`: brokers or controllers; None: those that this client asks.

        `authorized_operations`: say what the caller may do, too.  `moldau.clients.admin.acls.operations_of` reads the answer's number.
        A broker older than 2.8 cannot be asked for that, nor for fenced brokers or for controllers.
        """
        from moldau.clients.admin.answers import raise_for
        from moldau.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

        if endpoint_type is None:
            endpoint_type = EndpointType.CONTROLLER if self.cluster.is_at_controllers else EndpointType.BROKER
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=authorized_operations, endpoint_type=endpoint_type, include_fenced_brokers=include_fenced
        )
        try:
            response = await self.cluster.send(request)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION or endpoint_type is not EndpointType.BROKER or authorized_operations:
                raise
            view = await self.cluster.refresh([])
            brokers = [
                DescribeClusterBroker(broker_id=one.node_id, host=one.host, port=one.port, rack=one.rack) for one in view.nodes.values()
            ]
            return DescribeClusterResponse(cluster_id=view.cluster_id or "", controller_id=view.controller_id, brokers=brokers)
        raise_for(response.error_code, response.error_message)
        return response

    async def api_versions(self, node_id: int | None = None) -> "ApiVersionsResponse":
        """The APIs that a node serves, the features that it supports, and the finalized features."""
        from moldau.clients.admin.answers import raise_for
        from moldau.protocol.messages.api_versions import ApiVersionsRequest
        from moldau.version import __version__

        request = ApiVersionsRequest(client_software_name="moldau", client_software_version=__version__)
        response = await self.cluster.send(request, node_id=node_id)
        raise_for(response.error_code)
        return response

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker that is gone for good from the cluster.  Errors: KafkaError."""
        from moldau.clients.admin.answers import raise_for
        from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest

        response = await self.cluster.send(UnregisterBrokerRequest(broker_id=broker_id))
        raise_for(response.error_code, response.error_message)

    def metrics(self) -> dict[str, float]:
        """Totals since the start and the connections that are open, by the names of KIP-714.

        A request is counted when it is sent.  What the connections themselves ask for, versions and credentials, is not counted.
        """
        return {
            "admin.client.connection.count": self.cluster.connection_count,
            "admin.client.connection.creation.total": self.cluster.connection_creations,
            "admin.client.request.total": self.cluster.requests,
        }

    async def close(self) -> None:
        """Close the connections.  Calls that wait fail, and later ones are refused with a FatalError.

        A `Cluster` that is shared with others stays open, and this client with it.
        """
        if self._owns_cluster:
            self.cluster.end("the admin client is closed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
