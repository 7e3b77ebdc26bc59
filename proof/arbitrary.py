"""◇ Hypothesis strategies for every declared message and stored record, derived from the declarations alone.

`arbitrary(cls, version)` draws instances with values in the fields of that version and defaults in all others.  Lengths lie around the
places where the wire changes form (127 and 128 bytes).  The module needs `hypothesis`, which only the `dev` extra brings.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st

from moldau.protocol.wire import Field, Message, Struct

S = TypeVar("S", bound=Struct)
Plain: TypeAlias = Callable[[str, Field], st.SearchStrategy[Any]]

UNKNOWN_TAGS = st.none() | st.dictionaries(st.integers(10_000, 2**31), st.binary(max_size=5), min_size=1, max_size=2)

_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "string": st.text(max_size=8) | st.sampled_from(["a" * 126, "b" * 127, "ü" * 200]),
    "bytes": st.binary(max_size=8) | st.sampled_from([b"c" * 126, b"d" * 127, b"e" * 300]),
    "records": st.binary(max_size=70).map(memoryview),
}


def plain(kind: str, field: Field) -> st.SearchStrategy[Any]:
    """Any value that the wire can carry."""
    return _PLAIN[kind]


_made: dict[tuple[type[Struct], int, bool, Plain, bool], st.SearchStrategy[Any]] = {}


def _struct(declared: type[Struct], version: int, flexible: bool, plain: Plain, unknown_tags: bool) -> st.SearchStrategy[Any]:
    key = (declared, version, flexible, plain, unknown_tags)
    if key in _made:
        return _made[key]
    fields = {field.name: _field(field, version, flexible, plain, unknown_tags) for field in declared.FIELDS if field.is_in(version)}
    if flexible and unknown_tags:
        fields["unknown_tagged_fields"] = UNKNOWN_TAGS
    _made[key] = st.builds(declared, **fields)
    return _made[key]


def _field(field: Field, version: int, flexible: bool, plain: Plain, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        value = _struct(field.struct, version, flexible, plain, unknown_tags)
    else:
        value = plain(field.element if isinstance(field.element, str) else field.kind, field)
    if field.kind == "array":
        value = st.lists(value, max_size=2)
    if field.tag is not None:
        value = st.just(field.default) | value
    return st.none() | value if field.is_nullable(version) else value


def arbitrary(declared: type[S], version: int, *, plain: Plain = plain, unknown_tags: bool = True) -> st.SearchStrategy[S]:
    """Instances of a declared struct.  `plain(kind, field)` draws plain values, for peers that know fewer values than the wire."""
    assert issubclass(declared, Message)
    return _struct(declared, version, version in declared.FLEXIBLE, plain, unknown_tags)
