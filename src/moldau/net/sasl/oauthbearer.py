"""◇ OAUTHBEARER: a token that an authorization server issued.  The token is a secret, so use it only over TLS.

A refusal comes as a JSON document, which the client must acknowledge before the broker ends the exchange with an error of its own.
Source: RFC 7628; KIP-255, KIP-342; OAuthBearerSaslClient.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from moldau.net.sasl.exchange import AuthenticationFailed

Token = str | Callable[[], str] | Callable[[], Awaitable[str]]
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
RESERVED: Final = "auth"
ACKNOWLEDGED: Final = b"\x01"
MAX_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class OAuthBearer:
    """A token, or a function that gets a fresh one for each connection.  `extensions`: sent to the broker beside the token.

    Errors: ValueError for an extension that the mechanism cannot carry.
    """

    token: Token = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)
    authorization_id: str = ""

    def __post_init__(self) -> None:
        for name, value in self.extensions.items():
            if name == RESERVED or not _EXTENSION_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a SASL extension's name: letters only, and not {RESERVED!r}")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"the SASL extension {name!r} has a value that cannot be sent: printable ASCII only")

    @property
    def mechanism(self) -> str:
        return "OAUTHBEARER"

    def with_token(self, token: str) -> "OAuthBearer":
        """The same credentials with the provider's token."""
        return replace(self, token=token)

    def exchange(self, *, nonce: str) -> "OAuthBearerExchange":
        if not isinstance(self.token, str):
            raise AuthenticationFailed("the token has to be fetched first: see with_token")
        if not _TOKEN.fullmatch(self.token):
            raise AuthenticationFailed("OAUTHBEARER: the token is no bearer token: characters of base64url, dots, and no spaces")
        return OAuthBearerExchange(self, self.token)


class OAuthBearerExchange:
    """The exchange of one message; an empty answer is consent."""

    def __init__(self, credentials: OAuthBearer, token: str) -> None:
        self._credentials = credentials
        self._token = token
        self._refusal: str | None = None
        self._has_begun = False

    @property
    def is_done(self) -> bool:
        return self._has_begun and self._refusal is None

    def respond(self, challenge: bytes) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            return self._first()
        if self._refusal is not None:
            raise AuthenticationFailed(f"the broker refuses the token: {self._refusal}")
        if challenge:
            self._refusal = _status(challenge)
            return ACKNOWLEDGED
        return b""

    def _first(self) -> bytes:
        one = self._credentials
        name = one.authorization_id.replace("=", "=3D").replace(",", "=2C")
        authorization = f"a={name}" if name else ""
        pairs = "".join(f"{key}={value}\x01" for key, value in one.extensions.items())
        return f"n,{authorization},\x01auth=Bearer {self._token}\x01{pairs}\x01".encode()


def _status(challenge: bytes) -> str:
    text = challenge[:MAX_SHOWN].decode(errors="replace")
    try:
        status = json.loads(challenge).get("status")
    except (ValueError, AttributeError):
        return text
    return status if isinstance(status, str) else text
