"""◇ PLAIN: name and password in clear text, so use it only over TLS.  Source: RFC 4616, PlainSaslClient."""

from dataclasses import dataclass, field

from moldau.net.sasl.exchange import AuthenticationFailed


@dataclass(frozen=True, slots=True)
class Plain:
    """A user's name and password.  Errors: ValueError for a NUL in either, which the mechanism cannot carry."""

    username: str
    password: str = field(repr=False)
    authorization_id: str = ""

    def __post_init__(self) -> None:
        if "\0" in self.username + self.password + self.authorization_id:
            raise ValueError("a name or password with a NUL character cannot be sent by SASL PLAIN")

    @property
    def mechanism(self) -> str:
        return "PLAIN"

    def exchange(self, *, nonce: str) -> "PlainExchange":
        return PlainExchange(self)


class PlainExchange:
    """The exchange of one message; the broker's answer is empty."""

    def __init__(self, credentials: Plain) -> None:
        self._credentials = credentials
        self.is_done = False

    def respond(self, challenge: bytes) -> bytes:
        if challenge or self.is_done:
            raise AuthenticationFailed("the broker asks for more than SASL PLAIN has")
        self.is_done = True
        one = self._credentials
        return f"{one.authorization_id}\0{one.username}\0{one.password}".encode()
