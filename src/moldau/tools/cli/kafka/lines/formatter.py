"""◇ Records into lines of bytes, as kafka-console-consumer prints them.

    CreateTime:1700000000000 ⇥ Partition:0 ⇥ Offset:7 ⇥ Delivery:1 ⇥ Epoch:… ⇥ h:v,h:v ⇥ key ⇥ value        each only when asked for

Source: DefaultMessageFormatter.java.
"""

import uuid
from collections.abc import Callable, Mapping
from struct import Struct, error
from typing import Final

from moldau.clients.records import ConsumerRecord
from moldau.tools.cli.failure import Failure

PACKAGE: Final = "org.apache.kafka.common.serialization."
TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}

Deserializer = Callable[[bytes], bytes]


def _number(layout: str, name: str) -> Deserializer:
    packed = Struct(layout)

    def deserialize(data: bytes) -> bytes:
        try:
            (value,) = packed.unpack(data)
        except error:
            raise Failure(f"Size of data received by {name}Deserializer is not {packed.size}") from None
        return java_float(value) if isinstance(value, float) else str(value).encode()

    return deserialize


def java_float(value: float) -> bytes:
    """The text of a number, close to that of Double.toString for numbers of everyday size."""
    return repr(value).encode()


DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    "StringDeserializer": bytes,
    "ByteArrayDeserializer": lambda data: b"[B@" + data.hex()[:8].encode(),
    "BytesDeserializer": lambda data: "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02X}" for byte in data).encode(),
    "ShortDeserializer": _number(">h", "Short"),
    "IntegerDeserializer": _number(">i", "Integer"),
    "LongDeserializer": _number(">q", "Long"),
    "FloatDeserializer": _number(">f", "Float"),
    "DoubleDeserializer": _number(">d", "Double"),
    "BooleanDeserializer": lambda data: b"true" if data == b"\x01" else b"false",
    "UUIDDeserializer": lambda data: str(uuid.UUID(data.decode())).encode(),
    "VoidDeserializer": lambda data: b"null",
}


def deserializer(name: str) -> Deserializer:
    """The deserializer of a Java class name, with or without its package.  Errors: Failure."""
    found = DESERIALIZERS.get(name.strip().removeprefix(PACKAGE))
    if found is None:
        raise Failure(f"there is no deserializer {name}", f"Known: {', '.join(DESERIALIZERS)}")
    return found


class Formatter:
    """Formats records as lines.  Errors: Failure for an unknown deserializer."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str, default: bool = False) -> bool:
            text = properties.get(f"print.{name}")
            return default if text is None else text.strip().lower() == "true"

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        self._timestamp, self._partition, self._offset, self._epoch = map(flag, ("timestamp", "partition", "offset", "epoch"))
        self._delivery = flag("delivery")
        self._headers, self._key, self._value = flag("headers"), flag("key"), flag("value", True)
        self._separator, self._line_end = text("key.separator", "\t"), text("line.separator", "\n")
        self._headers_separator, self._null = text("headers.separator", ","), text("null.literal", "null")
        self._of_key, self._of_value, self._of_header = (
            deserializer(properties.get(f"{what}.deserializer", "StringDeserializer")) for what in ("key", "value", "headers")
        )

    def line(self, record: ConsumerRecord, delivery_count: int | None = None) -> bytes:
        """`delivery_count`: how often a share group's record was delivered, this delivery included."""
        parts = []
        if self._timestamp:
            kind = TIMESTAMP_TYPES.get(record.timestamp_type)
            parts.append(b"NO_TIMESTAMP" if kind is None or record.timestamp < 0 else f"{kind}:{record.timestamp}".encode())
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._delivery:
            parts.append(b"Delivery:" + (b"NOT_PRESENT" if delivery_count is None else b"%d" % delivery_count))
        if self._epoch:
            parts.append(b"Epoch:NOT_PRESENT")  # Kafka's console consumer drops the epoch before it formats
        if self._headers:
            parts.append(self._headers_of(record))
        if self._key:
            parts.append(self._null if record.key is None else self._of_key(record.key))
        if self._value:
            parts.append(self._null if record.value is None else self._of_value(record.value))
        return self._separator.join(parts) + self._line_end

    def _headers_of(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            key.encode() + b":" + (self._null if value is None else self._of_header(value)) for key, value in record.headers
        )
