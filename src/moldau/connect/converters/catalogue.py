"""● Converters by class name, Kafka's and those with a schema registry: their options, and the functions that make them."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from moldau.connect.converters.converter import Converter
from moldau.connect.converters.header_values import SimpleHeaderConverter
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.converters.json_schema_converter import JsonSchemaConverter
from moldau.connect.converters.simple import ByteArrayConverter, StringConverter, booleans, floats, integers
from moldau.connect.data import Type
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Definition, Key, Kind
from moldau.connect.errors import ConfigError
from moldau.connect.registry.options import registry_keys, schemas_of, strategy_of


class ConverterPlugin(NamedTuple):
    make: Callable[[dict[str, Any]], Converter]
    definition: Definition


_TYPE: Final = Key("converter.type", Kind.STRING, REQUIRED, "LOW", "key, value or header.", check.one_of("key", "value", "header"))
_PLAIN: Final = Definition(_TYPE)
_STRINGS: Final = Definition(
    _TYPE, Key("converter.encoding", Kind.STRING, "UTF-8", "HIGH", "The encoding of texts.", None, None, -1, "MEDIUM", "Encoding")
)
_JSON: Final = Definition(
    _TYPE,
    Key("schemas.enable", Kind.BOOLEAN, True, "HIGH", "Whether values carry schemas.", None, "Schemas", 0, "MEDIUM", "Enable Schemas"),
    Key("schemas.cache.size", Kind.INT, 1000, "HIGH", "How many schemas are kept.", None, "Schemas", 1, "MEDIUM", "Schema Cache Size"),
    Key("schema.content", Kind.STRING, None, "HIGH", "The schema of all values read.", None, "Schemas", 2, "MEDIUM", "Schema Content"),
    Key(
        "decimal.format", Kind.STRING, "BASE64", "LOW", "How decimals are written.", check.one_of_any_case("NUMERIC", "BASE64"),
        "Serialization", 0, "MEDIUM", "Decimal Format",
    ),
    Key(
        "replace.null.with.default", Kind.BOOLEAN, True, "LOW", "Whether null is taken to be the schema's default.", None,
        "Serialization", 1, "MEDIUM", "Replace null with default",
    ),
)  # fmt: skip


def _json(options: dict[str, Any]) -> Converter:
    return JsonConverter(
        schemas_enable=options["schemas.enable"],
        decimal_format=options["decimal.format"],
        replace_null_with_default=options["replace.null.with.default"],
        schema_content=options["schema.content"],
    )


def _flag(name: str, default: bool, doc: str) -> Key:
    return Key(name, Kind.BOOLEAN, default, "LOW", doc)


_AVRO: Final = Definition(_TYPE, *registry_keys(("fastavro", "Avro")))
_JSON_SCHEMA: Final = Definition(
    _TYPE,
    *registry_keys(),
    _JSON.keys["decimal.format"],
    _JSON.keys["replace.null.with.default"],
    _flag("use.optional.for.nonrequired", False, "Whether a property that the schema does not require is optional."),
    _flag("object.additional.properties", True, "Whether the schemas of objects allow properties that they do not name."),
)


def _avro(options: dict[str, Any]) -> Converter:
    from moldau.connect.converters.avro_converter import AvroConverter  # its package is an extra

    return AvroConverter(schemas_of(options), strategy_of(options))


def _json_schema(options: dict[str, Any]) -> Converter:
    return JsonSchemaConverter(
        schemas_of(options),
        strategy_of(options),
        decimal_format=options["decimal.format"],
        replace_null_with_default=options["replace.null.with.default"],
        optional_unless_required=options["use.optional.for.nonrequired"],
        additional_properties=options["object.additional.properties"],
    )


_PROTOBUF: Final = Definition(
    _TYPE,
    *registry_keys(("google.type.date_pb2", "Protobuf")),
    _flag("optional.for.nullables", False, "Whether optional scalars have the word optional, so that null differs from zero."),
    _flag(
        "wrapper.for.nullables",
        False,
        "Whether optional scalars are wrapped, as google.protobuf.StringValue, so that null differs from zero.",
    ),
    _flag("wrapper.for.raw.primitives", True, "Whether wrapped scalars are read as scalars."),
    _flag("enhanced.protobuf.schema.support", False, "Whether names keep their packages when they are read."),
    _flag("int.for.enums", False, "Whether enums are read as numbers."),
    _flag("generate.index.for.unions", True, "Whether the field of a oneof ends in its number."),
    _flag("flatten.unions", False, "Whether the members of a oneof are read as fields beside the others."),
    _flag("generalized.sum.type.support", False, "Whether oneofs and enums are read with the names that all formats share."),
    _flag("optional.for.proto2", True, "Whether a scalar of proto2 that a message does not have is read as null, not as its default."),
    _flag("generate.struct.for.nulls", False, "Whether a field that a message does not have is read as an empty struct or its default."),
    _flag("scrub.invalid.names", False, "Whether characters that Protobuf's names cannot have are replaced."),
)


def _protobuf(options: dict[str, Any]) -> Converter:
    from moldau.connect.converters.protobuf_converter import ProtobufConverter  # its packages are an extra
    from moldau.connect.converters.protobuf_schema import forms_of

    return ProtobufConverter(schemas_of(options), strategy_of(options), forms_of(options))


_NUMBERS: Final = "org.apache.kafka.connect.converters."
CONVERTERS: Final[Mapping[str, ConverterPlugin]] = {
    "io.confluent.connect.avro.AvroConverter": ConverterPlugin(_avro, _AVRO),
    "io.confluent.connect.json.JsonSchemaConverter": ConverterPlugin(_json_schema, _JSON_SCHEMA),
    "io.confluent.connect.protobuf.ProtobufConverter": ConverterPlugin(_protobuf, _PROTOBUF),
    f"{_NUMBERS}BooleanConverter": ConverterPlugin(lambda _: booleans(), _PLAIN),
    f"{_NUMBERS}ByteArrayConverter": ConverterPlugin(lambda _: ByteArrayConverter(), _PLAIN),
    f"{_NUMBERS}DoubleConverter": ConverterPlugin(lambda _: floats(Type.FLOAT64), _PLAIN),
    f"{_NUMBERS}FloatConverter": ConverterPlugin(lambda _: floats(Type.FLOAT32), _PLAIN),
    f"{_NUMBERS}IntegerConverter": ConverterPlugin(lambda _: integers(Type.INT32), _PLAIN),
    f"{_NUMBERS}LongConverter": ConverterPlugin(lambda _: integers(Type.INT64), _PLAIN),
    f"{_NUMBERS}ShortConverter": ConverterPlugin(lambda _: integers(Type.INT16), _PLAIN),
    "org.apache.kafka.connect.json.JsonConverter": ConverterPlugin(_json, _JSON),
    "org.apache.kafka.connect.storage.StringConverter": ConverterPlugin(
        lambda options: StringConverter(options["converter.encoding"]), _STRINGS
    ),
}
SIMPLE_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
HEADER_CONVERTERS: Final[Mapping[str, ConverterPlugin]] = dict(
    sorted({**CONVERTERS, SIMPLE_HEADERS: ConverterPlugin(lambda _: SimpleHeaderConverter(), Definition())}.items())
)


def converter_of(kind: str, connector: Mapping[str, str | None], worker: Mapping[str, str | None]) -> Converter:
    """The `key`, `value` or `header` converter: the connector's own, else the worker's, each with its own options.  Errors: ConfigError."""
    name = f"{kind}.converter"
    config = connector if connector.get(name) else worker
    chosen = (config.get(name) or (SIMPLE_HEADERS if kind == "header" else "")).strip()
    known = HEADER_CONVERTERS if kind == "header" else CONVERTERS
    if chosen not in known:
        raise ConfigError.invalid(name, chosen or None, f"Class {chosen} could not be found.")
    prefix = f"{name}."
    options = {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}
    return known[chosen].make(known[chosen].definition.parse({**options, "converter.type": kind}))
