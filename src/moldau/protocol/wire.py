"""◇ The words that messages and stored records are declared with.

One class holds all versions of a message.  A field's word says how it lies on the wire, `versions` in which versions it is there, and the
type hint what Python code sees:

    @struct
    class PartitionProduceData:
        index: int = int32()
        records: Records | None = records(nullable="0+")

    @message(api_key=0, versions="3-13", flexible="9+")
    class ProduceRequest(Request["ProduceResponse"]):
        transactional_id: str | None = string("3+", nullable="3+", default=None)

Classes come out slotted, with keyword-only constructors that type checkers know.  A field that some version lacks, and every tagged
field, has a `default`; a field without one must be given.  A default list is fresh in every instance; a default struct is one shared,
read-only instance.  `unknown_tagged_fields` keeps what a newer peer sent, by tag, and is written back (KIP-482).

Version ranges are Kafka's: "3" only that one, "3-5" inclusive, "3+" and above.  `ignorable` fields are dropped in silence when the
version written lacks them; any other must then have its default, or encoding raises `EncodeError`.

`compiler` turns these declarations into codecs; `FIELDS` on each class is all it reads.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, Final, Generic, Never, TypeVar, dataclass_transform
from uuid import UUID

MAX_VERSION: Final = 0x7FFF
NO_VERSIONS: Final = range(0)
REQUIRED: Final[Any] = type("Required", (), {"__repr__": lambda _: "REQUIRED"})()


class DecodeError(ValueError):
    """Bytes that are not what they claim to be.  `path` leads to the field, e.g. `ProduceRequest.topic_data[0].name`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class EncodeError(ValueError):
    """A message that cannot be written in the version asked for.  `path` leads to the field."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@cache
def version_range(text: str) -> range:
    """`"3-5"` → range(3, 6); `"none"` is empty."""
    if text == "none":
        return NO_VERSIONS
    low, dash, high = text.partition("-")
    if dash:
        return range(int(low), int(high) + 1)
    if text.endswith("+"):
        return range(int(text[:-1]), MAX_VERSION + 1)
    return range(int(text), int(text) + 1)


class Field:
    """One declared field.  `element` is what an array holds or a nested struct is: a struct class, or the kind of a plain value."""

    __slots__ = ("about", "default", "element", "ignorable", "kind", "name", "nullable", "tag", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        nullable: str,
        *,
        tag: int | None,
        default: Any,
        ignorable: bool,
        about: str,
        element: "type[Struct] | str | None" = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.default = default
        self.ignorable = ignorable
        self.about = about
        self.element = element

    def __repr__(self) -> str:
        return f"{self.name}: {self.kind} {self.versions}"

    def is_in(self, version: int) -> bool:
        return version in version_range(self.versions)

    def is_nullable(self, version: int) -> bool:
        return version in version_range(self.nullable)

    @property
    def struct(self) -> "type[Struct] | None":
        return self.element if isinstance(self.element, type) else None


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


class Struct:
    """What every declared class has.  Instances compare by their fields and are not hashable, as they change."""

    __slots__ = ("unknown_tagged_fields",)
    __hash__ = None  # type: ignore[assignment]

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    unknown_tagged_fields: dict[int, bytes] | None

    def __init__(self, **values: Any) -> None:
        # Constructors are written when first called: most of the 600 classes never are.
        declared = type(self)
        declared.__init__ = constructor(declared)  # type: ignore[method-assign]
        declared.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if getattr(other, "FIELDS", None) is not self.FIELDS:
            return NotImplemented
        return all(mine == theirs for mine, theirs in zip(self._values(), other._values(), strict=True))  # type: ignore[attr-defined]

    def _values(self) -> Iterator[Any]:
        for field in self.FIELDS:
            yield getattr(self, field.name)
        yield self.unknown_tagged_fields

    def __repr__(self) -> str:
        """Only what is not the default."""
        shown = [(field.name, getattr(self, field.name)) for field in self.FIELDS if getattr(self, field.name) != field.default]
        if self.unknown_tagged_fields:
            shown.append(("unknown_tagged_fields", self.unknown_tagged_fields))
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in shown)})"


def _shown(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, memoryview | bytearray) else repr(value)


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
    """Which lists of the request a refusal repeats, each item with the error: `"topics.partitions -> responses.partitions"`."""


AnyResponse = TypeVar("AnyResponse", bound=Response)


class Request(Message, Generic[AnyResponse]):
    __slots__ = ()
    API_KEY: ClassVar[int]
    LISTENERS: ClassVar[tuple[str, ...]]
    """Who serves it: "broker", "controller" or both."""
    LATEST_IS_UNSTABLE: ClassVar[bool]
    """The highest version is not advertised unless unstable versions are asked for."""
    RESPONSE: ClassVar[type[Response]]

    def refused(self, code: int, message: str | None = None) -> AnyResponse:
        """The response that says `code` to everything this request asked for, in any version.

        The error stands on top where the response has a place for it, and on every item where the response answers item by item.
        Source: getErrorResponse of each org.apache.kafka.common.requests class.
        """
        response: Any = refusal(self.RESPONSE, code, message)
        for echo in self.RESPONSE.ECHOES:
            asked, answered = (side.split(".") for side in echo.split(" -> "))
            getattr(response, answered[0]).extend(_echoed(self, self.RESPONSE, (asked, answered), code, message))
        return response  # type: ignore[no-any-return]


class StoredRecord(Message):
    """A record's key or value in an internal topic, or any other message that is stored."""

    __slots__ = ()
    RECORD_TYPE: ClassVar[int | None]
    """Which kind of record it is among those of its topic; None where nothing else shares its place."""


S = TypeVar("S")


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, uint32, float64, boolean, uuid, string, bytes_, records, array, nested),
)
def struct(declared: type[S]) -> type[S]:
    """A part of a message."""
    return _slotted(declared, (Struct,))


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
    response_to: type[Request[Any]] | None = None,
    echoes: tuple[str, ...] = (),
) -> Callable[[type[S]], type[S]]:
    """A request names its key and versions, a response only the request it answers."""

    def declare(declared: type[S]) -> type[S]:
        made: Any = _slotted(declared, declared.__bases__)
        if response_to is not None:
            made.REQUEST, made.ECHOES = response_to, echoes
            made.VERSIONS, made.FLEXIBLE = response_to.VERSIONS, response_to.FLEXIBLE
            response_to.RESPONSE = made
        else:
            assert api_key >= 0 and versions, f"{declared.__name__} needs its api_key and versions"
            made.API_KEY, made.LISTENERS, made.LATEST_IS_UNSTABLE = api_key, listeners, latest_is_unstable
            made.VERSIONS, made.FLEXIBLE = version_range(versions), version_range(flexible)
        return made  # type: ignore[no-any-return]

    return declare


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, uint32, float64, boolean, uuid, string, bytes_, records, array, nested),
)
def record(*, record_type: int | None = None, versions: str, flexible: str = "none") -> Callable[[type[S]], type[S]]:
    """Something stored, with its number among the records it lives with."""

    def declare(declared: type[S]) -> type[S]:
        made: Any = _slotted(declared, declared.__bases__)
        made.RECORD_TYPE, made.VERSIONS, made.FLEXIBLE = record_type, version_range(versions), version_range(flexible)
        return made  # type: ignore[no-any-return]

    return declare


def _slotted(declared: type[S], bases: tuple[type, ...]) -> type[S]:
    """The same class with its fields as slots, which only a new class can have."""
    namespace = dict(vars(declared))
    fields = []
    for name in namespace.get("__annotations__", ()):
        field = namespace.pop(name)
        field.name = name
        if isinstance(field.default, Struct):
            field.default = read_only(field.default)
        fields.append(field)
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["__slots__"] = tuple(field.name for field in fields)
    namespace["FIELDS"] = tuple(fields)
    made: Any = type(declared.__name__, bases, namespace)
    return made  # type: ignore[no-any-return]


def constructor(declared: type[Struct]) -> Callable[..., None]:
    """`__init__` with a keyword for each field."""
    defaults: dict[str, Any] = {}
    signature, body = ["self", "*"], ["self.unknown_tagged_fields = unknown_tagged_fields"]
    for field in declared.FIELDS:
        name = field.name
        if field.default is REQUIRED:
            signature.append(name)
        else:
            defaults[f"_{name}"] = field.default
            signature.append(f"{name}=_{name}")
        fresh = f"[] if {name} is _{name} else " if isinstance(field.default, list) else ""
        body.append(f"self.{name} = {fresh}{name}")
    signature.append("unknown_tagged_fields=None")
    exec(f"def __init__({', '.join(signature)}):\n " + "\n ".join(body), defaults)
    made: Callable[..., None] = defaults["__init__"]
    made.__qualname__ = f"{declared.__qualname__}.__init__"
    return made


def blank(declared: type[S]) -> S:
    """An instance with every field at its default, or where it has none at zero, empty or null."""
    assert issubclass(declared, Struct)
    return declared(**{field.name: _zero(field) for field in declared.FIELDS if field.default is REQUIRED})


ZEROS: Final = {"boolean": False, "string": "", "bytes": b"", "records": b"", "float64": 0.0, "uuid": UUID(int=0)}


def _zero(field: Field) -> Any:
    if field.kind == "array":
        return []
    if field.struct is not None:
        return blank(field.struct)
    return ZEROS.get(field.kind, 0)


IDENTITIES: Final = frozenset(
    (
        *("name", "topic", "topic_id", "topic_name", "partition", "partition_index", "index"),
        *("group_id", "transactional_id", "producer_id", "resource_type", "resource_name", "entity", "user"),
    )
)
ALIASES: Final = {"partition_index": "partition", "topic_name": "name", "user": "name"}
"""What names an item in a response, and how a request calls it where it differs."""
ERROR_CODES: Final = frozenset(("error_code", "partition_error_code"))
UNKNOWN: Final = frozenset(("base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"))
"""-1 in a refusal, as zero would mean something."""


def refusal(declared: type[Struct], code: int, message: str | None) -> Any:
    """A blank `declared` with its error set."""
    refused = blank(declared)
    for field in declared.FIELDS:
        if field.name in ERROR_CODES:
            setattr(refused, field.name, code)
        elif field.name == "error_message" and (field.ignorable or field.versions == "0+"):
            setattr(refused, field.name, message)
        elif field.name in UNKNOWN:
            setattr(refused, field.name, -1)
    return refused


def _echoed(asker: Any, answer: type[Struct], path: tuple[list[str], list[str]], code: int, message: str | None) -> list[Any]:
    """The items of `asker` under the first path, as refused items of `answer` under the second."""
    asked, answered = path
    item_class = next(field.struct for field in answer.FIELDS if field.name == answered[0])
    assert item_class is not None, f"{answer.__name__}.{answered[0]} holds no structs to carry an error"
    echoed = []
    for item in getattr(asker, asked[0]) or ():
        refused = refusal(item_class, code, message)
        for field in item_class.FIELDS:
            if not isinstance(item, Struct):
                if field.name not in ERROR_CODES and field.name != "error_message":
                    setattr(refused, field.name, item)  # a plain value is its own name, and stands first
                    break
            elif field.name in IDENTITIES:
                source = field.name if hasattr(item, field.name) else ALIASES.get(field.name, "")
                if hasattr(item, source):
                    setattr(refused, field.name, getattr(item, source))
        if len(asked) > 1:
            setattr(refused, answered[1], _echoed(item, item_class, (asked[1:], answered[1:]), code, message))
        echoed.append(refused)
    return echoed


def _refuse_change(self: Struct, name: str, value: object) -> Never:
    raise AttributeError(f"this {type(self).__name__} is a default that others share: make a new one to set {name}")


def read_only(instance: Struct) -> Struct:
    """The instance, closed to changes: a default that all share must stay what it is."""
    declared = type(instance)
    if declared.__setattr__ is _refuse_change:
        return instance
    namespace = {
        "__slots__": (),
        "__module__": declared.__module__,
        "__setattr__": _refuse_change,
        "__copy__": lambda self: self,
        "__deepcopy__": lambda self, memo: self,
    }
    closed = type(declared.__name__, (declared,), namespace)
    object.__setattr__(instance, "__class__", closed)
    return instance
