"""◇ What the group machines need of the world: options, the metadata image, fresh ids."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.options import GroupCoordinatorConfig


class Client(NamedTuple):
    """Who sends a request, as group members are described."""

    client_id: str
    client_host: str
    """As Kafka writes it: with a slash in front."""
    api_version: int


class Commit(NamedTuple):
    """What a group checks of a commit before its offsets are looked at."""

    member_id: str
    group_instance_id: str | None
    generation_id_or_member_epoch: int
    api_version: int
    is_transactional: bool


class Topics(Protocol):
    """The topics that exist now, as coordinators see them."""

    version: int
    """Grows with every change: the metadata offset."""

    def by_name(self, name: str) -> TopicView | None: ...

    def by_id(self, topic_id: UUID) -> TopicView | None: ...

    def names(self) -> Iterable[str]: ...


class NoTopics:
    """Before the first metadata."""

    version = -1

    def by_name(self, name: str) -> TopicView | None:
        return None

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


@dataclass(slots=True)
class Environment:
    """Shared by all groups of a node; the shell keeps `config` and `topics` up to date."""

    config: GroupCoordinatorConfig
    topics: Topics
    new_uuid: Callable[[], UUID]
    """The source of member ids: seeded in simulation."""
