"""● A client's authentication over a channel.  Called by `moldau.clients.cluster` for each new connection."""

import inspect
import secrets
from typing import Any

from moldau.net.channel import Channel
from moldau.net.sasl import AuthenticationFailed, Credentials, OAuthBearer
from moldau.net.sasl.conversation import NONCE_BYTES, converse
from moldau.protocol.wire import Request


async def authenticate(channel: Channel, credentials: Credentials) -> int:
    """Authenticate a client.  Returns how many milliseconds the broker accepts the connection; 0: as long as it lasts.

    Errors: AuthenticationFailed; OSError.
    """
    if isinstance(credentials, OAuthBearer):
        credentials = await _with_fresh_token(credentials)
    conversation = converse(credentials, peer=str(channel.peer), nonce=secrets.token_urlsafe(NONCE_BYTES))
    request: Request[Any] = next(conversation)
    while True:
        response = await channel.send(request)
        try:
            request = conversation.send(response)
        except StopIteration as done:
            return int(done.value)


async def _with_fresh_token(credentials: OAuthBearer) -> OAuthBearer:
    """Errors: OSError of the provider, AuthenticationFailed for its other errors."""
    provider = credentials.token
    if isinstance(provider, str):
        return credentials
    try:
        token = provider()
        return credentials.with_token(await token if inspect.isawaitable(token) else token)
    except OSError:
        raise  # as of a broker that cannot be reached: the next connection may succeed
    except Exception as error:
        raise AuthenticationFailed(f"OAUTHBEARER: the provider of tokens failed: {error!r}") from error
