"""◇ The subject under which a schema is registered.  Source: Confluent's documentation, "Subject name strategy"."""

from collections.abc import Callable
from typing import Final

from moldau.connect.errors import DataError

PACKAGE: Final = "io.confluent.kafka.serializers.subject."
STRATEGIES: Final = tuple(f"{PACKAGE}{name}" for name in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"))
Subject = Callable[[str, str | None], str]
"""Of the topic and the schema's name.  Errors: DataError."""


def subject_of(strategy: str, *, is_key: bool) -> Subject:
    def by_topic(topic: str, name: str | None) -> str:
        return f"{topic}-{'key' if is_key else 'value'}"

    def by_record(topic: str, name: str | None) -> str:
        if name is None:
            raise DataError(f"{strategy} needs records whose schema has a name")
        return name

    def by_both(topic: str, name: str | None) -> str:
        return f"{topic}-{by_record(topic, name)}"

    return dict(zip(STRATEGIES, (by_topic, by_record, by_both), strict=True))[strategy]
