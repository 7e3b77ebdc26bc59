"""● Authenticates a client over a blocking connection.  `moldau.net.authentication` does the same over a channel."""

import secrets
from collections.abc import Callable
from typing import Any

from moldau.clients.blocking.connection import Connection
from moldau.net.sasl import Credentials
from moldau.net.sasl.conversation import NONCE_BYTES, converse
from moldau.protocol.wire import Request


def authenticating(credentials: Credentials) -> Callable[[Connection], int]:
    """The `authenticate` function of a `Wire`.

    The function proves who the client is.  It returns how many milliseconds the broker accepts the connection, 0 for its whole life.

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
