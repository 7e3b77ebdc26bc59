"""◇ The values that name things to a cluster: resources and their configs, new topics, places in a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

TIMEOUT_MS: Final = 30_000
"""How long a broker may take for a change that the controller has to commit, in milliseconds."""

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

HIGH_WATERMARK: Final = -1
"""For `delete_records`: delete everything that consumers can see."""


class ResourceType(IntEnum):
    """The kinds of resource that have configs.  Source: ConfigResource.java."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The place that a config's value comes from.  Source: DescribeConfigsResponse.java."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class EndpointType(IntEnum):
    BROKER = 1
    CONTROLLER = 2


Resource = tuple[ResourceType, str]
"""A resource: its type and name.  The name is a topic, a broker's number, or "" for the default of all brokers."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    `partition_count` and `replication_factor` -1: the broker's defaults.  `assignments`: the replicas of each partition, instead of both.
    """

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    key: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET
