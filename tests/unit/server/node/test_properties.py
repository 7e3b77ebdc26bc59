import pytest

from moldau.server.node.properties import PropertiesError, Property, parse_properties, values_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node.id=1", {"node.id": "1"}),
        ("node.id = 1  ", {"node.id": "1  "}),
        ("node.id:1", {"node.id": "1"}),
        ("node.id 1", {"node.id": "1"}),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
        ("# a comment\n! another\n\n  \n key=v", {"key": "v"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("list=one,\\\n     two,\\\n   three\nnext=1", {"list": "one,two,three", "next": "1"}),
        ("path=C:\\\\logs", {"path": "C:\\logs"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("tab=\\t|\\u010d|\\q", {"tab": "\t|č|q"}),
        ("empty", {"empty": ""}),
        ("empty=", {"empty": ""}),
        ("same=1\nsame=2", {"same": "2"}),
        ("ends=here\\", {"ends": "here"}),
        ("a=\\\n# no comment in a continuation", {"a": "# no comment in a continuation"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert values_of(parse_properties(text.encode())) == expected


def test_says_where_a_key_stands() -> None:
    assert parse_properties(b"# one\na=1\n\nb=2\\\n3\nc=4") == {"a": Property("1", 2), "b": Property("23", 4), "c": Property("4", 6)}


def test_takes_utf_8_with_a_mark_and_latin_1() -> None:
    assert values_of(parse_properties("﻿city=Děčín".encode())) == {"city": "Děčín"}
    assert values_of(parse_properties("city=Köln".encode("latin-1"))) == {"city": "Köln"}


def test_names_the_line_of_a_bad_escape() -> None:
    with pytest.raises(PropertiesError, match=r"line 2: .*u12x4"):
        parse_properties(b"a=1\nb=\\u12x4")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_file_in_utf_16_is_told_from_an_empty_one(encoding: str) -> None:
    with pytest.raises(PropertiesError, match="save it as UTF-8"):
        parse_properties("\ufeffnode.id=1".encode(encoding) if encoding == "utf-16-be" else "node.id=1".encode(encoding))
