"""◇ From a response's codes to what is returned or raised, and partitions by topic."""

from collections import defaultdict
from collections.abc import Iterable

from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(ErrorCode.of(code), message) if code else None


def raise_for(code: int, message: str | None = None) -> None:
    """Errors: KafkaError."""
    if code:
        raise KafkaError(ErrorCode.of(code), message)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for one in partitions:
        groups[one.topic].append(one.partition)
    return groups
