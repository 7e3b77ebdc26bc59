"""◇ The interface of a converter.  Source: org.apache.kafka.connect.storage.Converter, HeaderConverter."""

from typing import Any, Protocol

from moldau.connect.data import Schema


class Converter(Protocol):
    """Turns data into bytes and back.  Errors of both methods: DataError."""

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None: ...

    def to_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]: ...
