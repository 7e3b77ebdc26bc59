"""● The settings of a shop: the brokers, its folder, and the recipients of its mails."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moldau.pipelines.validation.model import Topics
from moldau.shop.burgers.promotion import Promotion
from moldau.shop.topics import ShopTopics


@dataclass(frozen=True, slots=True)
class Settings:
    servers: str
    folder: Path
    name: str = "shop"
    """The younger of two shops with one name fences the older."""
    prefix: str = ""
    partitions: int = 2
    """The number of partitions of topics that have to be made."""
    host: str = "127.0.0.1"
    port: int = 8085
    smtp: str = ""
    sender: str = "shop@moldau.example"
    metrics: tuple[str, ...] = ()
    """URLs of running pipelines' figures, in Prometheus' form."""
    is_open: bool = True
    """Orders and claims are taken; else they are only shown."""
    promotion: Promotion = field(default_factory=Promotion)
    security: Mapping[str, str] = field(default_factory=dict)

    @property
    def orders(self) -> Topics:
        return Topics.prefixed(self.prefix)

    @property
    def topics(self) -> ShopTopics:
        return ShopTopics.prefixed(self.prefix)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"
