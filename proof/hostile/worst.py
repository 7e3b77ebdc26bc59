"""◇ The worst requests of an API, made from its declaration: for each of its lists, a request with the most elements that fit into a frame.

    for worst in worst_requests(CreateTopicsRequest, version=7, size=1 << 20): worst.what, worst.request

In each request one list is as long as the frame and the decoder allow, and every list around it has one element.  Elements differ in their
first name or number, so that no work is done once for all of them.  One more request has the longest strings instead.  If the longest list
of short names does not fill the frame, longer names do: `name_length`.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.protocol.declared import Field, Struct
from moldau.protocol.decoding import RequestDecoding
from moldau.protocol.header import encode_request, size_of
from moldau.protocol.wire import Request

LONGEST_STRING: Final = 32_767
WIDTH: Final = 6
"""Characters of the number in a name by which names differ."""


class Worst(NamedTuple):
    what: str
    request: Request[Any]
    elements: int


def worst_requests(declared: type[Request[Any]], version: int, size: int, *, name_length: int = WIDTH + 1) -> Iterator[Worst]:
    """The worst requests, each of at most `size` bytes and at most as many elements as a request may have."""
    most = declared.MOST_ELEMENTS or RequestDecoding.most_elements or size
    text = "t" * (name_length - WIDTH)
    for path in lists_of(declared, version):
        few = [_made(declared, version, path, count, text=text) for count in (1, 2)]
        one, two = (size_in_bytes(request, version) for request in few)
        elements, more = (elements_of(request, version) for request in few)
        count = max(1, min((size - one) // max(1, two - one), (most - elements) // (more - elements)) + 1)
        yield Worst(".".join(path), _made(declared, version, path, count, text=text), count)
    yield Worst("long strings", _made(declared, version, (), 1, longest="x" * LONGEST_STRING), 1)


def size_in_bytes(request: Request[Any], version: int) -> int:
    return size_of(encode_request(request, version=version, correlation_id=1, client_id="worst"))


def elements_of(message: Struct, version: int) -> int:
    """The number of elements of all its lists."""
    count = 0
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.kind == "array" and value is not None and field.is_in(version):
            count += len(value)
        if field.struct is not None and value is not None and field.is_in(version):
            count += sum(elements_of(each, version) for each in (value if field.kind == "array" else (value,)))
    return count


def lists_of(declared: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    """The paths of field names that lead to each list."""
    for field in declared.FIELDS:
        if not field.is_in(version):
            continue
        if field.kind == "array":
            yield (field.name,)
        if field.struct is not None:
            yield from ((field.name, *below) for below in lists_of(field.struct, version))


def _made(
    declared: type[Any], version: int, path: tuple[str, ...], count: int, *, text: str = "t", longest: str = "", number: int = 0
) -> Any:
    """A message.  `number` makes it different from the others of its kind."""
    values = {}
    is_told_apart = number == 0
    for field in declared.FIELDS:
        if not field.is_in(version):
            continue
        wanted = 0 if is_told_apart else number
        below = path[1:] if path[:1] == (field.name,) else ()
        if field.kind == "array":
            length = count if path == (field.name,) else 1
            values[field.name] = [_element(field, version, below, count, text, longest, at) for at in range(length)]
        elif field.struct is not None:
            values[field.name] = _made(field.struct, version, below, count, text=text, longest=longest)
        else:
            values[field.name] = _plain(field.kind, wanted, text, longest)
            is_told_apart |= field.kind in ("string", "int32", "int64", "uuid")
    return declared(**values)


def _element(field: Field, version: int, path: tuple[str, ...], count: int, text: str, longest: str, number: int) -> Any:
    if field.struct is not None:
        return _made(field.struct, version, path, count, text=text, longest=longest, number=number)
    return _plain(str(field.element), number, text, longest)


def _plain(kind: str, number: int, text: str, longest: str) -> Any:
    if kind == "string":
        return longest or f"{text}{number:0{WIDTH}d}"
    if kind == "uuid":
        return UUID(int=(number << 64) + 1)
    if kind in ("bytes", "records"):
        return b""
    if kind == "boolean":
        return False
    if kind == "float64":
        return float(number)
    return number % 128 if kind == "int8" else number % 32_768 if kind in ("int16", "uint16") else number
