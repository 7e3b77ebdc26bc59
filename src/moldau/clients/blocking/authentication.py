"""● A client's authentication over a blocking connection: SaslHandshake, then SaslAuthenticate until the exchange is done.

Source: KIP-43, KIP-152, KIP-368.  `moldau.net.authentication` does the same over a channel.
"""

import secrets
from collections.abc import Callable
from typing import Final

from moldau.clients.blocking.connection import Connection
from moldau.errors import ErrorCode
from moldau.net.sasl import AuthenticationFailed, Credentials
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest

MAX_STEPS: Final = 10
NONCE_BYTES: Final = 24


def authenticating(credentials: Credentials) -> Callable[[Connection], int]:
    """For `Wire`: proves who the client is, and returns how long the broker accepts it, in milliseconds (0: as long as the connection).

    Errors: AuthenticationFailed; OSError.
    """

    def authenticate(connection: Connection) -> int:
        handshake = connection.send(SaslHandshakeRequest(mechanism=credentials.mechanism))
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(f"{connection.name} does not offer SASL {credentials.mechanism}; it offers {offered}")
        exchange = credentials.exchange(nonce=secrets.token_urlsafe(NONCE_BYTES))
        message = exchange.respond(b"")
        for _ in range(MAX_STEPS):
            response = connection.send(SaslAuthenticateRequest(auth_bytes=message))
            if response.error_code:
                text = response.error_message or ErrorCode.of(response.error_code).text
                raise AuthenticationFailed(f"{connection.name}: {text}")
            challenge = bytes(response.auth_bytes)
            if challenge or not exchange.is_done:
                message = exchange.respond(challenge)
            if exchange.is_done:
                return response.session_lifetime_ms
        raise AuthenticationFailed(f"{connection.name}: the exchange does not end after {MAX_STEPS} steps")

    return authenticate
