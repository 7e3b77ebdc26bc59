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
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, TracebackType
from typing import Any, Final, TypeVar
from uuid import UUID, SafeUUID

from moldau.protocol.wire import REQUIRED, DecodeError, EncodeError, Field, Message, Struct
from moldau.types import Part

M = TypeVar("M", bound=Message)

SCALARS: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "float64": "d", "boolean": "?"}
SIZES: Final = {kind: struct.calcsize(">" + code) for kind, code in SCALARS.items()} | {"uuid": 16}
MAX_STRING: Final = 0x7FFF
"""Bytes of UTF-8, in both forms of a length: Kafka refuses longer ones."""
REMEMBERED_LENGTHS: Final = 4096


class Refused(ValueError):
    """Raised by generated code and what it calls; `explain` adds the path."""


FAILURES: Final = (Refused, struct.error, IndexError, UnicodeError)
UNWRITABLE: Final = (Refused, struct.error, AttributeError, TypeError, UnicodeError, OverflowError)


# What generated code calls.  ------------------------------------------------------------------------------------------------------


def read_varint(data: memoryview, position: int) -> tuple[int, int]:  # hot: 0.2 µs
    """An unsigned varint and where it ends."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    byte = data[position + 1]
    value = value & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, position + 2
    byte = data[position + 2]
    value |= (byte & 0x7F) << 14
    if byte < 0x80:
        return value, position + 3
    byte = data[position + 3]
    value |= (byte & 0x7F) << 21
    if byte < 0x80:
        return value, position + 4
    byte = data[position + 4]
    if byte > 0x0F:
        raise Refused("a varint is longer than 32 bits")
    return value | byte << 28, position + 5


def write_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Lengths(dict[int, bytes]):
    """Compact length → its varint, which is one more since zero means null."""

    def __init__(self, limit: int) -> None:
        super().__init__({length: write_varint(length + 1) for length in range(256)})
        self.limit = limit

    def __missing__(self, length: int) -> bytes:
        if length > self.limit:
            raise Refused(f"{length} bytes are more than the {self.limit} allowed")
        written = write_varint(length + 1)
        if len(self) < REMEMBERED_LENGTHS:
            self[length] = written
        return written


STRING_LENGTHS: Final = Lengths(MAX_STRING)
LENGTHS: Final = Lengths(0xFFFFFFFE)


def refuse_length(length: int, left: int) -> None:
    if length < 0:
        raise Refused("null is not allowed here" if length == -1 else f"a length of {length} is negative")
    raise Refused(f"{length} bytes are named and {left} are left")


def refuse_count(count: int, left: int, smallest: int) -> None:
    if count < 0:
        raise Refused("null is not allowed here" if count == -1 else f"a count of {count} is negative")
    raise Refused(f"{count} elements of at least {smallest} bytes are named and {left} bytes are left")


def refuse_string(length: int) -> None:
    raise Refused(f"{length} bytes are more than the {MAX_STRING} allowed")


def refuse_trailing(position: int, end: int) -> None:
    raise Refused(f"{end - position} bytes are left behind its end")


def refuse_absent(value: object, version: int) -> None:
    raise Refused(f"version {version} has no such field, so it cannot carry {value!r}")


_set_int: Final = UUID.__dict__["int"].__set__
_set_is_safe: Final = UUID.__dict__["is_safe"].__set__


def read_uuid(raw: bytes, new: Any = UUID.__new__, kind: Any = UUID, unknown: Any = SafeUUID.unknown) -> UUID:
    """`UUID(bytes=raw)`, four times as fast: its slots are set without its argument checks."""
    value = new(kind)
    _set_int(value, int.from_bytes(raw, "big"))
    _set_is_safe(value, unknown)
    return value  # type: ignore[no-any-return]


def write_tags(known: list[tuple[int, bytes]], unknown: dict[int, bytes] | None) -> bytes:
    """The tagged fields section: count, then tag, size and bytes of each in ascending order."""
    fields = dict(known)
    for tag, value in (unknown or {}).items():
        if tag in fields:
            raise Refused(f"tag {tag} is a known field and an unknown one at once")
        fields[tag] = value
    out = [write_varint(len(fields))]
    for tag, value in sorted(fields.items()):
        out += (write_varint(tag), write_varint(len(value)), value)
    return b"".join(out)


def check_tag_count(count: int, left: int) -> None:
    if count > left // 2:
        refuse_count(count, left, 2)


# Sources.  ------------------------------------------------------------------------------------------------------------------------


class Source:
    """Lines of one generated module, each with the path of the field it is about."""

    def __init__(self, name: str, declared: type[Struct], version: int, flexible: bool) -> None:
        self.name = name
        self.declared = declared
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.paths: list[list[tuple[str, str]]] = []
        """For each line the fields it is about, and for each but a lone one an expression that fails if that field does."""
        self.depth = 0
        self.names: dict[str, Any] = {"new": object.__new__, "join": b"".join, "Refused": Refused, "version": version}
        self.path: list[str] = []
        self.functions: list[Callable[[], None]] = []
        self.serial = 0

    def line(self, text: str, about: list[tuple[str, str]] | None = None) -> None:
        self.lines.append("    " * self.depth + text)
        self.paths.append(about or [(self.here, "")])

    @property
    def here(self) -> str:
        return "".join(self.path)

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        self.line(text)
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def within(self, path: str) -> Iterator[None]:
        self.path.append(path)
        yield
        self.path.pop()

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def bind(self, prefix: str, value: Any) -> str:
        """A name for `value` in the generated module, the same one for the same value."""
        for name, bound in self.names.items():
            if bound is value and name.startswith(prefix):
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def bind_struct(self, codes: str, method: str) -> str:
        packer = _struct(">" + codes)
        name = "s_" + codes.replace("?", "t") + ("_u" if method == "unpack_from" else "_p")
        self.names[name] = getattr(packer, method)
        return name

    def make(self) -> Any:
        while self.functions:
            self.functions.pop(0)()
        text = "\n".join(self.lines) + "\n"
        linecache.cache[self.name] = (len(text), None, text.splitlines(keepends=True), self.name)
        exec(compile(text, self.name, "exec"), self.names)
        return self.names["run"]


@cache
def _struct(layout: str) -> struct.Struct:
    return struct.Struct(layout)


def explain(error: BaseException, source: Source) -> tuple[str, str]:
    """Where in the message the generated code stopped, and why."""
    path = source.declared.__name__
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        code: CodeType = trace.tb_frame.f_code
        if code.co_filename == source.name:
            values = dict(trace.tb_frame.f_locals)
            path += _indexed(_culprit(source.paths[trace.tb_lineno - 1], source.names, values), values)
        trace = trace.tb_next
    reason = str(error) or type(error).__name__
    if isinstance(error, IndexError) or (isinstance(error, struct.error) and "unpack" in reason):
        reason = "the bytes end inside it"
    elif isinstance(error, UnicodeDecodeError):
        reason = f"not UTF-8: {error.reason}"
    return path, reason


def _culprit(about: list[tuple[str, str]], names: dict[str, Any], values: dict[str, Any]) -> str:
    """Which field of a line failed: the first whose own part of the work fails again."""
    for path, attempt in about[:-1]:
        try:
            eval(attempt, names, values)
        except Exception:
            return path
    return about[-1][0]


def _indexed(path: str, values: dict[str, Any]) -> str:
    """Fills a path's `[i3]` with the loop's counter, and `[x4 of a4]` with where the item is in its list."""
    pieces = path.split("[")
    for number, piece in enumerate(pieces[1:], 1):
        name, rest = piece.split("]", 1)
        item, of, items = name.partition(" of ")
        index = values.get(item)
        if of:
            index = next((at for at, one in enumerate(values.get(items) or ()) if one is index), "?")
        pieces[number] = f"{'?' if index is None else index}]{rest}"
    return "[".join(pieces)


def default_of(field: Field, source: Source) -> str:
    """The expression for the default of a field that this version lacks."""
    assert field.default is not REQUIRED, f"{source.declared.__name__} v{source.version}: {field.name} is not in it and has no default"
    if isinstance(field.default, list):
        return "[]"
    if field.default is None or isinstance(field.default, int | float | str | bytes):
        return repr(field.default)
    return source.bind("d", field.default)


def smallest(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes an untagged field takes."""
    if field.kind in SIZES:
        return SIZES[field.kind]
    if field.kind == "struct":
        assert field.struct is not None
        return 1 if field.is_nullable(version) else smallest_struct(field.struct, version, flexible)
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def smallest_struct(declared: type[Struct], version: int, flexible: bool) -> int:
    present = [field for field in declared.FIELDS if field.is_in(version) and field.tag is None]
    return sum(smallest(field, version, flexible) for field in present) + flexible


def length_code(kind: str, flexible: bool) -> str:
    """How a length lies on the wire: one byte of a varint (more may follow), or fixed."""
    return "B" if flexible else "h" if kind == "string" else "i"


# Decoders.  -----------------------------------------------------------------------------------------------------------------------


class Decoding:
    """Writes the statements that read one message.  Fixed-size reads wait in `group` until something needs their values."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.version = source.version
        self.flexible = source.flexible
        self.group: list[tuple[str, str]] = []
        self.about: list[tuple[str, str]] = []
        self.after: list[str] = []
        source.names |= {
            "read_varint": read_varint,
            "read_uuid": read_uuid,
            "refuse_length": refuse_length,
            "refuse_count": refuse_count,
            "refuse_string": refuse_string,
            "refuse_trailing": refuse_trailing,
            "check_tag_count": check_tag_count,
            "unpack": struct.unpack_from,
        }

    def write(self) -> None:
        source = self.source
        source.names["FAILURES"], source.names["fail"] = FAILURES, self.fail
        with source.block("def run(data):"):
            source.line("end = len(data); p = 0")
            with source.block("try:"):
                self.struct(source.declared, "o")
                source.line("if p != end: refuse_trailing(p, end)")
                source.line("return o")
            with source.block("except FAILURES as error:"):
                source.line("raise fail(error) from None")

    def fail(self, error: BaseException) -> DecodeError:
        return DecodeError(*explain(error, self.source))

    def read(self, target: str, code: str) -> None:
        self.group.append((target, code))
        codes = "".join(code for _, code in self.group)
        self.about.append((self.source.here, f"unpack('>{codes}', data, p)"))

    def flush(self) -> None:
        source = self.source
        codes = "".join(code for _, code in self.group)
        if codes == "B":
            source.line(f"{self.group[0][0]} = data[p]; p += 1", self.about)
        elif codes:
            targets = ", ".join(target for target, _ in self.group) + ("," if len(self.group) == 1 else "")
            unpack = source.bind_struct(codes, "unpack_from")
            source.line(f"{targets} = {unpack}(data, p); p += {struct.calcsize('>' + codes)}", self.about)
        for line in self.after:
            source.line(line)
        self.group, self.about, self.after = [], [], []

    def struct(self, declared: type[Struct], target: str) -> None:
        """Reads one struct into the local `target`."""
        source = self.source
        source.line(f"{target} = new({source.bind(declared.__name__, declared)})")
        tagged = []
        for field in declared.FIELDS:
            if field.is_in(self.version) and field.tag is None:
                with source.within(f".{field.name}"):
                    self.field(field, f"{target}.{field.name}")
            else:
                tagged += [field] if field.is_in(self.version) else []
        if self.flexible:
            self.read("n", "B")
        self.flush()
        for field in declared.FIELDS:
            if field.tag is not None or not field.is_in(self.version):
                source.line(f"{target}.{field.name} = {default_of(field, source)}")
        source.line(f"{target}.unknown_tagged_fields = None")
        if self.flexible:
            source.line(f"if n: p = {self.tags(declared, tagged)}(data, p, end, n, {target})")

    def field(self, field: Field, target: str) -> None:
        if field.kind in SCALARS:
            self.read(target, SCALARS[field.kind])
        elif field.kind == "uuid":
            raw = self.source.fresh("u")
            self.read(raw, "16s")
            self.after.append(f"{target} = read_uuid({raw})")
        elif field.kind == "struct":
            self.nested(field, target)
        else:
            self.read("n", length_code(field.kind, self.flexible))
            self.flush()
            if field.kind == "array":
                self.array(field, target)
            else:
                self.sized(field.kind, target, field.is_nullable(self.version))

    def nested(self, field: Field, target: str) -> None:
        source = self.source
        assert field.struct is not None
        local = source.fresh("o")
        if field.is_nullable(self.version):
            self.read("n", "b")
            self.flush()
            with source.block("if n < 0:"):
                source.line("if n != -1: raise Refused(f'{n} is neither null nor a struct')")
                source.line(f"{target} = None")
            with source.block("else:"):
                self.struct(field.struct, local)
                source.line(f"{target} = {local}")
        else:
            self.flush()
            self.struct(field.struct, local)
            source.line(f"{target} = {local}")

    def sized(self, kind: str, target: str, nullable: bool) -> None:
        """Reads a string, bytes or records; `n` holds its length, or its length and one in compact form."""
        source = self.source
        if self.flexible:
            source.line("if n > 127: n, p = read_varint(data, p - 1)")
        null = 0 if self.flexible else -1
        if nullable:
            with source.block(f"if n == {null}:"):
                source.line(f"{target} = None")
        with source.block("else:") if nullable else _no_block():
            if kind == "string" and self.flexible:
                source.line(f"if n > {MAX_STRING + 1}: refuse_string(n - 1)")
            ends, length = ("p + n - 1", "n - 1") if self.flexible else ("p + n", "n")
            source.line(f"if n < {null + 1} or (e := {ends}) > end: refuse_length({length}, end - p)")
            taken = {"string": "str(data[p:e], 'utf-8')", "bytes": "bytes(data[p:e])", "records": "data[p:e]"}[kind]
            source.line(f"{target} = {taken}; p = e")

    def array(self, field: Field, target: str) -> None:
        """Reads a list; `n` holds its count, or its count and one in compact form."""
        source = self.source
        nullable = field.is_nullable(self.version)
        if self.flexible:
            source.line("if n > 127: n, p = read_varint(data, p - 1)")
            source.line("n -= 1")
        size = element_size(field, self.version, self.flexible)
        if nullable:
            with source.block("if n == -1:"):
                source.line(f"{target} = None")
        with source.block("else:") if nullable else _no_block():
            check = f"if n < 0 or n {f'* {size} ' if size > 1 else ''}> end - p: refuse_count(n, end - p, {size})"
            if isinstance(field.element, str) and field.element in SCALARS:
                source.line(check)
                source.line(f"{target} = list(unpack(f'>{{n}}{SCALARS[field.element]}', data, p)) if n else []; p += n * {size}")
                return
            items, index = source.fresh("a"), source.fresh("i")
            source.line(f"{target} = {items} = []")
            with source.block("if n:"):
                source.line(check)
                with source.within(f"[{index}]"), source.block(f"for {index} in range(n):"):
                    self.element(field, items)

    def element(self, field: Field, items: str) -> None:
        source = self.source
        if field.struct is not None:
            item = source.fresh("o")
            self.struct(field.struct, item)
            source.line(f"{items}.append({item})")
        elif field.element == "uuid":
            source.line(f"{items}.append(read_uuid(data[p:p + 16])); p += 16")
        else:
            assert field.element in ("string", "bytes")
            self.read("n", length_code(field.element, self.flexible))
            self.flush()
            self.sized(field.element, "item", False)
            source.line(f"{items}.append(item)")

    def tags(self, declared: type[Struct], tagged: list[Field]) -> str:
        """The name of a function that reads a struct's tagged fields: `(data, p, end, count, struct) → p`."""
        name = self.source.fresh("tags")
        self.source.functions.append(lambda: self.write_tags(name, declared, tagged))
        return name

    def write_tags(self, name: str, declared: type[Struct], tagged: list[Field]) -> None:
        source = self.source
        with source.block(f"def {name}(data, p, frame_end, n, o):"):
            source.line("if n > 127: n, p = read_varint(data, p - 1)")
            source.line("check_tag_count(n, frame_end - p)")
            with source.block("for _ in range(n):"):
                source.line("tag, p = read_varint(data, p)")
                source.line("size, p = read_varint(data, p)")
                source.line("end = p + size")
                source.line("if end > frame_end: refuse_length(size, frame_end - p)")
                word = "if"
                for field in tagged:
                    with source.within(f".{field.name}"), source.block(f"{word} tag == {field.tag}:"):
                        self.tagged(field)
                        source.line("if p != end: raise Refused(f'its tag names {size} bytes and it ends elsewhere')")
                    word = "elif"
                for field in declared.FIELDS:
                    if field.tag is not None and not field.is_in(self.version):
                        with source.within(f".{field.name}"), source.block(f"{word} tag == {field.tag}:"):
                            source.line(f"raise Refused('version {self.version} has no such field')")
                        word = "elif"
                with source.block("else:") if word == "elif" else _no_block():
                    source.line("if o.unknown_tagged_fields is None: o.unknown_tagged_fields = {}")
                    source.line("o.unknown_tagged_fields[tag] = bytes(data[p:end]); p = end")
            source.line("return p")

    def tagged(self, field: Field) -> None:
        """A tagged value reads like any other, but a nullable struct says so by an unsigned byte."""
        source = self.source
        if field.kind == "struct" and field.is_nullable(self.version):
            assert field.struct is not None
            source.line("n, p = read_varint(data, p)")
            source.line(f"if n == 0: o.{field.name} = None")
            with source.block("else:"):
                self.struct(field.struct, "v")
                source.line(f"o.{field.name} = v")
        else:
            self.field(field, f"o.{field.name}")
            self.flush()


@contextmanager
def _no_block() -> Iterator[None]:
    yield


def element_size(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes an element of this array takes, at least one so that a count is always bounded."""
    if field.struct is not None:
        return max(1, smallest_struct(field.struct, version, flexible))
    assert isinstance(field.element, str)
    return SIZES.get(field.element) or (1 if flexible else 2 if field.element == "string" else 4)


# Encoders.  -----------------------------------------------------------------------------------------------------------------------


class Encoding:
    """Writes the statements that append one message to `out`.  Neighbours wait: values in `group` for one pack, parts in `pieces`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.version = source.version
        self.flexible = source.flexible
        self.group: list[tuple[str, str]] = []
        self.pieces: list[str] = []
        self.about: list[tuple[str, str]] = []
        source.names |= {
            "STRING_LENGTHS": STRING_LENGTHS,
            "LENGTHS": LENGTHS,
            "write_tags": write_tags,
            "refuse_absent": refuse_absent,
            "pack": struct.pack,
        }

    def write(self) -> None:
        source = self.source
        source.names["FAILURES"], source.names["fail"] = UNWRITABLE, self.fail
        cut = has_records(source.declared, self.version)
        with source.block("def run(o):"):
            with source.block("try:"):
                source.line("out = []; parts = []" if cut else "out = []")
                self.struct(source.declared, "o")
                if cut:
                    source.line("if out: parts.append(join(out))")
                source.line("return parts" if cut else "return [join(out)]")
            with source.block("except FAILURES as error:"):
                source.line("raise fail(error) from None")

    def fail(self, error: BaseException) -> EncodeError:
        path, reason = explain(error, self.source)
        return EncodeError(path, f"version {self.version}: {reason}" if str(self.version) not in reason else reason)

    def pack(self, value: str, code: str) -> None:
        self.group.append((value, code))
        self.about.append((self.source.here, f"pack('>{code}', {value})"))

    def piece(self, expression: str) -> None:
        self.settle()
        self.pieces.append(expression)
        self.about.append((self.source.here, expression))

    def settle(self) -> None:
        """What waits to be packed becomes one piece."""
        if self.group:
            codes = "".join(code for _, code in self.group)
            name = self.source.bind_struct(codes, "pack")
            self.pieces.append(f"{name}({', '.join(value for value, _ in self.group)})")
            self.group = []

    def flush(self) -> None:
        self.settle()
        if len(self.pieces) == 1:
            self.source.line(f"out.append({self.pieces[0]})", self.about)
        elif self.pieces:
            self.source.line(f"out += ({', '.join(self.pieces)})", self.about)
        self.pieces, self.about = [], []

    def struct(self, declared: type[Struct], local: str) -> None:
        source = self.source
        for field in declared.FIELDS:
            if not field.is_in(self.version) and not field.ignorable:
                with source.within(f".{field.name}"):
                    self.flush()
                    value = f"{local}.{field.name}"
                    source.line(f"if not ({self.is_default(field, value)}): refuse_absent({value}, version)")
        for field in declared.FIELDS:
            if field.is_in(self.version) and field.tag is None:
                with source.within(f".{field.name}"):
                    self.field(field, f"{local}.{field.name}")
        if self.flexible:
            self.tags([field for field in declared.FIELDS if field.is_in(self.version) and field.tag is not None], local)
        self.flush()

    def is_default(self, field: Field, value: str) -> str:
        default = default_of(field, self.source)
        if field.default is None:
            return f"{value} is None"
        if isinstance(field.default, list | str | bytes):
            return f"not {value} and {value} is not None" if field.nullable != "none" else f"not {value}"
        return f"{value} is {default} or {value} == {default}" if isinstance(field.default, Struct) else f"{value} == {default}"

    def field(self, field: Field, value: str) -> None:
        """Each field gets lines of its own where it can fail in its own way: packed neighbours share one."""
        if field.kind in SCALARS:
            self.pack(value, SCALARS[field.kind])
        elif field.kind == "uuid":
            self.pack(f"{value}.int.to_bytes(16, 'big')", "16s")
        elif field.kind == "struct":
            self.nested(field, value)
        elif field.kind == "array":
            self.array(field, value, field.is_nullable(self.version))
        elif field.kind == "records":
            self.records(value, field.is_nullable(self.version))
        else:
            self.sized(field.kind, value, field.is_nullable(self.version))

    def nested(self, field: Field, value: str) -> None:
        source = self.source
        assert field.struct is not None
        local = source.fresh("o")
        self.flush()
        source.line(f"{local} = {value}")
        if field.is_nullable(self.version):
            source.line(f"if {local} is None: out.append(b'\\xff')")
            with source.block("else:"):
                self.pack("1", "b")
                self.struct(field.struct, local)
        else:
            self.struct(field.struct, local)

    def sized(self, kind: str, value: str, nullable: bool) -> None:
        """Writes the length and bytes of a string or bytes."""
        raw = f"{value}.encode()" if kind == "string" else value
        if nullable:
            raw = "v.encode()" if kind == "string" else "v"
            self.piece(f"{self.null(kind)} if (v := {value}) is None else {self.length(f'b := {raw}', kind)} + b")
            return
        if self.flexible:
            self.piece(self.length(f"b := {raw}", kind))
        else:
            self.pack(f"len(b := {raw})", length_code(kind, False))
        self.piece("b")

    def length(self, value: str, kind: str) -> str:
        """The expression for the bytes of a length."""
        if self.flexible:
            return f"{'STRING_LENGTHS' if kind == 'string' else 'LENGTHS'}[len({value})]"
        return f"{self.source.bind_struct(length_code(kind, False), 'pack')}(len({value}))"

    def null(self, kind: str) -> str:
        return repr(b"\0" if self.flexible else b"\xff" * struct.calcsize(length_code(kind, False)))

    def counted(self, local: str, value: str, kind: str, nullable: bool) -> None:
        """Writes the length of a list or records, and puts the value in `local`."""
        if nullable:
            self.piece(f"{self.null(kind)} if ({local} := {value}) is None else {self.length(local, kind)}")
        elif self.flexible:
            self.piece(self.length(f"{local} := {value}", kind))
        else:
            self.pack(f"len({local} := {value})", "i")

    def records(self, value: str, nullable: bool) -> None:
        self.counted("r", value, "records", nullable)
        self.flush()
        self.source.line("if r: parts.append(join(out)); parts.append(r); out = []")

    def array(self, field: Field, value: str, nullable: bool) -> None:
        source = self.source
        items = source.fresh("a")
        self.counted(items, value, "array", nullable)
        if isinstance(field.element, str) and field.element in SCALARS:
            self.piece(f"pack(f'>{{len({items})}}{SCALARS[field.element]}', *{items}) if {items} else b''")
        elif field.element == "uuid":
            self.piece(f"join([u.int.to_bytes(16, 'big') for u in {items}]) if {items} else b''")
        else:
            self.flush()
            item = source.fresh("x")
            with source.within(f"[{item} of {items}]"), source.block(f"for {item} in {items}{' or ()' if nullable else ''}:"):
                if field.struct is not None:
                    self.struct(field.struct, item)
                else:
                    assert isinstance(field.element, str)
                    self.sized(field.element, item, False)
                    self.flush()

    def tags(self, tagged: list[Field], local: str) -> None:
        """The tagged section in one expression: nothing but a zero for a struct that has only defaults."""
        unset = " and ".join(
            [f"({self.is_default(field, f'{local}.{field.name}')})" for field in tagged] + [f"{local}.unknown_tagged_fields is None"]
        )
        if tagged:
            name = self.source.fresh("tags")
            self.source.functions.append(lambda: self.write_tags(name, tagged))
            self.piece(f"b'\\0' if {unset} else {name}({local})")
        else:
            self.piece(f"b'\\0' if {unset} else write_tags([], {local}.unknown_tagged_fields)")

    def write_tags(self, name: str, tagged: list[Field]) -> None:
        source = self.source
        with source.block(f"def {name}(o):"):
            source.line("known = []")
            for field in sorted(tagged, key=lambda field: field.tag or 0):
                value = f"o.{field.name}"
                with source.within(f".{field.name}"), source.block(f"if not ({self.is_default(field, value)}):"):
                    source.line("out = []")
                    self.tagged(field, value)
                    source.line(f"known.append(({field.tag}, join(out)))")
            source.line("return write_tags(known, o.unknown_tagged_fields)")

    def tagged(self, field: Field, value: str) -> None:
        """A tagged value is written like any other, but a nullable struct says so by an unsigned byte."""
        source = self.source
        if field.kind == "struct" and field.is_nullable(self.version):
            assert field.struct is not None
            source.line(f"v = {value}")
            source.line("if v is None: out.append(b'\\0')")
            with source.block("else:"):
                self.pack("1", "b")
                self.struct(field.struct, "v")
        else:
            self.field(field, value)
            self.flush()


def has_records(declared: type[Struct], version: int) -> bool:
    """Whether a message of this version carries record batches anywhere."""
    present = [field for field in declared.FIELDS if field.is_in(version)]
    return any(field.kind == "records" or (field.struct is not None and has_records(field.struct, version)) for field in present)


# What others call.  ---------------------------------------------------------------------------------------------------------------


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
ENCODERS: Final = Codecs("encoder", Encoding)


def decoder(declared: type[M], version: int) -> Callable[[memoryview], M]:
    """Reads a whole body.  Errors: DecodeError, and nothing else."""
    return DECODERS[declared, version]  # type: ignore[no-any-return]


def encoder(declared: type[M], version: int) -> Callable[[M], list[Part]]:
    """Writes a body: one part, or with records the bytes before, the records, the bytes between, and so on.  Errors: EncodeError."""
    return ENCODERS[declared, version]  # type: ignore[no-any-return]


def decode(declared: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    return decoder(declared, version)(memoryview(data))


def encode(message: Message, version: int) -> list[Part]:
    return encoder(type(message), version)(message)


def encode_bytes(message: Message, version: int) -> bytes:
    """All parts in one, records read and copied: for stored records, tests and other slow roads."""
    return b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in encode(message, version))


def source_of(declared: type[Message], version: int) -> str:
    """The generated code of both directions, to read."""
    made = [codecs.name(declared, version) for codecs in (DECODERS, ENCODERS) if codecs[declared, version]]
    return "\n".join("".join(linecache.getlines(name)) for name in made)
