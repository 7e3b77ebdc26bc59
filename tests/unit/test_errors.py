"""The numbers and retriability of error codes, by which Kafka's clients act."""

import ast
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from moldau.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("theirs", KioErrorCode, ids=lambda code: code.name)
def test_numbers_names_and_retriability_are_kafkas(theirs: KioErrorCode) -> None:
    ours = ErrorCode(theirs.value)
    assert ours.name.lower() == theirs.name
    assert ours.retriable == theirs.retriable


def test_each_says_something_of_its_own_in_one_sentence() -> None:
    texts = [code.text for code in ErrorCode]
    assert len(set(texts)) == len(texts)
    assert all(text[0].isupper() and text.endswith(".") and text.count(". ") == 0 for text in texts)


def test_codes_have_no_gaps() -> None:
    assert sorted(ErrorCode) == list(range(-1, max(ErrorCode) + 1))


def test_an_error_carries_its_code_and_a_text() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such key")) == "INVALID_CONFIG: no such key"
    assert KafkaError(ErrorCode.INVALID_CONFIG).detail == ErrorCode.INVALID_CONFIG.text


def test_a_code_that_a_newer_peer_made_up_counts_as_an_unknown_error() -> None:
    assert ErrorCode.of(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.of(-2) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert all(ErrorCode.of(int(code)) is code for code in ErrorCode)


def test_nobody_looks_up_a_code_in_a_way_that_raises() -> None:
    """`ErrorCode(number)` and a table of the known codes raise for others: numbers from a peer go through `ErrorCode.of`."""
    root = Path(__file__).parents[2]
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for source in ("src", "proof")
        for path in sorted((root / source).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ErrorCode")
        or (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in ("ErrorCode", "ERRORS"))
    ]
    assert not found, found
