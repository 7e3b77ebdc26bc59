"""◇ Kafka's transforms and predicates, and one of Debezium, by class name: their options, and the classes that run them."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Definition, Key, Kind
from moldau.connect.transforms.cast import Cast, check_spec
from moldau.connect.transforms.fields import (
    ExtractField,
    Flatten,
    HoistField,
    InsertField,
    MaskField,
    ReplaceField,
    ValueToKey,
    check_renames,
)
from moldau.connect.transforms.new_record_state import OPTIONS as NEW_STATE
from moldau.connect.transforms.new_record_state import ExtractNewRecordState
from moldau.connect.transforms.parts import Part, Transform
from moldau.connect.transforms.predicates import HasHeaderKey, Predicate, RecordIsTombstone, TopicNameMatches
from moldau.connect.transforms.routing import DropHeaders, Filter, HeaderFrom, InsertHeader, RegexRouter, SetSchemaMetadata
from moldau.connect.transforms.times import PRECISIONS, TARGETS, TimestampConverter, TimestampRouter

TRANSFORMS: Final = "org.apache.kafka.connect.transforms."
NEW_RECORD_STATE: Final = "io.debezium.transforms.ExtractNewRecordState"
PREDICATES: Final = "org.apache.kafka.connect.transforms.predicates."


Make = Callable[[Part, dict[str, Any]], Transform]


class TransformPlugin(NamedTuple):
    make: Make
    part: Part
    definition: Definition


class PredicatePlugin(NamedTuple):
    make: Callable[[dict[str, Any]], Predicate]
    definition: Definition


def _text(name: str, default: Any, importance: str, doc: str, test: check.Check | None = None) -> Key:
    return Key(name, Kind.STRING, default, importance, doc, test)


def _list(name: str, default: Any, importance: str, doc: str, test: check.Check | None = None) -> Key:
    return Key(name, Kind.LIST, default, importance, doc, test)


_FILLS_IN: Final = Key(
    "replace.null.with.default", Kind.BOOLEAN, True, "MEDIUM", "Whether a field that is null is taken to hold its schema's default."
)
_INSERTS: Final = Definition(
    _text("topic.field", None, "MEDIUM", "The field for the topic's name; a name with ! at its end is required, with ? optional."),
    _text("partition.field", None, "MEDIUM", "The field for the partition."),
    _text("offset.field", None, "MEDIUM", "The field for the offset; in sinks only."),
    _text("timestamp.field", None, "MEDIUM", "The field for the record's time."),
    _text("static.field", None, "MEDIUM", "The field for a fixed text."),
    _text("static.value", None, "MEDIUM", "The fixed text."),
    _FILLS_IN,
)
_REPLACES: Final = Definition(
    _list("exclude", [], "MEDIUM", "Fields to leave out."),
    _list("include", [], "MEDIUM", "Fields to keep; without it, all."),
    _list("renames", [], "MEDIUM", "Renamings, each old:new.", check_renames),
    _FILLS_IN,
)
_MASKS: Final = Definition(
    _list("fields", REQUIRED, "HIGH", "Fields to mask.", check.valid_list),
    _text("replacement", None, "LOW", "What texts and numbers become, instead of empty and zero.", check.non_empty),
    _FILLS_IN,
)
_CONVERTS: Final = Definition(
    _text("field", "", "HIGH", "The field that holds the time; without it, the whole."),
    _text("target.type", REQUIRED, "HIGH", "The form that it takes.", check.one_of(*TARGETS)),
    _text("format", "", "MEDIUM", "The pattern of texts, as Java's SimpleDateFormat has it."),
    _text("unix.precision", "milliseconds", "LOW", "The unit of numbers.", check.one_of(*PRECISIONS)),
    _FILLS_IN,
)
_HEADER_FROM: Final = Definition(
    _list("fields", REQUIRED, "HIGH", "Fields that become headers.", check.valid_list),
    _list("headers", REQUIRED, "HIGH", "Names of the headers, in the order of the fields.", check.valid_list),
    _text("operation", REQUIRED, "HIGH", "move: the fields are gone; copy: they stay.", check.one_of("move", "copy")),
    _FILLS_IN,
)
_EXTRACTS: Final = Definition(
    _text("field", REQUIRED, "MEDIUM", "The field to extract."),
    Key("field.syntax.version", Kind.STRING, "V1", "HIGH", "V2: dots in the name lead into structs.", check.one_of_any_case("V1", "V2")),
    _FILLS_IN,
)
_NAMES: Final = Definition(
    _text("schema.name", None, "HIGH", "The schema's name."),
    Key("schema.version", Kind.INT, None, "HIGH", "The schema's version."),
    _FILLS_IN,
)
_CASTS: Final = Definition(_list("spec", REQUIRED, "HIGH", "field:type for each field, or one type for the whole.", check_spec), _FILLS_IN)
_OF_PARTS: Final[dict[str, tuple[Make, Definition]]] = {
    "Cast": (Cast, _CASTS),
    "ExtractField": (ExtractField, _EXTRACTS),
    "Flatten": (Flatten, Definition(_text("delimiter", ".", "MEDIUM", "What stands between the names of the levels."))),
    "HeaderFrom": (HeaderFrom, _HEADER_FROM),
    "HoistField": (HoistField, Definition(_text("field", REQUIRED, "MEDIUM", "The name of the one field."))),
    "InsertField": (InsertField, _INSERTS),
    "MaskField": (MaskField, _MASKS),
    "ReplaceField": (ReplaceField, _REPLACES),
    "SetSchemaMetadata": (SetSchemaMetadata, _NAMES),
    "TimestampConverter": (TimestampConverter, _CONVERTS),
}
_OF_RECORDS: Final[dict[str, tuple[Make, Definition]]] = {
    "DropHeaders": (DropHeaders, Definition(_list("headers", REQUIRED, "HIGH", "Names of the headers to drop.", check.valid_list))),
    "Filter": (Filter, Definition()),
    "InsertHeader": (
        InsertHeader,
        Definition(
            _text("header", REQUIRED, "HIGH", "The header's name.", check.non_null),
            _text("value.literal", REQUIRED, "HIGH", "Its value.", check.non_null),
        ),
    ),
    "RegexRouter": (
        RegexRouter,
        Definition(
            _text("regex", REQUIRED, "HIGH", "What the whole topic name has to match.", check.regular_expression),
            _text("replacement", REQUIRED, "HIGH", "What it becomes; $1 is the first group."),
        ),
    ),
    "TimestampRouter": (
        TimestampRouter,
        Definition(
            _text("topic.format", "${topic}-${timestamp}", "HIGH", "The new name, with ${topic} and ${timestamp}."),
            _text("timestamp.format", "yyyyMMdd", "HIGH", "The time's pattern, as Java's SimpleDateFormat has it."),
        ),
    ),
    "ValueToKey": (
        ValueToKey,
        Definition(_list("fields", REQUIRED, "HIGH", "Fields of the value that make the key.", check.valid_list), _FILLS_IN),
    ),
}

TRANSFORM_PLUGINS: Final[dict[str, TransformPlugin]] = {
    **{f"{TRANSFORMS}{name}${part}": TransformPlugin(make, part, keys) for name, (make, keys) in _OF_PARTS.items() for part in Part},
    **{f"{TRANSFORMS}{name}": TransformPlugin(make, Part.VALUE, keys) for name, (make, keys) in _OF_RECORDS.items()},
    NEW_RECORD_STATE: TransformPlugin(ExtractNewRecordState, Part.VALUE, NEW_STATE),
}
PREDICATE_PLUGINS: Final[dict[str, PredicatePlugin]] = {
    f"{PREDICATES}HasHeaderKey": PredicatePlugin(
        HasHeaderKey, Definition(_text("name", REQUIRED, "MEDIUM", "The header's name.", check.non_empty))
    ),
    f"{PREDICATES}RecordIsTombstone": PredicatePlugin(RecordIsTombstone, Definition()),
    f"{PREDICATES}TopicNameMatches": PredicatePlugin(
        TopicNameMatches,
        Definition(_text("pattern", REQUIRED, "MEDIUM", "What the whole topic name has to match.", check.regular_expression)),
    ),
}
