"""◇ Writes the source of the function that reads one version of a message, and defines what that function calls.

`compiler` says what the function guarantees.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final
from uuid import UUID, SafeUUID

from moldau.protocol.codegen import MAX_STRING, SCALARS, SIZES, Refused, Source, default_of, explain, length_code
from moldau.protocol.declared import DecodeError, Field, Struct
from moldau.protocol.varint import VarintTooLong, read_unsigned

FAILURES: Final = (Refused, VarintTooLong, struct.error, IndexError)


def refuse_length(length: int, left: int) -> None:
    if length < 0:
        raise Refused("null is not allowed here" if length == -1 else f"a length of {length} is negative")
    raise Refused(f"{length} bytes are named and {left} are left")


def refuse_count(count: int, left: int, smallest: int) -> None:
    if count < 0:
        raise Refused("null is not allowed here" if count == -1 else f"a count of {count} is negative")
    raise Refused(f"{count} elements of at least {smallest} bytes are named and {left} bytes are left")


def refuse_elements(most: int) -> None:
    raise Refused(f"more than {most} elements are named in one message: ask in several")


def refuse_string(length: int) -> None:
    raise Refused(f"{length} bytes are more than the {MAX_STRING} allowed")


def refuse_trailing(position: int, end: int) -> None:
    raise Refused(f"{end - position} bytes are left behind its end")


def check_tag_count(count: int, left: int) -> None:
    if count > left // 2:
        refuse_count(count, left, 2)


_set_int: Final = UUID.__dict__["int"].__set__
_set_is_safe: Final = UUID.__dict__["is_safe"].__set__


def read_uuid(raw: bytes, new: Any = UUID.__new__, kind: Any = UUID, unknown: Any = SafeUUID.unknown) -> UUID:
    """`UUID(bytes=raw)`, four times as fast: the slots are set without the constructor's checks."""
    value = new(kind)
    _set_int(value, int.from_bytes(raw, "big"))
    _set_is_safe(value, unknown)
    return value  # type: ignore[no-any-return]


class Decoding:
    """Writes the statements that read one message.  Reads of fixed size wait in `group` until a later statement needs their values."""

    is_exact: ClassVar[bool] = True
    """Whether bytes behind the message are refused."""
    keeps_unknown_tags: ClassVar[bool] = True
    most_elements: int | None = None
    """The most elements of all lists and tagged fields together.

    Each element is an object many times as big as its bytes, or a turn of a loop.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.version = source.version
        self.flexible = source.flexible
        self.group: list[tuple[str, str]] = []
        self.about: list[tuple[str, str]] = []
        self.after: list[str] = []
        self.is_amid_tags = False
        source.names |= {
            "read_varint": read_unsigned,
            "read_uuid": read_uuid,
            "refuse_length": refuse_length,
            "refuse_count": refuse_count,
            "refuse_elements": refuse_elements,
            "refuse_string": refuse_string,
            "refuse_trailing": refuse_trailing,
            "check_tag_count": check_tag_count,
            "unpack": struct.unpack_from,
        }

    def write(self) -> None:
        source = self.source
        source.names["FAILURES"], source.names["fail"] = FAILURES, self.fail
        with source.block("def run(data):"):
            source.line("end = len(data); p = 0" + (f"; room = {self.most_elements}" if self.most_elements else ""))
            with source.block("try:"):
                self.struct(source.declared, "o")
                if self.is_exact:
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
            with source.block("if n:"):
                self.count_elements()
                source.line(f"p = {self.tags(declared, tagged)}(data, p, end, n, {target})")

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
            taken = {"string": "str(data[p:e], 'utf-8', 'replace')", "bytes": "bytes(data[p:e])", "records": "data[p:e]"}[kind]
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
                self.count_elements()
                source.line(f"{target} = list(unpack(f'>{{n}}{SCALARS[field.element]}', data, p)) if n else []; p += n * {size}")
                return
            items, index = source.fresh("a"), source.fresh("i")
            source.line(f"{target} = {items} = []")
            with source.block("if n:"):
                source.line(check)
                self.count_elements()
                with source.within(f"[{index}]"), source.block(f"for {index} in range(n):"):
                    self.element(field, items)

    def count_elements(self) -> None:
        """Write a check that `n` more elements do not exceed the message's limit."""
        if self.most_elements:
            # Tagged fields are read by functions of their own: each of them counts for itself.
            is_too_many = f"n > {self.most_elements}" if self.is_amid_tags else "(room := room - n) < 0"
            self.source.line(f"if {is_too_many}: refuse_elements({self.most_elements})")

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
        self.is_amid_tags = True
        with source.block(f"def {name}(data, p, frame_end, n, o):"):
            if self.most_elements:  # the caller has counted the elements that one byte can name
                source.line(f"if n > 127: refuse_elements({self.most_elements})")
            else:
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
                    if self.keeps_unknown_tags:
                        source.line("if o.unknown_tagged_fields is None: o.unknown_tagged_fields = {}")
                        source.line("o.unknown_tagged_fields[tag] = bytes(data[p:end])")
                    source.line("p = end")
            source.line("return p")

    def tagged(self, field: Field) -> None:
        """Read a tagged value.  It has the form of any other value, but a nullable struct marks null by an unsigned byte."""
        source = self.source
        if field.kind == "struct" and field.is_nullable(self.version):
            assert field.struct is not None
            source.line("n, p = read_varint(data, p)")
            source.line(f"if n == 0: o.{field.name} = None")
            with source.block("else:"):
                local = source.fresh("o")
                self.struct(field.struct, local)
                source.line(f"o.{field.name} = {local}")
        else:
            self.field(field, f"o.{field.name}")
            self.flush()


@contextmanager
def _no_block() -> Iterator[None]:
    yield


def smallest(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that an untagged field takes."""
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


def element_size(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that an element of this array takes.  It is at least one, so that a count is always bounded."""
    if field.struct is not None:
        return max(1, smallest_struct(field.struct, version, flexible))
    assert isinstance(field.element, str)
    return SIZES.get(field.element) or (1 if flexible else 2 if field.element == "string" else 4)


class RequestDecoding(Decoding):
    """Reads requests in a server.  It makes only as many objects as a server can bear, and ignores unknown fields."""

    is_exact = False
    keeps_unknown_tags = False
    most_elements = 100_000

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        fewer: int | None = getattr(source.declared, "MOST_ELEMENTS", None)
        if fewer is not None:
            self.most_elements = fewer


class CoordinatorRecordDecoding(Decoding):
    """Reads keys and values of coordinators' logs, which clients can write to, too.  It ignores bytes behind them, as Kafka does."""

    is_exact = False
