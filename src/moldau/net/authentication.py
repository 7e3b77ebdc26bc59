"""● A client's authentication over a channel: SaslHandshake, then SaslAuthenticate until the exchange is done.

Source: KIP-43, KIP-152, KIP-368; SaslClientAuthenticator.  Called by `moldau.clients.cluster` for each new connection.
"""

import inspect
import secrets
from typing import Final

from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.net.sasl import AuthenticationFailed, Credentials, OAuthBearer
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest

MAX_STEPS: Final = 10
NONCE_BYTES: Final = 24


async def authenticate(channel: Channel, credentials: Credentials) -> int:
    """How long the broker accepts it, in milliseconds; 0: as long as the connection lasts.

    Errors: AuthenticationFailed; OSError.
    """
    if isinstance(credentials, OAuthBearer):
        credentials = await _with_fresh_token(credentials)
    handshake = await channel.send(SaslHandshakeRequest(mechanism=credentials.mechanism))
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationFailed(f"{channel.peer} does not offer SASL {credentials.mechanism}; it offers {offered}")
    exchange = credentials.exchange(nonce=secrets.token_urlsafe(NONCE_BYTES))
    message = exchange.respond(b"")
    for _ in range(MAX_STEPS):
        response = await channel.send(SaslAuthenticateRequest(auth_bytes=message))
        if response.error_code:
            text = response.error_message or ErrorCode.of(response.error_code).text
            raise AuthenticationFailed(f"{channel.peer}: {text}")
        challenge = bytes(response.auth_bytes)
        if challenge or not exchange.is_done:
            message = exchange.respond(challenge)
        if exchange.is_done:
            return response.session_lifetime_ms
    raise AuthenticationFailed(f"{channel.peer}: the exchange does not end after {MAX_STEPS} steps")


async def _with_fresh_token(credentials: OAuthBearer) -> OAuthBearer:
    provider = credentials.token
    if isinstance(provider, str):
        return credentials
    token = provider()
    return credentials.with_token(await token if inspect.isawaitable(token) else token)
