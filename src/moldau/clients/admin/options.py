"""◇ The options of the admin client, beside those of every client.  Source: AdminClientConfig."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.clients.options import ClientOptions, OptionError, require


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """`default_api_timeout_ms`: the limit for each call, with all that is tried again within it.

    `bootstrap_controllers`: the addresses of controllers, which are asked instead of brokers (KIP-919).
    """

    default_api_timeout_ms: int = 60_000
    bootstrap_controllers: str | Sequence[str] | None = None

    def check(self) -> None:
        ClientOptions.check(self)
        require(self.default_api_timeout_ms > 0, "default_api_timeout_ms", self.default_api_timeout_ms, "it has to be above 0")


def refuse_two_bootstraps(servers: object, given: Mapping[str, Any]) -> None:
    """Raise where brokers are given beside controllers.  Errors: OptionError.  Source: AdminBootstrapAddresses.fromConfig."""
    named = {key.replace(".", "_").replace("-", "_") for key, value in given.items() if value}
    if "bootstrap_controllers" in named and (servers is not None or "bootstrap_servers" in named):
        raise OptionError("you cannot set both bootstrap.servers and bootstrap.controllers")
