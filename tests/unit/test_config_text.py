"""Options as DescribeConfigs and properties files spell them."""

import sys

import pytest

from moldau.config import Kind, Option


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
    option = Option("x", "x", Kind.DOUBLE, 0.0, None, (), None, "read-only", "low", "", nullable=False)
    assert option.text(value) == text
    assert option.parse(text) == value
