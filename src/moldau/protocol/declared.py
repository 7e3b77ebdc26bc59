"""◇ The parts of a declared class: its fields, its slots, its constructor.  `wire` holds the words to declare a class with."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, Final, Never, TypeVar
from uuid import UUID

S = TypeVar("S")

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


class FieldAbsent(EncodeError):
    """A value for a field that the version asked for does not have."""


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
    """One declared field.

    `element` is the type of an array's items or of a nested struct: a struct class, or the kind of a plain value.
    """

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


class Struct:
    """The base of every declared class.  Instances compare by their fields.  They are not hashable, because they change."""

    __slots__ = ("unknown_tagged_fields",)
    __hash__ = None  # type: ignore[assignment]

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    unknown_tagged_fields: dict[int, bytes] | None

    def __init__(self, **values: Any) -> None:
        # A constructor is written when it is first called: most of the 600 classes are never made.
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
        """The fields that differ from their defaults."""
        shown = [(field.name, getattr(self, field.name)) for field in self.FIELDS if getattr(self, field.name) != field.default]
        if self.unknown_tagged_fields:
            shown.append(("unknown_tagged_fields", self.unknown_tagged_fields))
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in shown)})"


def _shown(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, memoryview | bytearray) else repr(value)


def slotted(declared: type[S], bases: tuple[type, ...]) -> type[S]:
    """The same class with its fields as slots.  Only a new class can have them."""
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
    """The `__init__` of a class, with a keyword for each field."""
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
    """An instance with every field at its default.  A field without a default is zero, empty or null."""
    assert issubclass(declared, Struct)
    return declared(**{field.name: _zero(field) for field in declared.FIELDS if field.default is REQUIRED})


ZEROS: Final = {"boolean": False, "string": "", "bytes": b"", "records": b"", "float64": 0.0, "uuid": UUID(int=0)}


def _zero(field: Field) -> Any:
    if field.kind == "array":
        return []
    if field.struct is not None:
        return blank(field.struct)
    return ZEROS.get(field.kind, 0)


def _refuse_change(self: Struct, name: str, value: object) -> Never:
    raise AttributeError(f"this {type(self).__name__} is a default that others share: make a new one to set {name}")


def read_only(instance: Struct) -> Struct:
    """The instance, closed to changes: a default that all instances share must not change."""
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
