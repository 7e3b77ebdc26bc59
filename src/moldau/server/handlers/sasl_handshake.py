"""● SaslHandshake: the answer of a listener without SASL, as every listener here is.

Versions       0-1.
Authorises     nothing.
Errors         ILLEGAL_SASL_STATE, always, with no mechanism: a client that wants SASL reports it, instead of losing its connection.
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(SaslHandshakeRequest)
def sasl_handshake(services: Services, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
