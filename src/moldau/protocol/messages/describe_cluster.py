"""◇ DescribeCluster: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, message, string, struct


@message(api_key=60, versions="0-2", flexible="0+", listeners=("broker", "controller"))
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """Ask for the cluster's id, controller and nodes.  Sent by admin tools.  Source: KIP-919, 1073."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+", default=False)


@message(response_to=DescribeClusterRequest)
class DescribeClusterResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
