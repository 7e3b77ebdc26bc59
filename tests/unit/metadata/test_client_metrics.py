"""The options that a subscription of client metrics may have."""

import pytest

from moldau.config import MAX_INT
from moldau.errors import ErrorCode
from moldau.metadata.client_metrics import is_java_pattern, validate_client_metrics


def test_client_metrics() -> None:
    assert validate_client_metrics("m", {"interval.ms": "1000", "match": "client_id=x"}) is None
    for configs in ({"interval.ms": "5"}, {"interval.ms": str(MAX_INT)}, {"nosuch": "1"}, {"match": "nosuch=x"}):
        assert validate_client_metrics("m", configs) is not None, configs
    assert validate_client_metrics("", {}) is not None


@pytest.mark.parametrize("match", ["client_id=[", "client_id=", "client_id=a=b", "client_id=(?P<n>a)", "x", "client_id=*", "client_id={"])
def test_a_pattern_that_java_refuses_is_refused(match: str) -> None:
    """Seen with Kafka 4.3.1."""
    refusal = validate_client_metrics("m", {"match": match})
    assert refusal is not None and refusal.code is ErrorCode.INVALID_CONFIG
    assert refusal.message == f"Illegal client matching pattern: {match}"


@pytest.mark.parametrize(
    "match",
    [
        "",
        "client_id=a,client_id=b",
        " client_id = a ",
        "client_id=a++",
        "client_id=\\p{Alpha}+",
        "client_id=(?<n>a)",
        "client_id=[a-z&&[^b]]",
    ],
)
def test_a_pattern_that_java_takes_is_taken(match: str) -> None:
    """Seen with Kafka 4.3.1."""
    assert validate_client_metrics("m", {"match": match}) is None


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        ("\\Q[\\E", True),
        ("\\Q[", True),
        ("a{2,3}", True),
        ("a{", False),
        ("(?i)a|(?s:b)", True),
        ("(?<n>a)\\k<n>", True),
        ("\\k<m>", False),
        ("(?<=a+)b", True),
        ("\\x{1F600}\\h\\z", True),
        ("a)", False),
        ("(" * 5_000, False),
        ("a{99999999999}", False),
        ("a\\", False),
    ],
)
def test_java_patterns(pattern: str, is_taken: bool) -> None:
    assert is_java_pattern(pattern) is is_taken
