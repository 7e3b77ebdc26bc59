"""● DescribeAcls: the answer of a broker without an authorizer, as this one is.

Versions       1-3.
Authorises     DESCRIBE on the cluster.
Errors         SECURITY_DISABLED, always: tools and MirrorMaker take it as "nothing to see here" and go on.
Differs from Kafka: a filter with unknown elements is answered; Kafka closes the connection.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


@handles(DescribeAclsRequest)
def describe_acls(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, resources=[])
