"""◇ Turns a response's error codes into returned values or raised errors, and groups partitions by topic."""

from collections import defaultdict
from collections.abc import Iterable

from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(ErrorCode.of(code), message) if code else None


def raise_for(code: int, message: str | None = None) -> None:
    """Raise `code` unless it is NONE.  Errors: KafkaError."""
    if code:
        raise KafkaError(ErrorCode.of(code), message)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for one in partitions:
        groups[one.topic].append(one.partition)
    return groups
