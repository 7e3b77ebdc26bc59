"""◇ The topics of the shop, beside those of the order validation."""

from typing import Final, NamedTuple

from moldau.pipelines.validation.model import Topics

DAY_MS: Final = 24 * 3_600_000


class ShopTopics(NamedTuple):
    requests: str = "order-requests"
    """Orders that anybody may send, with any key; the gateway moves each order to where the checks look for it."""
    claims: str = "burger-claims"
    mails: str = "order-mails"
    """The mails that were sent, by their Message-IDs; compacted."""

    @classmethod
    def prefixed(cls, prefix: str) -> "ShopTopics":
        return cls(*(prefix + name for name in cls()))

    def configs(self) -> dict[str, dict[str, str]]:
        return {
            self.requests: {"retention.ms": "-1"},
            # The promotion looks back one day; older claims are for people who look into the topic.
            self.claims: {"retention.ms": str(7 * DAY_MS)},
            self.mails: {"cleanup.policy": "compact", "retention.ms": "-1"},
        }


def all_configs(orders: Topics, shop: ShopTopics) -> dict[str, dict[str, str]]:
    return {**orders.configs(), **shop.configs()}
