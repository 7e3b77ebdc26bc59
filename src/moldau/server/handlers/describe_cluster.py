"""● DescribeCluster: the cluster's id, its controller, its brokers; or on a controller's listener, its controllers.

Versions       0-2.
Authorises     DESCRIBE on the cluster for its authorized operations.
Errors         MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE.
Version notes  Version 1 brings the endpoint type, version 2 fenced brokers.
Differs from Kafka: nothing known.
"""

from collections.abc import Iterator

from moldau.errors import ErrorCode
from moldau.metadata.image import MetadataImage
from moldau.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from moldau.server.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.types import NO_LEADER

BROKERS = 1
CONTROLLERS = 2
_NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


@handles(DescribeClusterRequest)
def describe_cluster(services: Services, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    here = CONTROLLERS if context.client.listener in services.config.controller_names else BROKERS
    if request.endpoint_type != here:
        return _refused(request.endpoint_type, here)
    image = services.loader.image
    nodes = _controllers(services, context) if here == CONTROLLERS else _brokers(image, context.client.listener, request)
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=services.cluster_id,
        controller_id=_active_controller(services) if here == CONTROLLERS else services.any_broker_id(),
        brokers=list(nodes),
        cluster_authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED,
    )


def _active_controller(services: Services) -> int:
    return NO_LEADER if services.raft is None else services.raft.node.leader_id


def _refused(asked: int, here: int) -> DescribeClusterResponse:
    if asked in _NAMES:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        text = f"The request was sent to an endpoint of type {_NAMES[here]}, but we wanted an endpoint of type {_NAMES[asked]}"
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        text = f"Unsupported endpoint type {asked}"
    return DescribeClusterResponse(error_code=code, error_message=text, cluster_id="", brokers=[])


def _brokers(image: MetadataImage, listener: str, request: DescribeClusterRequest) -> Iterator[DescribeClusterBroker]:
    for one in image.brokers.values():
        endpoint = one.endpoint(listener)
        if endpoint is not None and (request.include_fenced_brokers or not one.fenced):
            yield DescribeClusterBroker(broker_id=one.id, host=endpoint.host, port=endpoint.port, rack=one.rack, is_fenced=one.fenced)


def _controllers(services: Services, context: RequestContext) -> Iterator[DescribeClusterBroker]:
    for one in services.loader.image.controllers.values():
        endpoint = one.endpoint(context.client.listener)
        if endpoint is not None:
            yield DescribeClusterBroker(broker_id=one.id, host=endpoint.host, port=endpoint.port)
