"""◇ What every mechanism has in common: credentials, and an exchange for each connection made of them."""

from typing import Protocol


class AuthenticationFailed(Exception):
    """The broker refuses the credentials, or cannot prove who it is.  Trying again with the same ones does not help."""


class Exchange(Protocol):
    """One authentication of one connection."""

    @property
    def is_done(self) -> bool:
        """Nothing more is to be sent, and the broker has proven what its mechanism asks it to prove."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """What to send for the broker's `challenge`; at first for an empty one.  Errors: AuthenticationFailed."""
        ...


class Credentials(Protocol):
    """Who a client is.  Its `repr` shows no secret."""

    @property
    def mechanism(self) -> str:
        """As SaslHandshake names it."""
        ...

    def exchange(self, *, nonce: str) -> Exchange:
        """A fresh one.  `nonce`: printable ASCII without commas that nobody can foresee.  Errors: AuthenticationFailed."""
        ...
