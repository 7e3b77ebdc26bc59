"""◇ The common base of all mechanisms: credentials, from which each connection makes an exchange."""

from typing import Protocol


class AuthenticationFailed(Exception):
    """The broker refuses the credentials, or cannot prove its identity.  Another attempt with the same credentials does not help."""


class Exchange(Protocol):
    """One authentication of one connection."""

    @property
    def is_done(self) -> bool:
        """Whether no more bytes have to be sent, and the broker has given the proof that its mechanism demands."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The bytes to send for the broker's `challenge`; the first challenge is empty.  Errors: AuthenticationFailed."""
        ...


class Credentials(Protocol):
    """The identity of a client.  Its `repr` shows no secret."""

    @property
    def mechanism(self) -> str:
        """The mechanism's name in SaslHandshake."""
        ...

    def exchange(self, *, nonce: str) -> Exchange:
        """A fresh exchange.  `nonce`: unpredictable printable ASCII without commas.  Errors: AuthenticationFailed."""
        ...
