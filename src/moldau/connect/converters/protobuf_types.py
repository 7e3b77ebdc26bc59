"""◇ The message types that Connect's logical types are told as, and the files that declare them.

    Timestamp   google.protobuf.Timestamp         Decimal     confluent.type.Decimal
    Date        google.type.Date                  optional    google.protobuf.StringValue … with wrapper.for.nullables
    Time        google.type.TimeOfDay

What a field's type cannot say stands in the field's option `confluent.field_meta`, as parameters: `connect.type` for int8 and int16,
`precision` and `scale` for decimals.  A registry knows all of these files by their names.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.type import date_pb2, datetime_pb2, money_pb2, timeofday_pb2

from moldau.connect import data
from moldau.connect.data import DATE, DECIMAL, EPOCH, TIME, TIMESTAMP, Schema, Type

META_FILE: Final = "confluent/meta.proto"
DECIMAL_FILE: Final = "confluent/type/decimal.proto"
META_OPTION: Final = 1088
CONNECT_TYPE: Final = "connect.type"


def _field(name: str, number: int, kind: str, type_name: str = "", *, repeated: bool = False) -> FieldDescriptorProto:
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    found = FieldDescriptorProto(name=name, number=number, label=label, type=getattr(FieldDescriptorProto, f"TYPE_{kind}"))
    if type_name:
        found.type_name = type_name
    return found


def _meta_file() -> FileDescriptorProto:
    """The part of confluent/meta.proto that a field's option needs."""
    entry = DescriptorProto(name="ParamsEntry", field=[_field("key", 1, "STRING"), _field("value", 2, "STRING")])
    entry.options.map_entry = True
    fields = [
        _field("doc", 1, "STRING"),
        _field("params", 2, "MESSAGE", ".confluent.Meta.ParamsEntry", repeated=True),
        _field("tags", 3, "STRING", repeated=True),
    ]
    option = _field("field_meta", META_OPTION, "MESSAGE", ".confluent.Meta")
    option.extendee = ".google.protobuf.FieldOptions"
    return FileDescriptorProto(
        name=META_FILE, package="confluent", syntax="proto3", dependency=["google/protobuf/descriptor.proto"],
        message_type=[DescriptorProto(name="Meta", field=fields, nested_type=[entry])], extension=[option],
    )  # fmt: skip


def _decimal_file() -> FileDescriptorProto:
    fields = [_field("value", 1, "BYTES"), _field("precision", 2, "UINT32"), _field("scale", 3, "INT32")]
    message = DescriptorProto(name="Decimal", field=fields)
    return FileDescriptorProto(name=DECIMAL_FILE, package="confluent.type", syntax="proto3", message_type=[message])


def _known_files() -> dict[str, FileDescriptorProto]:
    modules = (
        descriptor_pb2, any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2, date_pb2, timeofday_pb2,
        datetime_pb2, money_pb2,
    )  # fmt: skip
    found = {one.DESCRIPTOR.name: FileDescriptorProto.FromString(one.DESCRIPTOR.serialized_pb) for one in modules}
    return {**found, META_FILE: _meta_file(), DECIMAL_FILE: _decimal_file()}


KNOWN: Final[Mapping[str, FileDescriptorProto]] = _known_files()
"""Files that a schema may import without a reference, each behind those that it imports itself."""


def pool_of(files: Mapping[str, FileDescriptorProto]) -> DescriptorPool:
    """A pool of its own for one schema, with the known files.  Errors: TypeError when a file does not fit."""
    pool = DescriptorPool()
    for name, file in {**KNOWN, **files}.items():
        renamed = FileDescriptorProto()
        renamed.CopyFrom(file)
        renamed.name = name
        pool.Add(renamed)
    return pool


_META_POOL: Final = pool_of({})
_OPTIONS: Final[Any] = message_factory.GetMessageClass(_META_POOL.FindMessageTypeByName("google.protobuf.FieldOptions"))
_FIELD_META: Final = _META_POOL.FindExtensionByName("confluent.field_meta")


def set_parameters(field: FieldDescriptorProto, parameters: Mapping[str, str]) -> None:
    options = _OPTIONS()
    options.Extensions[_FIELD_META].params.update(parameters)
    field.options.ParseFromString(options.SerializeToString(deterministic=True))


def parameters_of(field: Any) -> dict[str, str]:
    """The parameters of a field's descriptor."""
    raw = field.GetOptions().SerializeToString()
    return dict(_OPTIONS.FromString(raw).Extensions[_FIELD_META].params) if raw else {}


# ------------------------------------------------------------ values of logical types


def _fill_timestamp(message: Any, value: datetime) -> None:
    since = value - EPOCH
    message.seconds = since // timedelta(seconds=1)
    message.nanos = value.microsecond * 1000


def _fill_date(message: Any, value: datetime) -> None:
    message.year, message.month, message.day = value.year, value.month, value.day


def _fill_time(message: Any, value: datetime) -> None:
    message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
    message.nanos = value.microsecond * 1000


def _fill_decimal(message: Any, value: Decimal, schema: Schema) -> None:
    message.value = data.to_primitive(schema, value)
    message.precision = len(str(abs(int.from_bytes(message.value, "big", signed=True))))
    message.scale = int(schema.parameter("scale") or 0)


def _read_decimal(message: Any) -> Decimal:
    return Decimal((*Decimal(int.from_bytes(message.value, "big", signed=True)).as_tuple()[:2], -message.scale))


LOGICAL: Final[Mapping[str, tuple[str, str]]] = {
    DECIMAL: ("confluent.type.Decimal", DECIMAL_FILE),
    DATE: ("google.type.Date", date_pb2.DESCRIPTOR.name),
    TIME: ("google.type.TimeOfDay", timeofday_pb2.DESCRIPTOR.name),
    TIMESTAMP: ("google.protobuf.Timestamp", timestamp_pb2.DESCRIPTOR.name),
}
"""Connect's name of a logical type, the message's name, its file."""
READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "confluent.type.Decimal": _read_decimal,
    "google.type.Date": lambda one: datetime(one.year, one.month, one.day, tzinfo=EPOCH.tzinfo),
    "google.type.TimeOfDay": lambda one: EPOCH + timedelta(
        hours=one.hours, minutes=one.minutes, seconds=one.seconds, microseconds=one.nanos // 1000
    ),
    "google.protobuf.Timestamp": lambda one: EPOCH + timedelta(seconds=one.seconds, microseconds=one.nanos // 1000),
}  # fmt: skip
WRAPPERS: Final[Mapping[Type, str]] = {
    Type.INT8: "Int32Value", Type.INT16: "Int32Value", Type.INT32: "Int32Value", Type.INT64: "Int64Value", Type.FLOAT32: "FloatValue",
    Type.FLOAT64: "DoubleValue", Type.BOOLEAN: "BoolValue", Type.STRING: "StringValue", Type.BYTES: "BytesValue",
}  # fmt: skip
WRAPPERS_FILE: Final = wrappers_pb2.DESCRIPTOR.name
WRAPPED: Final[Mapping[str, Type]] = {
    "Int32Value": Type.INT32, "UInt32Value": Type.INT64, "Int64Value": Type.INT64, "UInt64Value": Type.INT64, "FloatValue": Type.FLOAT32,
    "DoubleValue": Type.FLOAT64, "BoolValue": Type.BOOLEAN, "StringValue": Type.STRING, "BytesValue": Type.BYTES,
}  # fmt: skip


def fill_logical(message: Any, schema: Schema, value: Any) -> None:
    """Put a value of a logical type into its message."""
    if schema.name == DECIMAL:
        _fill_decimal(message, value, schema)
    else:
        {DATE: _fill_date, TIME: _fill_time, TIMESTAMP: _fill_timestamp}[str(schema.name)](message, value)


def logical_schema(full_name: str, parameters: Mapping[str, str]) -> Schema:
    """The schema of one of `READERS`."""
    if full_name == "confluent.type.Decimal":
        found = data.decimal(int(parameters.get("scale", "0")), optional=True)
        precision = parameters.get("precision")
        more = (("connect.decimal.precision", precision),) if precision else ()
        return Schema(found.type, True, found.name, 1, parameters=found.parameters + more)
    return {
        "google.type.Date": data.date, "google.type.TimeOfDay": data.time_of_day, "google.protobuf.Timestamp": data.timestamp
    }[full_name](optional=True)  # fmt: skip
