"""◇ Writes the source of the function that writes one version of a message, and defines what that function calls.

`compiler` says what the function guarantees.
"""

import struct
from typing import Final
from uuid import UUID

from moldau.protocol.codegen import MAX_STRING, SCALARS, Refused, Source, default_of, explain, length_code
from moldau.protocol.declared import EncodeError, Field, FieldAbsent, Struct
from moldau.protocol.varint import write_unsigned

UNWRITABLE: Final = (Refused, struct.error, AttributeError, TypeError, UnicodeError, OverflowError)
REMEMBERED_LENGTHS: Final = 4096


class Lengths(dict[int, bytes]):
    """Compact length → its varint.  The varint is one more than the length, because zero means null."""

    def __init__(self, limit: int) -> None:
        super().__init__({length: write_unsigned(length + 1) for length in range(256)})
        self.limit = limit

    def __missing__(self, length: int) -> bytes:
        if length > self.limit:
            raise Refused(f"{length} bytes are more than the {self.limit} allowed")
        written = write_unsigned(length + 1)
        if len(self) < REMEMBERED_LENGTHS:
            self[length] = written
        return written


STRING_LENGTHS: Final = Lengths(MAX_STRING)
LENGTHS: Final = Lengths(0xFFFFFFFE)


class Absent(Refused):
    """The version that is written has no place for a value."""


def refuse_absent(value: object, version: int) -> None:
    raise Absent(f"version {version} has no such field, so it cannot carry {value!r}")


def write_tags(known: list[tuple[int, bytes]], unknown: dict[int, bytes] | None) -> bytes:
    """The section of tagged fields: a count, then tag, size and bytes of each in ascending order.  `known` is in that order."""
    if unknown:
        for tag, _ in known:
            if tag in unknown:
                raise Refused(f"tag {tag} is a known field and an unknown one at once")
        known = sorted([*known, *unknown.items()])
    out = [write_unsigned(len(known))]
    for tag, value in known:
        out += (write_unsigned(tag), write_unsigned(len(value)), value)
    return b"".join(out)


class Encoding:
    """Writes the statements that append one message to `out`.  Neighbouring values wait in `group` for one pack, parts wait in `pieces`."""

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
        kind = FieldAbsent if isinstance(error, Absent) else EncodeError
        return kind(path, reason if isinstance(error, Refused) else f"version {self.version}: {reason}")

    def pack(self, value: str, code: str) -> None:
        self.group.append((value, code))
        self.about.append((self.source.here, f"pack('>{code}', {value})"))

    def piece(self, expression: str) -> None:
        self.settle()
        self.pieces.append(expression)
        self.about.append((self.source.here, expression))

    def settle(self) -> None:
        """Join the values that wait to be packed into one piece."""
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
        if isinstance(field.default, UUID) and not field.default.int:
            return f"not {value}.int"  # a function compares UUIDs
        if isinstance(field.default, list | str | bytes):
            return f"not {value} and {value} is not None" if field.nullable != "none" else f"not {value}"
        return f"{value} is {default} or {value} == {default}" if isinstance(field.default, Struct) else f"{value} == {default}"

    def field(self, field: Field, value: str) -> None:
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
        encoded = ".encode()" if kind == "string" else ""
        if nullable:
            self.piece(f"{self.null(kind)} if (v := {value}) is None else {self.length(f'b := v{encoded}', kind)} + b")
            return
        if self.flexible:
            self.piece(self.length(f"b := {value}{encoded}", kind))
        else:
            self.pack(f"len(b := {value}{encoded})", length_code(kind, False))
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
        """The tagged section as one expression: a single zero for a struct that has only defaults."""
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
        """Write a tagged value.  It has the form of any other value, but a nullable struct marks null by an unsigned byte."""
        source = self.source
        if field.kind == "struct" and field.is_nullable(self.version):
            assert field.struct is not None
            local = source.fresh("o")
            source.line(f"{local} = {value}")
            source.line(f"if {local} is None: out.append(b'\\0')")
            with source.block("else:"):
                self.pack("1", "b")
                self.struct(field.struct, local)
        else:
            self.field(field, value)
            self.flush()


def has_records(declared: type[Struct], version: int) -> bool:
    """Whether a message of this version carries record batches anywhere."""
    present = [field for field in declared.FIELDS if field.is_in(version)]
    return any(field.kind == "records" or (field.struct is not None and has_records(field.struct, version)) for field in present)
