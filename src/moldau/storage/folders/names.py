"""◇ Names of the directories in a log folder: logs, and logs on their way in or out.

    orders-0                                             a log
    orders-0.6f1c…-delete  -future  -stray               deleted, being copied here, unknown to the cluster

Source: UnifiedLog.logDeleteDirName, logFutureDirName, logStrayDirName, parseTopicPartitionName.
"""

from typing import Final
from uuid import UUID

from moldau.types import TopicPartition

DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
LONGEST_NAME: Final = 255


def partition_of(name: str) -> TopicPartition | None:
    """The partition that a directory is named for; None for anything else in a log directory."""
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))


def set_aside_name(where: TopicPartition, unique: UUID, suffix: str) -> str:
    """`<topic>-<partition>.<32 hex digits><suffix>`, the topic cut so that the name fits a file system."""
    tail = f"-{where.partition}.{unique.hex}{suffix}"
    return where.topic[: LONGEST_NAME - len(tail)] + tail


def fits_set_aside(where: TopicPartition) -> bool:
    """Whether the name of a log that is set aside tells which one it is: nothing of the topic is cut."""
    return len(f"{where}.{UUID(int=0).hex}{FUTURE_SUFFIX}") <= LONGEST_NAME


def set_aside_of(name: str) -> TopicPartition | None:
    """The partition in a name that `set_aside_name` made."""
    stem, dot, rest = name.rpartition(".")
    return partition_of(stem) if dot and "-" in rest else None
