"""● SaslAuthenticate: the answer of a listener without SASL, as every listener here is.

Versions       0-2.
Authorises     nothing.
Errors         ILLEGAL_SASL_STATE, always.
Differs from Kafka: nothing known.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


@handles(SaslAuthenticateRequest)
def sasl_authenticate(services: Services, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=TOO_LATE, auth_bytes=b"")
