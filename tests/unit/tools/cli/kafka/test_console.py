"""Lines into records and records into lines, as Kafka's console tools do it."""

import pytest

from moldau.clients.records import ConsumerRecord
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.lines.formatter import Formatter
from moldau.tools.cli.kafka.lines.reader import Line, LineReader

RECORD = ConsumerRecord("t", 2, 7, 1700, 0, b"k", b"v", (("h1", b"v1"), ("h2", None)), 1)


def test_a_line_is_a_value() -> None:
    assert LineReader({}).read(b"a\tb", 1) == Line(None, b"a\tb")


def test_keys_and_headers() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true"})
    assert reader.read(b"h1:v1,h2:v:2\tkey\tvalue\tmore", 1) == Line(b"key", b"value\tmore", (("h1", b"v1"), ("h2", b"v:2")))


def test_separators_of_ones_own() -> None:
    reader = LineReader({"parse.key": "true", "key.separator": "::"})
    assert reader.read("schlüssel::wert".encode(), 1) == Line("schlüssel".encode(), b"wert")


def test_the_null_marker() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.read(b"NULL\tNULL\tNULL", 1) == Line(None, None)
    assert reader.read(b"h:NULL\t\t", 1) == Line(b"", b"", (("h", None),))
    with pytest.raises(Failure, match="Header keys should not be equal to the null marker"):
        reader.read(b"NULL:v\tk\tv", 1)


@pytest.mark.parametrize(
    ("properties", "line", "reason"),
    [
        ({"parse.key": "true"}, b"hello", "No key separator found on line number 3: 'hello'"),
        ({"parse.headers": "true"}, b"hello", "No headers delimiter found on line number 3: 'hello'"),
        ({"parse.headers": "true"}, b"h\tv", "No header key separator found in pair 'h' on line number 3"),
    ],
)
def test_what_is_missing_is_named_or_ignored(properties: dict[str, str], line: bytes, reason: str) -> None:
    with pytest.raises(Failure, match=reason):
        LineReader(properties).read(line, 3)
    lenient = LineReader({**properties, "ignore.error": "true"}).read(line, 3)
    assert lenient.value == line.split(b"\t")[-1]


@pytest.mark.parametrize(
    "properties", [{"key.separator": ""}, {"headers.separator": ":"}, {"headers.delimiter": ","}, {"headers.delimiter": ":"}]
)
def test_separators_must_differ(properties: dict[str, str]) -> None:
    with pytest.raises(Failure, match=r"may not be equal|cannot be empty"):
        LineReader(properties)


def test_everything_printed_in_kafkas_order() -> None:
    everything = {f"print.{what}": "true" for what in ("timestamp", "partition", "offset", "epoch", "headers", "key")}
    assert Formatter(everything).line(RECORD) == b"CreateTime:1700\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\th1:v1,h2:null\tk\tv\n"
    bare = RECORD._replace(timestamp=-1, key=None, value=None, headers=())
    assert Formatter(everything).line(bare) == b"NO_TIMESTAMP\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n"


def test_how_often_a_record_was_delivered() -> None:
    shown = Formatter({"print.delivery": "true"})
    assert shown.line(RECORD, 3) == b"Delivery:3\tv\n"
    assert shown.line(RECORD) == b"Delivery:NOT_PRESENT\tv\n", "nobody counts deliveries of a consumer group"


def test_separators_null_and_no_value() -> None:
    properties = {"print.key": "true", "print.value": "false", "line.separator": ";", "null.literal": "-"}
    assert Formatter(properties).line(RECORD._replace(key=None)) == b"-;"


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("LongDeserializer", (7).to_bytes(8), b"7"),
        ("org.apache.kafka.common.serialization.IntegerDeserializer", (-1 & 0xFFFFFFFF).to_bytes(4), b"-1"),
        ("DoubleDeserializer", bytes.fromhex("3ff8000000000000"), b"1.5"),
        ("BytesDeserializer", b"a\x00", b"a\\x00"),
    ],
)
def test_deserializers(name: str, data: bytes, shown: bytes) -> None:
    assert Formatter({"value.deserializer": name}).line(RECORD._replace(value=data)) == shown + b"\n"


def test_a_deserializer_nobody_knows_and_bytes_that_do_not_fit() -> None:
    with pytest.raises(Failure, match=r"no deserializer com\.me\.Mine"):
        Formatter({"key.deserializer": "com.me.Mine"})
    with pytest.raises(Failure, match="Size of data received by LongDeserializer is not 8"):
        Formatter({"value.deserializer": "LongDeserializer"}).line(RECORD)
