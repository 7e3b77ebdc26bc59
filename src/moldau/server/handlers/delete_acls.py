"""● DeleteAcls: the answer of a broker without an authorizer, as this one is.

Versions       1-3.
Authorises     ALTER on the cluster.
Errors         SECURITY_DISABLED, for each filter.
Differs from Kafka: filters with unknown elements are answered; Kafka closes the connection.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NO_AUTHORIZER: Final = "No Authorizer is configured."


@handles(DeleteAclsRequest)
def delete_acls(services: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    refused = ErrorCode.SECURITY_DISABLED
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=refused, error_message=NO_AUTHORIZER, matching_acls=[]) for _ in request.filters]
    )
