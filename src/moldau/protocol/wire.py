"""◇ The words that messages and stored records are declared with.

One class holds all versions of a message.  A field's word says how it lies on the wire, `versions` lists the versions that have it, and the
type hint is what Python code sees:

    @struct
    class PartitionProduceData:
        index: int = int32()
        records: Records | None = records(nullable="0+")

    @message(api_key=0, versions="3-13", flexible="9+")
    class ProduceRequest(Request["ProduceResponse"]):
        transactional_id: str | None = string("3+", nullable="3+", default=None)

Classes come out slotted, with keyword-only constructors that type checkers know.  A field that some version lacks, and every tagged
field, has a `default`; a field without one must be given.  A default list is fresh in every instance; a default struct is one shared,
read-only instance.  `unknown_tagged_fields` keeps the unknown fields of a newer peer, by tag; they are written back (KIP-482).

Version ranges are Kafka's: "3" only that one, "3-5" inclusive, "3+" and above.  `ignorable` fields are dropped in silence when the
version written lacks them; any other must then have its default, or encoding raises `EncodeError`.

`compiler` turns these declarations into codecs; `FIELDS` on each class is all it reads.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

from moldau.protocol.declared import NO_VERSIONS, REQUIRED, DecodeError, EncodeError, Field, Struct, blank, slotted, version_range
from moldau.protocol.refusal import echoed_items, refusal

__all__ = ["AnyResponse", "DecodeError", "EncodeError", "Field", "Message", "Request", "Response", "StoredRecord", "Struct", "blank"]
__all__ += ["array", "boolean", "bytes_", "float64", "int8", "int16", "int32", "int64", "message", "nested", "record", "records"]
__all__ += ["string", "struct", "uint16", "uint32", "uuid"]

S = TypeVar("S")


def _word(kind: str) -> Callable[..., Any]:
    def word(
        versions: str = "0+",
        *,
        nullable: str = "none",
        tag: int | None = None,
        default: Any = REQUIRED,
        ignorable: bool = False,
        about: str = "",
    ) -> Any:
        return Field(kind, versions, nullable, tag=tag, default=default, ignorable=ignorable, about=about)

    word.__name__ = word.__qualname__ = kind
    return word


int8 = _word("int8")
int16 = _word("int16")
int32 = _word("int32")
int64 = _word("int64")
uint16 = _word("uint16")
uint32 = _word("uint32")
float64 = _word("float64")
boolean = _word("boolean")
uuid = _word("uuid")
string = _word("string")
bytes_ = _word("bytes")
records = _word("records")
"""Bytes of record batches: a view of the frame when decoded; when encoded a part of its own, by reference."""


def array(
    element: "type[Any] | Callable[..., Any]",
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: Any = REQUIRED,
    ignorable: bool = False,
    about: str = "",
) -> Any:
    """A list of structs, or of plain values: `array(PartitionProduceData)`, `array(int32)`."""
    of = element if isinstance(element, type) else element.__name__
    return Field("array", versions, nullable, tag=tag, default=default, ignorable=ignorable, about=about, element=of)


def nested(
    element: "type[Any]",
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: Any = REQUIRED,
    ignorable: bool = False,
    about: str = "",
) -> Any:
    """One struct inside another."""
    return Field("struct", versions, nullable, tag=tag, default=default, ignorable=ignorable, about=about, element=element)


class Message(Struct):
    """A struct that stands alone: request, response or stored record."""

    __slots__ = ()
    VERSIONS: ClassVar[range] = NO_VERSIONS
    FLEXIBLE: ClassVar[range] = NO_VERSIONS
    """Versions with compact lengths and tagged fields (KIP-482)."""


class Response(Message):
    __slots__ = ()
    REQUEST: ClassVar[type["Request[Any]"]]
    ECHOES: ClassVar[tuple[str, ...]] = ()
    """The lists of the request that a refusal repeats, each item with the error: `"topics.partitions -> responses.partitions"`."""


AnyResponse = TypeVar("AnyResponse", bound=Response)


class Request(Message, Generic[AnyResponse]):
    __slots__ = ()
    API_KEY: ClassVar[int]
    LISTENERS: ClassVar[tuple[str, ...]]
    """The servers of this API: "broker", "controller" or both."""
    LATEST_IS_UNSTABLE: ClassVar[bool]
    """The highest version is not advertised unless unstable versions are asked for."""
    MOST_ELEMENTS: ClassVar[int | None]
    """The most elements of all lists of one request together, for a request with a lower limit than others."""
    RESPONSE: ClassVar[type[Response]]

    def refused(self, code: int, message: str | None = None) -> AnyResponse:
        """The response that answers every part of this request with `code`, in any version.

        The error stands on top where the response has a place for it, and on every item where the response answers item by item.
        Source: getErrorResponse of each org.apache.kafka.common.requests class.
        """
        response: Any = refusal(self.RESPONSE, code, message)
        for echo in self.RESPONSE.ECHOES:
            asked, answered = (side.split(".") for side in echo.split(" -> "))
            getattr(response, answered[0]).extend(echoed_items(self, self.RESPONSE, (asked, answered), code, message))
        return response  # type: ignore[no-any-return]


class StoredRecord(Message):
    """A record's key or value in an internal topic, or any other message that is stored."""

    __slots__ = ()
    RECORD_TYPE: ClassVar[int | None]
    """The record's type number among those of its topic; None if the topic has no other type."""


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, uint32, float64, boolean, uuid, string, bytes_, records, array, nested),
)
def struct(declared: type[S]) -> type[S]:
    """A part of a message."""
    return slotted(declared, (Struct,))


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, uint32, float64, boolean, uuid, string, bytes_, records, array, nested),
)
def message(
    *,
    api_key: int = -1,
    versions: str = "",
    flexible: str = "none",
    listeners: tuple[str, ...] = ("broker",),
    latest_is_unstable: bool = False,
    most_elements: int | None = None,
    response_to: type[Request[Any]] | None = None,
    echoes: tuple[str, ...] = (),
) -> Callable[[type[S]], type[S]]:
    """Declare a request or a response.  A request names its key and versions; a response names only its request."""

    def declare(declared: type[S]) -> type[S]:
        made: Any = slotted(declared, declared.__bases__)
        if response_to is not None:
            made.REQUEST, made.ECHOES = response_to, echoes
            made.VERSIONS, made.FLEXIBLE = response_to.VERSIONS, response_to.FLEXIBLE
            response_to.RESPONSE = made
        else:
            assert api_key >= 0 and versions, f"{declared.__name__} needs its api_key and versions"
            made.API_KEY, made.LISTENERS, made.LATEST_IS_UNSTABLE = api_key, listeners, latest_is_unstable
            made.MOST_ELEMENTS = most_elements
            made.VERSIONS, made.FLEXIBLE = version_range(versions), version_range(flexible)
        return made  # type: ignore[no-any-return]

    return declare


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, uint32, float64, boolean, uuid, string, bytes_, records, array, nested),
)
def record(*, record_type: int | None = None, versions: str, flexible: str = "none") -> Callable[[type[S]], type[S]]:
    """Declare a stored record, with its type number among those of its log."""

    def declare(declared: type[S]) -> type[S]:
        made: Any = slotted(declared, declared.__bases__)
        made.RECORD_TYPE, made.VERSIONS, made.FLEXIBLE = record_type, version_range(versions), version_range(flexible)
        return made  # type: ignore[no-any-return]

    return declare
