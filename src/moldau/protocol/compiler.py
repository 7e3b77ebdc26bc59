"""◇ Compiles a declared class and a version into one flat function that reads it, and one that writes it.

`decoder(cls, version)` and `encoder(cls, version)` write Python source on first use: no loop over fields, no test of the version,
neighbouring fields of fixed size in one `Struct` together with the length byte that follows them.  `linecache` holds the source, so
tracebacks and debuggers show it; `source_of` prints it.

Guarantees of a decoder: it reads the message and nothing behind it, or raises `DecodeError` with the field's path.  It checks a count or
length against the bytes left before it allocates memory of that size.  Records are views of the frame, never copies. Guarantees of an
encoder: tags ascend, tagged fields with their default stay out, a field that the version lacks must have its default unless it is
ignorable.  Records are parts of their own, by reference.  A value that cannot be written raises `EncodeError` with the path.

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
    """The codecs by (class, version); each is compiled when first asked for."""

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
    """The function that reads a whole body.  Errors of the function: DecodeError, and no other."""
    return DECODERS[declared, version]  # type: ignore[no-any-return]


def coordinator_record_decoder(declared: type[M], version: int) -> Callable[[memoryview], M]:
    """The function that reads a coordinator record's key or value and ignores bytes behind it.

    Errors of the function: DecodeError only.
    """
    return COORDINATOR_RECORD_DECODERS[declared, version]  # type: ignore[no-any-return]


def request_decoder(declared: type[M], version: int) -> Callable[[memoryview], M]:
    """The function that reads a request's body as Kafka does.

    Bytes behind the body are ignored: librdkafka 2.16 sends three bytes behind a Metadata v13.

    Unlike Kafka the function limits the number of elements to what a server can bear: 25 million empty topics fit into 100 MiB, and into
    15 GB of objects.  Errors of the function: DecodeError, and no other.
    """
    return REQUEST_DECODERS[declared, version]  # type: ignore[no-any-return]


def encoder(declared: type[M], version: int) -> Callable[[M], list[Part]]:
    """The function that writes a body.  Errors of the function: EncodeError.

    The result is one part.  With records it has several: the bytes before, the records, the bytes between, and so on.
    """
    return ENCODERS[declared, version]  # type: ignore[no-any-return]


def decode(declared: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    return decoder(declared, version)(memoryview(data))


def encode(message: Message, version: int) -> list[Part]:
    return encoder(type(message), version)(message)


def encode_bytes(message: Message, version: int) -> bytes:
    """A message as one bytes object.  Records are read and copied: use it for stored records, tests and other slow roads."""
    parts = encode(message, version)
    if len(parts) == 1 and type(parts[0]) is bytes:
        return parts[0]
    return joined(parts)


def source_of(declared: type[Message], version: int) -> str:
    """The generated code of the decoder and the encoder, for people to read."""
    made = [codecs.name(declared, version) for codecs in (DECODERS, ENCODERS) if codecs[declared, version]]
    return "\n".join("".join(linecache.getlines(name)) for name in made)
