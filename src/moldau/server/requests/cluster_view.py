"""◇ Short answers from the metadata, for the handlers of the data plane and the coordinators."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.metadata.features import KRAFT_VERSION
from moldau.metadata.image import MetadataImage, TopicImage
from moldau.server.requests.broker import Features, Leader
from moldau.server.requests.endpoints import PROTOCOLS, Endpoint
from moldau.types import NO_LEADER

_PROTOCOL_NAMES: Final = {number: name for name, number in PROTOCOLS.items()}


class ImageView:
    """A `ClusterView` over the latest image.

    `kraft_version` stands in no image: it is a control record of the metadata log.
    """

    def __init__(
        self, image: Callable[[], MetadataImage], supported: Mapping[str, tuple[int, int]], kraft_version: Callable[[], int] = lambda: 0
    ) -> None:
        self._image: Final = image
        self._kraft_version: Final = kraft_version
        self._supported: Final = {name: range(low, high + 1) for name, (low, high) in supported.items()}

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._image().topic_names.get(topic_id)

    def has_partition(self, topic: str, index: int) -> bool:
        return self._image().partition(topic, index) is not None

    def leader_of(self, topic: str, index: int, listener: str) -> Leader:
        image = self._image()
        partition = image.partition(topic, index)
        if partition is None or partition.leader == NO_LEADER:
            # The epoch is left out, too: a client takes an answer with an epoch for news, and librdkafka then does not ask again for
            # minutes.
            return Leader(NO_LEADER, -1, None, None)
        broker = image.brokers.get(partition.leader)
        found = broker.endpoint(listener) if broker is not None and not broker.fenced else None
        if broker is None or found is None:
            return Leader(partition.leader, partition.leader_epoch, None, None)
        endpoint = Endpoint(found.name, found.host, found.port, _PROTOCOL_NAMES[found.security_protocol])
        return Leader(partition.leader, partition.leader_epoch, endpoint, broker.rack)

    def features(self) -> Features:
        image, level = self._image(), self._kraft_version()
        finalized = {**image.features, KRAFT_VERSION: level} if level > 0 else image.features
        return Features(self._supported, finalized, image.offset)


class TopicsView:
    """The topics of one image, in the coordinators' form."""

    def __init__(self, image: MetadataImage) -> None:
        self.version = image.offset
        self._image: Final = image

    def by_name(self, name: str) -> TopicView | None:
        return _viewed(self._image.topics.get(name))

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return _viewed(self._image.topic(topic_id))

    def names(self) -> Iterable[str]:
        return self._image.topics


def _viewed(topic: TopicImage | None) -> TopicView | None:
    return None if topic is None else TopicView(topic.id, topic.name, len(topic.partitions))
