"""The declaration of an option, and how DescribeConfigs and properties files spell values."""

import sys

import pytest

from moldau.config import (
    ConfigError,
    Configs,
    Kind,
    Long,
    Option,
    Password,
    at_least,
    between,
    each_of,
    first_refusal,
    nearest,
    one_of,
    option,
)


class Barrel(Configs, update="cluster-wide"):
    litres: int = option("barrel.litres", 120, "How much it holds.", topic="litres", check=at_least(1))
    age_ms: Long = option("barrel.age.ms", 0, "How old it is.", fallbacks=[("barrel.age.hours", 3_600_000)], update="read-only")
    secret: Password | None = option("barrel.secret", None, "What is in it.", is_ours=True)


def test_the_annotation_says_the_kind_and_the_class_how_an_option_changes() -> None:
    declared = {field: (one.kind, one.update, one.nullable) for field, one in Barrel.OPTIONS.items()}
    assert declared == {
        "litres": (Kind.INT, "cluster-wide", False),
        "age_ms": (Kind.LONG, "read-only", False),
        "secret": (Kind.PASSWORD, "cluster-wide", True),
    }


def test_values_come_from_the_key_then_from_those_behind_it_then_from_the_default() -> None:
    assert Barrel.load({}) == Barrel(litres=120, age_ms=0, secret=None)
    assert Barrel.load({"barrel.age.hours": "2"}).age_ms == 7_200_000
    assert Barrel.load({"barrel.age.hours": "2", "barrel.age.ms": "5"}).age_ms == 5


def test_a_topic_overrides_what_has_a_topic_key() -> None:
    barrel = Barrel.load({"barrel.litres": "60"})
    assert barrel.override({"litres": "30", "barrel.age.ms": "5"}) == Barrel(litres=30)
    with pytest.raises(ConfigError, match="Invalid value 0 for configuration litres: Value must be at least 1"):
        barrel.override({"litres": "0"})


MOST_INT, MOST_SHORT, MOST_LONG = (1 << 31) - 1, (1 << 15) - 1, (1 << 63) - 1


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, " TRUE ", True),
        (Kind.BOOLEAN, "false", False),
        (Kind.BOOLEAN, "yes", None),
        (Kind.INT, str(MOST_INT), MOST_INT),
        (Kind.INT, str(MOST_INT + 1), None),
        (Kind.INT, str(-MOST_INT - 1), -MOST_INT - 1),
        (Kind.INT, str(-MOST_INT - 2), None),
        (Kind.INT, "+5", 5),
        (Kind.INT, "+-5", None),
        (Kind.INT, "", None),
        (Kind.INT, "1_0", None),
        (Kind.INT, "٥", None),
        (Kind.INT, "1.0", None),
        (Kind.SHORT, str(MOST_SHORT), MOST_SHORT),
        (Kind.SHORT, str(MOST_SHORT + 1), None),
        (Kind.LONG, str(MOST_LONG), MOST_LONG),
        (Kind.LONG, str(MOST_LONG + 1), None),
        (Kind.LONG, str(-MOST_LONG - 1), -MOST_LONG - 1),
        (Kind.LONG, "0" * 30, None),
        (Kind.DOUBLE, "1e3", 1000.0),
        (Kind.DOUBLE, "1_0", None),
        (Kind.DOUBLE, "much", None),
        (Kind.LIST, "a, b ,", ("a", "b", "")),
        (Kind.LIST, "", ()),
        (Kind.STRING, " x ", "x"),
        (Kind.PASSWORD, " x ", " x "),
    ],
)
def test_texts_are_read_as_kafka_reads_them(kind: Kind, text: str, value: object) -> None:
    option = Option("an.option", kind, None)
    if value is not None:
        assert option.parse(text) == value and type(option.parse(text)) is type(value)
        return
    with pytest.raises(ConfigError) as error:
        option.parse(text, key="its.other.name")
    assert (error.value.key, error.value.value) == ("its.other.name", text)
    assert error.value.reason in ("Expected value to be either true or false", f"Not a number of type {kind.name}")


def test_a_unit_multiplies_what_counts_and_leaves_no_limit_alone() -> None:
    option = Option("an.option.ms", Kind.LONG, 0)
    assert [option.parse(text, factor=60_000) for text in ("-1", "0", "2")] == [-1, 0, 120_000]


def test_values_are_spelled_as_in_a_properties_file() -> None:
    spelled = {
        Kind.BOOLEAN: (True, "true"),
        Kind.INT: (5, "5"),
        Kind.LIST: (("a", "b"), "a,b"),
        Kind.STRING: ("x", "x"),
        Kind.DOUBLE: (0.5, "0.5"),
    }
    for kind, (value, text) in spelled.items():
        assert Option("x", kind, None).text(value) == text
        assert Option("x", kind, None).text(None) is None
    assert Option("x", Kind.BOOLEAN, None).text(False) == "false"


def test_kinds_have_the_numbers_of_describe_configs() -> None:
    numbers = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}
    assert {kind.name: int(kind) for kind in Kind} == numbers


def test_a_refusal_shows_no_more_of_a_value_than_a_message_has_room_for() -> None:
    assert str(ConfigError("k", "9" * 2_000, "no")) == f"Invalid value {'9' * 2_000} for configuration k: no"
    assert str(ConfigError("k", "9" * 5_000_000, "no")) == f"Invalid value {'9' * 2_000}… (5000000 characters) for configuration k: no"


def test_what_checks_say() -> None:
    assert at_least(1)(1) is None and at_least(1)(0) == "Value must be at least 1"
    inside = between(1, 3)
    assert [inside(value) for value in (1, 3)] == [None, None]
    assert inside(0) == "Value must be at least 1"
    assert inside(4) == "Value must be no more than 3"
    assert one_of("a", "b")("b") is None and one_of("a", "b")("c") == "String must be one of: a, b"
    assert each_of("a", "b")(("a", "b")) is None and each_of("a", "b")(("a", "c")) == "String must be one of: a, b"
    assert nearest("barel.litres", ["barrel.litres", "cellar.door"]) == "barrel.litres" and nearest("nosuch", ["barrel.litres"]) is None


class Cellar(Configs):
    shelf_litres: int = option("cellar.shelf.litres", 500, "What a shelf bears.", bounds=[">= barrel.litres"])
    door_litres: int = option(
        "cellar.door.litres", 121, "What goes through the door.", bounds=["> barrel.litres", "<= cellar.shelf.litres"]
    )

    def refusal(self) -> ConfigError | None:
        return ConfigError("cellar.shelf.litres", 13, "that brings bad luck") if self.shelf_litres == 13 else None


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, None),
        ({"cellar.shelf.litres": "121"}, None),
        ({"barrel.litres": "121"}, "cellar.door.litres: it must be greater than barrel.litres, which is 121: change one of the two"),
        ({"cellar.shelf.litres": "120"}, "cellar.door.litres: it must be less than or equal to cellar.shelf.litres, which is 120"),
        ({"cellar.shelf.litres": "13"}, "cellar.shelf.litres: it must be greater than or equal to barrel.litres, which is 120"),
        ({"cellar.shelf.litres": "13", "cellar.door.litres": "9", "barrel.litres": "8"}, "cellar.shelf.litres: that brings bad luck"),
    ],
    ids=str,
)
def test_options_of_several_rooms_go_together(properties: dict[str, str], says: str | None) -> None:
    found = first_refusal([Barrel.load(properties), Cellar.load(properties)])
    assert (found is None) == (says is None) and (says or "") in str(found)


def test_a_bound_by_an_option_that_no_room_has_binds_nothing() -> None:
    assert first_refusal([Cellar(shelf_litres=1, door_litres=1)]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.0001, "1.0E-4"),
        (0.001, "0.001"),
        (sys.float_info.max, "1.7976931348623157E308"),
        (-123456789.5, "-1.234567895E8"),
    ],
)
def test_doubles_are_spelled_as_java_does(value: float, text: str) -> None:
    option = Option("x", Kind.DOUBLE, 0.0)
    assert option.text(value) == text
    assert option.parse(text) == value
