"""◇ The environment of the group machines: options, the metadata image, fresh ids."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.protocol.messages.offset_commit import OffsetCommitRequestTopic
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic
from moldau.types import TopicPartition


class Client(NamedTuple):
    """The client that sends a request, in the words in which group members are described."""

    client_id: str
    client_host: str
    """The host as Kafka writes it: with a slash in front."""
    api_version: int


class Commit(NamedTuple):
    """The part of a commit that a group checks before its offsets are stored."""

    member_id: str
    group_instance_id: str | None
    generation_id_or_member_epoch: int
    api_version: int
    is_transactional: bool
    topics: Sequence[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic.name, each.partition_index) for topic in self.topics for each in topic.partitions]


class Topics(Protocol):
    """The topics that exist now, as coordinators see them."""

    version: int
    """A number that grows with every change: the metadata offset."""

    def by_name(self, name: str) -> TopicView | None: ...

    def by_id(self, topic_id: UUID) -> TopicView | None: ...

    def names(self) -> Iterable[str]: ...


class NoTopics:
    """The topics before the first metadata."""

    version = -1

    def by_name(self, name: str) -> TopicView | None:
        return None

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


T = TypeVar("T")
NOTHING_OF_ITS_OWN: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class Environment:
    """The environment that all groups of a node share; the shell keeps it up to date."""

    config: GroupCoordinatorConfig
    topics: Topics
    new_uuid: Callable[[], UUID]
    """The source of member ids: seeded in simulation."""
    group_configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By group id the options that were set for one group (resource GROUP), within this broker's limits."""

    def of_group(self, group_id: str, option: str, otherwise: T) -> T:
        """The group's own `option`, named as in the resource (`consumer.session.timeout.ms`), or the broker's for all groups."""
        own = self.group_configs.get(group_id, NOTHING_OF_ITS_OWN)
        return cast(T, own.get(option, otherwise))
