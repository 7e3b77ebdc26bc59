"""● ListConfigResources: lists the resources that have configs.

Versions       0-1.
Authorises     DESCRIBE_CONFIGS on the cluster.
Behaviour      Without types: all of them.  Topics and brokers are listed whether or not configs are set on them.
Errors         UNSUPPORTED_VERSION for an unknown type.
Version notes  Version 0 lists client metrics only.
Differs from Kafka: nothing known.
"""

from moldau.metadata.configs import list_config_resources as listed
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(ListConfigResourcesRequest)
def list_config_resources(broker: Broker, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    return listed(broker.loader.image, request, version=context.version)
