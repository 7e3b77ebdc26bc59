"""◇ The options of the admin client, beside those of every client.  Source: AdminClientConfig."""

from dataclasses import dataclass

from moldau.clients.options import ClientOptions, require


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """`default_api_timeout_ms`: the limit for each call, with all that is tried again within it."""

    default_api_timeout_ms: int = 60_000

    def check(self) -> None:
        ClientOptions.check(self)
        require(self.default_api_timeout_ms > 0, "default_api_timeout_ms", self.default_api_timeout_ms, "it has to be above 0")
