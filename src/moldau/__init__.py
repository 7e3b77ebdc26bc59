"""Moldau: Apache Kafka in Python.

For users: `from moldau import Producer, Consumer, ShareConsumer, Admin` over asyncio, and `moldau.sync` for blocking code.

To read the broker, start at `moldau.server.node.node` (what a process is made of), then follow the journeys in docs/ARCHITECTURE.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moldau.version import __version__

if TYPE_CHECKING:
    from moldau.clients.admin import Admin, NewTopic
    from moldau.clients.consumer import Consumer
    from moldau.clients.producer import Producer
    from moldau.clients.share import ShareConsumer
    from moldau.types import TopicPartition

__all__ = ["Admin", "Consumer", "NewTopic", "Producer", "ShareConsumer", "TopicPartition", "__version__"]

_WHERE: Final = {
    "Admin": "moldau.clients.admin",
    "Consumer": "moldau.clients.consumer",
    "NewTopic": "moldau.clients.admin",
    "Producer": "moldau.clients.producer",
    "ShareConsumer": "moldau.clients.share",
    "TopicPartition": "moldau.types",
}


def __getattr__(name: str) -> Any:
    """The name, loaded when it is first used: importing the package itself costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'moldau' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
