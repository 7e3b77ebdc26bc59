"""◇ SCRAM-SHA-256 and SCRAM-SHA-512: both sides prove that they know the password, and neither shows it.

The library `scramp` computes.  A broker chooses the number of iterations.  Fewer than Kafka allows would make the password cheap to guess;
far more would hold this client up.

Source: RFC 5802, 7677; KIP-48, 84, ScramSaslClient.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.net.sasl.exchange import AuthenticationFailed

if TYPE_CHECKING:
    from scramp import ScramClient

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 1_000_000
MAX_MESSAGE_BYTES: Final = 4096
TOKEN: Final = ",tokenauth=true"
"""The extension that asks for a token's key instead of a user's.  Source: KIP-48, ScramExtensions."""
_ITERATIONS: Final = re.compile(rb"(?:^|,)i=(\d{1,10})(?:,|$)")


@dataclass(frozen=True, slots=True)
class Scram:
    """A user's name and password.  Errors: ValueError for a mechanism that is none of `MECHANISMS`.

    `is_token`: they are the id and the HMAC, in base64, of a delegation token, and the login is its owner's.
    """

    username: str
    password: str = field(repr=False)
    mechanism: str = "SCRAM-SHA-512"
    is_token: bool = False

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"{self.mechanism!r} is no SCRAM mechanism of Kafka's: {' or '.join(MECHANISMS)}")

    def exchange(self, *, nonce: str) -> "ScramExchange":
        from scramp import ScramClient, ScramException

        try:
            return ScramExchange(ScramClient([self.mechanism], self.username, self.password, c_nonce=nonce), is_token=self.is_token)
        except ScramException as error:
            raise AuthenticationFailed(f"{self.mechanism}: {error}") from None


class ScramExchange:
    """The exchange client-first → server-first → client-final → server-final."""

    def __init__(self, client: "ScramClient", *, is_token: bool = False) -> None:
        self._client = client
        self._extensions = TOKEN if is_token else ""
        self._step = 0
        self.is_done = False

    def respond(self, challenge: bytes) -> bytes:
        from scramp import ScramException

        self._step += 1
        try:
            return self._respond(challenge).encode()
        except (ScramException, UnicodeDecodeError, ValueError, KeyError) as error:
            raise AuthenticationFailed(f"{self._client.mechanism_name}: {error}") from None

    def _respond(self, challenge: bytes) -> str:
        if len(challenge) > MAX_MESSAGE_BYTES:
            raise ValueError(f"the broker's message has {len(challenge)} bytes, {MAX_MESSAGE_BYTES} are allowed")
        client = self._client
        if self._step == 1:
            first: str = client.get_client_first() + self._extensions
            client.client_first_bare += self._extensions  # both sides sign what was sent, with its extensions
            return first
        if self._step == 2:
            _check_iterations(challenge)
            client.set_server_first(challenge.decode())
            final: str = client.get_client_final()
            return final
        if self._step == 3:
            client.set_server_final(challenge.decode())
            self.is_done = True
            return ""
        raise ValueError("the broker sends more than the mechanism has")


def _check_iterations(challenge: bytes) -> None:
    """Check the broker's number of iterations.  Errors: ValueError."""
    found = _ITERATIONS.search(challenge)
    iterations = int(found[1]) if found else 0
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"the broker asks for {iterations} iterations, {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted")
