"""Error codes: the numbers and retriability that Kafka's clients go by."""

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
