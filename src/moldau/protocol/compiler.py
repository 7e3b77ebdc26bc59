"""◇ From a declared class and a version to one flat function that reads it, and one that writes it.

`decoder(cls, version)` and `encoder(cls, version)` write Python source on first use: no loop over fields, no test of the version,
neighbouring fields of fixed size in one `Struct` together with the length byte that follows them.  `linecache` holds the source, so
tracebacks and debuggers show it; `source_of` prints it.

Guarantees of a decoder: it reads the message and nothing behind it, or raises `DecodeError` with the field's path.  A count or
length is checked against the bytes left before anything of its size is made.  Records are views of the frame, never copies.
Guarantees of an encoder: tags ascend, tagged fields with their default stay out, a field that the version lacks must have its default
unless it is ignorable.  Records are parts of their own, by reference.  What cannot be written raises `EncodeError` with the path.

The path costs nothing until something fails: each generated line is known by its number, and the failing line names its field.

Source: KIP-482; org.apache.kafka.message.MessageDataGenerator decides nulls, tags and defaults the same way.
"""

import linecache
from collections.abc import Callable
from typing import Any, Final, TypeVar

from moldau.protocol.codegen import Source
from moldau.protocol.decoding import CoordinatorRecordDecoding, Decoding, RequestDecoding
from moldau.protocol.encoding import Encoding
from moldau.protocol.wire import Message
from moldau.types import Part, joined

M = TypeVar("M", bound=Message)


class Codecs(dict[tuple[type[Any], int], Any]):
    """(class, version) → its codec, written when first asked for."""

    def __init__(self, what: str, writer: "type[Decoding] | type[Encoding]") -> None:
        super().__init__()
        self.what = what
        self.writer = writer

    def __missing__(self, key: tuple[type[Message], int]) -> Any:
        declared, version = key
        assert version in declared.VERSIONS, f"{declared.__name__} has no version {version}"
        source = Source(self.name(declared, version), declared, version, version in declared.FLEXIBLE)
        self.writer(source).write()
        made = self[key] = source.make()
        return made

    def name(self, declared: type[Message], version: int) -> str:
        return f"<moldau {self.what} of {declared.__name__} v{version}>"


DECODERS: Final = Codecs("decoder", Decoding)
COORDINATOR_RECORD_DECODERS: Final = Codecs("coordinator record decoder", CoordinatorRecordDecoding)
REQUEST_DECODERS: Final = Codecs("request decoder", RequestDecoding)
ENCODERS: Final = Codecs("encoder", Encoding)


def decoder(declared: type[M], version: int) -> Callable[[memoryview], M]:
    """Reads a whole body.  Errors: DecodeError, and nothing else."""
    return DECODERS[declared, version]  # type: ignore[no-any-return]


def coordinator_record_decoder(declared: type[M], version: int) -> Callable[[memoryview], M]:
    """Reads a key or a value, whatever is behind it.  Errors: DecodeError, and nothing else."""
    return COORDINATOR_RECORD_DECODERS[declared, version]  # type: ignore[no-any-return]


def request_decoder(declared: type[M], version: int) -> Callable[[memoryview], M]:
    """Reads a client's body as Kafka does: bytes behind it are nobody's business, and librdkafka 2.16 sends three behind a Metadata v13.

    Unlike Kafka it takes no more elements than a server can bear: 25 million empty topics fit into 100 MiB, and into 15 GB of objects.
    Errors: DecodeError, and nothing else.
    """
    return REQUEST_DECODERS[declared, version]  # type: ignore[no-any-return]


def encoder(declared: type[M], version: int) -> Callable[[M], list[Part]]:
    """Writes a body: one part, or with records the bytes before, the records, the bytes between, and so on.  Errors: EncodeError."""
    return ENCODERS[declared, version]  # type: ignore[no-any-return]


def decode(declared: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    return decoder(declared, version)(memoryview(data))


def encode(message: Message, version: int) -> list[Part]:
    return encoder(type(message), version)(message)


def encode_bytes(message: Message, version: int) -> bytes:
    """All parts in one, records read and copied: for stored records, tests and other slow roads."""
    parts = encode(message, version)
    if len(parts) == 1 and type(parts[0]) is bytes:
        return parts[0]
    return joined(parts)


def source_of(declared: type[Message], version: int) -> str:
    """The generated code of both directions, to read."""
    made = [codecs.name(declared, version) for codecs in (DECODERS, ENCODERS) if codecs[declared, version]]
    return "\n".join("".join(linecache.getlines(name)) for name in made)
