"""◇ A client's authentication as requests and responses, without IO: SaslHandshake, then SaslAuthenticate until it is done.

    conversation = converse(credentials, peer="broker:9093", nonce=fresh_nonce())
    request = next(conversation)
    …  request = conversation.send(response)            # StopIteration: done; its value is how long the broker accepts it

Source: KIP-43, KIP-152, KIP-368; SaslClientAuthenticator.
"""

from collections.abc import Generator
from typing import Final

from moldau.errors import ErrorCode
from moldau.net.sasl.exchange import AuthenticationFailed, Credentials
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MAX_STEPS: Final = 10
NONCE_BYTES: Final = 24

Conversation = Generator[SaslHandshakeRequest | SaslAuthenticateRequest, SaslHandshakeResponse | SaslAuthenticateResponse, int]


def converse(credentials: Credentials, *, peer: str, nonce: str) -> Conversation:
    """The requests of an authentication, as a generator that is sent their responses.

    It returns for how many milliseconds the broker accepts the connection; 0: as long as the connection lasts.  Errors:
    AuthenticationFailed.
    """
    handshake = yield SaslHandshakeRequest(mechanism=credentials.mechanism)
    assert isinstance(handshake, SaslHandshakeResponse)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationFailed(f"{peer} does not offer SASL {credentials.mechanism}; it offers {offered}")
    exchange = credentials.exchange(nonce=nonce)
    message = exchange.respond(b"")
    for _ in range(MAX_STEPS):
        response = yield SaslAuthenticateRequest(auth_bytes=message)
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            text = response.error_message or ErrorCode.of(response.error_code).text
            raise AuthenticationFailed(f"{peer}: {text}")
        challenge = bytes(response.auth_bytes)
        if challenge or not exchange.is_done:
            message = exchange.respond(challenge)
        if exchange.is_done:
            return response.session_lifetime_ms
    raise AuthenticationFailed(f"{peer}: the exchange does not end after {MAX_STEPS} steps")
