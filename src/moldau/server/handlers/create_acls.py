"""● CreateAcls: the answer of a broker without an authorizer, as this one is.

Versions       1-3.
Authorises     ALTER on the cluster.
Errors         SECURITY_DISABLED, for each entry.
Differs from Kafka: entries with unknown elements are answered; Kafka closes the connection.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NO_AUTHORIZER: Final = "No Authorizer is configured."


@handles(CreateAclsRequest)
def create_acls(services: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER) for _ in request.creations]
    )
