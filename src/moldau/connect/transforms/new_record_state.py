"""◇ Debezium's ExtractNewRecordState: an event becomes the row as it is after the change.

Source: Debezium's documentation, "New Record State Extraction".
"""

from dataclasses import replace
from typing import Any, Final, NamedTuple

from moldau.connect.data import OPTIONAL_STRING, STRING, Header, Record, Schema, Struct, Type
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import Definition, Key, Kind
from moldau.connect.errors import ConfigError, DataError
from moldau.connect.transforms.fields import ReplaceField
from moldau.connect.transforms.parts import Part, fields_of, with_fields

DELETED: Final = "__deleted"
HANDLING: Final = ("tombstone", "drop", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
OF_ENVELOPE: Final = {"op", "ts_ms", "ts_us", "ts_ns"}
OF_TRANSACTION: Final = {"id", "data_collection_order", "total_order"}
OLDER: Final = {
    ("rewrite", True): "rewrite",
    ("rewrite", False): "rewrite-with-tombstone",
    ("drop", True): "drop",
}
"""`delete.handling.mode` and `drop.tombstones`, the options of Debezium 2, as the one of Debezium 3; other pairs are `tombstone`."""


def _references(name: str, value: Any) -> None:
    for one in value or []:
        if one.partition(":")[0].count(".") > 1:
            raise ConfigError.invalid(name, value, f"Unexpected field name: {one}")


OPTIONS: Final = Definition(
    Key(
        "delete.tombstone.handling.mode", Kind.STRING, "tombstone", "MEDIUM",
        "What becomes of a deletion and of the tombstone behind it: drop: neither stays; tombstone: one tombstone stays; rewrite: the row "
        "as it was, with __deleted; rewrite-with-tombstone: also the tombstone; delete-to-tombstone: the deletion becomes the tombstone.",
        check.one_of(*HANDLING),
    ),
    Key("delete.handling.mode", Kind.STRING, None, "LOW", "Of Debezium 2.", check.one_of(None, "drop", "none", "rewrite")),
    Key("drop.tombstones", Kind.BOOLEAN, True, "LOW", "Debezium 2: whether tombstones are dropped."),
    Key("route.by.field", Kind.STRING, None, "LOW", "The field that becomes the topic."),
    Key("add.fields.prefix", Kind.STRING, "__", "LOW", "What stands before the names of added fields."),
    Key("add.fields", Kind.LIST, [], "LOW", "Fields of the event to add: op, source.lsn, table:name …", _references),
    Key("add.headers.prefix", Kind.STRING, "__", "LOW", "What stands before the names of added headers."),
    Key("add.headers", Kind.LIST, [], "LOW", "Fields of the event to add as headers.", _references),
    Key("drop.fields.header.name", Kind.STRING, None, "LOW", "The header that lists fields to drop."),
    Key("drop.fields.from.key", Kind.BOOLEAN, False, "LOW", "Whether they are dropped from the key, too."),
    Key("drop.fields.keep.schema.compatible", Kind.BOOLEAN, True, "LOW", "Whether only optional fields are dropped."),
    Key("replace.null.with.default", Kind.BOOLEAN, True, "MEDIUM", "Whether a field that is null is taken to hold its schema's default."),
)  # fmt: skip


class _Reference(NamedTuple):
    """A field of an event.  `struct`: None for the event itself."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def parse(cls, text: str, prefix: str) -> "_Reference":
        path, _, other = text.strip().partition(":")
        struct, dot, field = path.rpartition(".")
        if dot:
            return cls(struct, field, prefix + (other or f"{struct}_{field}"))
        found = None if field in OF_ENVELOPE else "transaction" if field in OF_TRANSACTION else "source"
        return cls(found, field, prefix + (other or field))

    def found(self, event: Struct) -> tuple[Schema, Any] | None:
        """Schema and value; a field that the struct lacks is looked for in the event."""
        inner = None if self.struct is None else event.schema.field(self.struct)
        schema = event.schema if self.struct is None else inner
        kind = None if schema is None else schema.field(self.field)
        if kind is not None and self.struct is not None:
            within = event.get(self.struct, with_default=False)
            return _added(kind), None if within is None else within.get(self.field, with_default=False)
        kind = event.schema.field(self.field)
        return None if kind is None else (_added(kind), event.get(self.field, with_default=False))


def _added(kind: Schema) -> Schema:
    """An added field is optional, and Debezium takes its default away."""
    return replace(kind, optional=True, default=None)


class ExtractNewRecordState:
    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._handling = options["delete.tombstone.handling.mode"]
        if options["delete.handling.mode"] is not None:
            self._handling = OLDER.get((options["delete.handling.mode"], options["drop.tombstones"]), "tombstone")
        self._route = options["route.by.field"]
        self._fields = [_Reference.parse(one, options["add.fields.prefix"]) for one in options["add.fields"]]
        self._headers = [_Reference.parse(one, options["add.headers.prefix"]) for one in options["add.headers"]]
        self._drop_header = options["drop.fields.header.name"]
        self._drops_from_key = options["drop.fields.from.key"]
        self._keeps_required = options["drop.fields.keep.schema.compatible"]
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        if record.value is None:
            return self._with_headers(record, None) if self._handling == "rewrite-with-tombstone" else None
        event = record.value
        if (
            not isinstance(event, Struct)
            or not (event.schema.name or "").endswith(("Envelope", ".Value"))
            or event.schema.field("op") is None
        ):
            return record
        record = self._with_headers(record, event)
        after, before = (event.get(name, with_default=False) for name in ("after", "before"))
        if after is None and before is None:
            return None
        if after is None:
            return self._deleted(record, event, before)
        found = replace(record, value_schema=event.schema.field("after"), value=after)
        if self._handling.startswith("rewrite"):
            found = self._marked(found, "false")
        return self._without_dropped(self._added(self._routed(found, after), event))

    def _deleted(self, record: Record, event: Struct, before: Struct) -> Record | None:
        if self._handling == "drop":
            return None
        if self._handling.startswith("rewrite"):
            found = self._marked(replace(record, value_schema=event.schema.field("before"), value=before), "true")
        elif self._handling == "delete-to-tombstone":
            found = replace(record, value_schema=None, value=None)
        else:
            found = replace(record, value_schema=event.schema.field("after"), value=None)
        found = self._without_dropped(self._routed(found, before))
        return found if found.value is None else self._added(found, event)

    def _marked(self, record: Record, deleted: str) -> Record:
        assert record.value_schema is not None
        wider = with_fields(record.value_schema, {**fields_of(record.value_schema), DELETED: OPTIONAL_STRING})
        values = {one.name: record.value.get(one.name, with_default=self._fills_in) for one in record.value_schema.fields}
        return replace(record, value_schema=wider, value=Struct(wider, {**values, DELETED: deleted}))

    def _routed(self, record: Record, row: Struct) -> Record:
        if not self._route:
            return record
        declared = row.schema.field(self._route)
        if declared is None:
            raise DataError(f"{self._route} is not a valid field name")
        if declared.type is not Type.STRING:
            raise DataError(f"Field '{self._route}' is not of type STRING")
        topic = row.get(self._route)
        return replace(record, topic=topic) if topic is not None and str(topic).strip() else record

    def _added(self, record: Record, event: Struct) -> Record:
        added = {one.name: pair for one in self._fields if (pair := one.found(event)) is not None}
        assert record.value_schema is not None
        wider = with_fields(record.value_schema, {**fields_of(record.value_schema), **{name: kind for name, (kind, _) in added.items()}})
        values = {one.name: record.value.get(one.name, with_default=False) for one in record.value_schema.fields}
        return replace(record, value_schema=wider, value=Struct(wider, {**values, **{name: value for name, (_, value) in added.items()}}))

    def _with_headers(self, record: Record, event: Struct | None) -> Record:
        """The record with the added headers.  A tombstone has but the operation, a deletion."""
        added = []
        for one in self._headers:
            if event is None and one.field == "op":
                added.append(Header(one.name, STRING, "d"))
            elif event is not None and (pair := one.found(event)) is not None:
                added.append(Header(one.name, *pair))
        return record.with_headers((*record.headers, *added))

    def _without_dropped(self, record: Record) -> Record:
        header = next((one for one in record.headers if one.key == self._drop_header), None)
        if not self._drop_header or header is None or not header.value:
            return record
        if self._drops_from_key and record.key is not None:
            record = self._without(record, Part.KEY, header.value)
        return self._without(record, Part.VALUE, header.value)

    def _without(self, record: Record, part: Part, names: list[str]) -> Record:
        schema = part.schema_of(record)
        if schema is None:
            return record
        dropped = [one.name for one in schema.fields if one.name in names and (one.schema.optional or not self._keeps_required)]
        options = {"exclude": dropped, "include": [], "renames": [], "replace.null.with.default": True}
        found = ReplaceField(part, options).apply(record) if dropped else record
        assert found is not None
        return found
