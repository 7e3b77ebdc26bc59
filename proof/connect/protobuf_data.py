"""● The Protobuf side of `confluent_data`: random schemas of Connect, random messages of Protobuf, and the comparison of the answers.

DIFFERENCES that are left out of the comparison
- the order of a file's parts, its name, and the import of confluent/meta.proto, which Confluent's file uses without importing it
- the parameter Tag of an array's elements, which are those of the field that had the same message before
- an optional field of a oneof with `optional.for.nullables` or `wrapper.for.nullables`, for which ProtobufData fails
- a decimal without bytes: zero here, an error there
- a map with several entries, whose order Java's hashes decide: maps have at most one
"""

import base64
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from moldau.connect.converters import protobuf_types as types
from moldau.connect.converters.catalogue import CONVERTERS
from moldau.connect.converters.protobuf_converter import ProtobufConverter
from moldau.connect.converters.protobuf_schema import ENUM, GENERAL_ENUM, TAG, forms_of
from moldau.connect.data import Type
from moldau.connect.errors import DataError
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from proof.connect.avro_data import LEAVES, RandomConnect, Registry, differences, shown
from proof.connect.protobuf_random import RandomFile, RandomRows
from proof.metadata.oracle import Oracle

OPTIONS: Final[tuple[dict[str, str], ...]] = (
    {}, {}, {}, {"optional.for.nullables": "true"}, {"wrapper.for.nullables": "true"}, {"wrapper.for.raw.primitives": "false"},
    {"enhanced.protobuf.schema.support": "true"}, {"int.for.enums": "true"}, {"generate.index.for.unions": "false"},
    {"flatten.unions": "true"}, {"generalized.sum.type.support": "true"}, {"optional.for.proto2": "false"},
    {"generate.struct.for.nulls": "true"}, {"scrub.invalid.names": "true"},
    {"enhanced.protobuf.schema.support": "true", "generalized.sum.type.support": "true"},
)  # fmt: skip
NO_DIGITS: Final = "Zero length BigInteger"
NO_ONEOFS: Final = ("optional.for.nullables", "wrapper.for.nullables")
_FILE: Final[Any] = message_factory.GetMessageClass(types.pool_of({}).FindMessageTypeByName("google.protobuf.FileDescriptorProto"))


def converter(registry: Registry, options: dict[str, str]) -> ProtobufConverter:
    plugin = CONVERTERS["io.confluent.connect.protobuf.ProtobufConverter"]
    given = plugin.definition.parse({"converter.type": "value", "schema.registry.url": "http://unused", **options})
    return ProtobufConverter(registry, lambda topic, name: "s", forms_of(given))  # type: ignore[arg-type]


def ours(schema: Any, value: Any, options: dict[str, str]) -> dict[str, Any]:
    registry = Registry()
    one = converter(registry, options)
    try:
        raw = one.to_bytes("t", schema, value)
        assert raw is not None
        number, body = unframed(raw)
        message = body[1:] if schema.type is Type.STRUCT else body[1 if body[:1] == b"\x00" else 2 :]
        file = registry.known[number].text
        return {"file": file, "bytes": base64.b64encode(message).decode(), "read": _read(one, raw)}
    except DataError as error:
        return {"error": str(error)}


def ours_of_file(file: str, message: bytes, options: dict[str, str]) -> dict[str, Any]:
    """What we read with a file of somebody else: its first message."""
    registry = Registry()
    number, _ = registry.id_of("s", Registered("PROTOBUF", file))
    try:
        return {"read": _read(converter(registry, options), framed(number, b"\x00" + message))}
    except DataError as error:
        return {"error": str(error)}


def _read(one: ProtobufConverter, raw: bytes) -> Any:
    return shown(*one.to_data("t", raw))


def normal(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what is left out of the comparison."""
    found = {name: one for name, one in answer.items() if name != "text"}
    if "file" in found:
        found["file"] = _of_file(base64.b64decode(found["file"]))
    if "read" in found:
        found["read"] = {**found["read"], "schema": _without_tags_of_elements(found["read"]["schema"])}
    return found


def _of_file(raw: bytes) -> Any:
    """The file's parts, with the full names of types, which Confluent's file leaves to whoever reads it."""
    given = FileDescriptorProto.FromString(raw)
    if given.package != "google.protobuf":
        given.name = "compared.proto"
        whole = FileDescriptorProto()
        types.pool_of({given.name: given}).FindFileByName(given.name).CopyToProto(whole)
        raw = whole.SerializeToString()
    file = json_format.MessageToDict(_FILE.FromString(raw))
    file["dependency"] = sorted(one for one in file.get("dependency", ()) if one != types.META_FILE)
    return _in_order({name: file.get(name) for name in ("package", "messageType", "dependency")})


def _in_order(part: Any) -> Any:
    if isinstance(part, list):
        return sorted(map(_in_order, part), key=_place)
    if not isinstance(part, dict):
        return part
    oneofs = [one["name"] for one in part.get("oneofDecl", ())]
    return {name: _in_order(one) for name, one in part.items() if name not in ("jsonName", "oneofDecl") and one != "LABEL_OPTIONAL"} | (
        {"oneofs": oneofs} if oneofs else {}
    )


def _place(part: Any) -> tuple[int, str]:
    return (part.get("number", 0), part.get("name", "")) if isinstance(part, dict) else (0, str(part))


def _without_tags_of_elements(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_tags_of_elements(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _without_tags_of_elements(one) for name, one in schema.items()}
    if isinstance(found.get("items"), dict):
        kept = {name: one for name, one in found["items"].get("parameters", {}).items() if name != TAG}
        found["items"] = {
            **{name: one for name, one in found["items"].items() if name != "parameters"},
            **({"parameters": kept} if kept else {}),
        }
    return found


# ------------------------------------------------------------ the comparison


def compare(oracle: Oracle, seed: int) -> list[str]:
    """The differences of one seed, in a schema of Connect and in a message of Protobuf."""
    random = Random(seed)
    options = random.choice(OPTIONS)
    has_oneofs = not any(name in options for name in NO_ONEOFS)
    found = [f"{options} {one}" for one in _of_connect(oracle, random, options, has_oneofs=has_oneofs)]
    file, message = RandomFile(random, has_oneofs=has_oneofs).case()
    text, body = base64.b64encode(file.SerializeToString()).decode(), base64.b64encode(message).decode()
    theirs = oracle.answer({"kind": "PROTOBUF", "proto": text, "bytes": body, "options": options})
    if NO_DIGITS not in theirs.get("error", ""):
        found += [f"{options} of Protobuf {one}" for one in differences(normal(theirs), normal(ours_of_file(text, message, options)))]
    return found


def _of_connect(oracle: Oracle, random: Random, options: dict[str, str], *, has_oneofs: bool) -> Iterator[str]:
    is_general = "generalized.sum.type.support" in options
    schema, value = RandomRows(random, has_oneofs=has_oneofs and not is_general, enum=GENERAL_ENUM if is_general else ENUM).case()
    if random.random() < 0.05:
        schema = random.choice([leaf for leaf, _ in LEAVES if leaf.name is None])
        value = RandomConnect(random).value(schema)
    theirs = oracle.answer({"kind": "PROTOBUF", "connect": shown(schema, value), "options": options})
    own = ours(schema, value, options)
    if NO_DIGITS in theirs.get("error", ""):
        return
    yield from differences(normal(theirs), normal(own))
    if "file" not in theirs or "file" not in own or schema.type is not Type.STRUCT:
        return
    body = base64.b64decode(theirs["bytes"])
    yield from (
        f"their file {one}" for one in differences({"read": normal(theirs)["read"]}, normal(ours_of_file(theirs["file"], body, options)))
    )
    answer = oracle.answer({"kind": "PROTOBUF", "proto": own["file"], "bytes": own["bytes"], "options": options})
    yield from (f"our file {one}" for one in differences(normal(answer), {"read": normal(own)["read"]}))
