"""● IncrementalAlterConfigs: sets, removes, appends to and subtracts from single options of topics, brokers, groups or client metrics.

Versions       0-1.
Authorises     ALTER_CONFIGS on the cluster or on each topic or group.
Behaviour      APPEND and SUBTRACT begin with the effective value; they are for lists.  Levels of loggers are this process's own: they
               are set at once, and not stored.
Errors         those of `metadata.configs.incremental_alter_configs` and of `server.node.loggers.alter`; NOT_CONTROLLER.
Differs from Kafka: an unknown operation is INVALID_REQUEST for every kind of resource, not an UNKNOWN_SERVER_ERROR for some;
               loggers are named after the modules of this broker; any broker takes options for any other that is registered.
"""

from moldau.errors import ErrorCode
from moldau.metadata.configs import malformed
from moldau.metadata.image import ResourceType
from moldau.metadata.outcome import Refusal
from moldau.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.server.node import loggers
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    others = [resource for resource in request.resources if resource.resource_type != ResourceType.BROKER_LOGGER]
    if len(others) == len(request.resources):
        return await services.controller.forward(request, context)
    own = [resource for resource in request.resources if resource.resource_type == ResourceType.BROKER_LOGGER]
    of_loggers = iter(
        [_alter_loggers(services, *each, validate_only=request.validate_only) for each in zip(own, malformed(own), strict=True)]
    )
    stored = IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only)
    of_others = iter((await services.controller.forward(stored, context)).responses if others else ())
    return IncrementalAlterConfigsResponse(
        responses=[next(of_loggers if each.resource_type == ResourceType.BROKER_LOGGER else of_others) for each in request.resources]
    )


def _alter_loggers(
    services: Services, resource: AlterConfigsResource, wrong: Refusal | None, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    refusal = wrong or loggers.alter(services.schema.node_id, resource.resource_name, resource.configs, validate_only=validate_only)
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
