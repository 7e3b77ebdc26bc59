"""● A client's authentication over a blocking connection.  `moldau.net.authentication` does the same over a channel."""

import secrets
from collections.abc import Callable
from typing import Any

from moldau.clients.blocking.connection import Connection
from moldau.net.sasl import Credentials
from moldau.net.sasl.conversation import NONCE_BYTES, converse
from moldau.protocol.wire import Request


def authenticating(credentials: Credentials) -> Callable[[Connection], int]:
    """For `Wire`: proves who the client is, and returns how long the broker accepts it, in milliseconds (0: as long as the connection).

    Errors: AuthenticationFailed; OSError.
    """

    def authenticate(connection: Connection) -> int:
        conversation = converse(credentials, peer=connection.name, nonce=secrets.token_urlsafe(NONCE_BYTES))
        request: Request[Any] = next(conversation)
        while True:
            response = connection.send(request)
            try:
                request = conversation.send(response)
            except StopIteration as done:
                return int(done.value)

    return authenticate
