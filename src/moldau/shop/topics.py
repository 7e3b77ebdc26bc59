"""◇ The topics of the shop, beside those of the order validation."""

from typing import Final, NamedTuple

from moldau.pipelines.validation.model import Topics

DAY_MS: Final = 24 * 3_600_000


class ShopTopics(NamedTuple):
    requests: str = "order-requests"
    """Orders as anybody may send them, keyed as they like; the gateway moves each to where the checks look for it."""
    claims: str = "burger-claims"
    mails: str = "order-mails"
    """Compacted: what was sent, by the mail's Message-ID."""

    @classmethod
    def prefixed(cls, prefix: str) -> "ShopTopics":
        return cls(*(prefix + name for name in cls()))

    def configs(self) -> dict[str, dict[str, str]]:
        return {
            self.requests: {"retention.ms": "-1"},
            # The promotion looks back one day; the rest is for people who look into the topic.
            self.claims: {"retention.ms": str(7 * DAY_MS)},
            self.mails: {"cleanup.policy": "compact", "retention.ms": "-1"},
        }


def all_configs(orders: Topics, shop: ShopTopics) -> dict[str, dict[str, str]]:
    return {**orders.configs(), **shop.configs()}
