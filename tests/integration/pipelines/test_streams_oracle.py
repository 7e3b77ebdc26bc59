"""Every operator gives what Kafka Streams 4.3.1 gives: the same records in the order of their keys, the same tables at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import proof.streams
from proof.kafka.provision import streams_jars
from proof.metadata.oracle import Oracle, javac
from proof.streams.cases import OPERATORS, cases
from proof.streams.comparison import differences

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.xdist_group("streams oracle"),
    pytest.mark.skipif(javac() is None, reason="no javac: the program that asks Kafka's classes is compiled here"),
]
CASES = 200
SOURCE = Path(proof.streams.__file__).parent / "oracle" / "Operators.java"


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(SOURCE, "Operators", streams_jars()) as started:
        yield started


@pytest.mark.parametrize("number", range(len(OPERATORS)), ids=[" ".join(map(str, options.values())) for options, _ in OPERATORS])
def test_an_operator_answers_as_kafka_streams(oracle: Oracle, number: int) -> None:
    results = 0
    for case in cases(number, CASES):
        answer = oracle.answer(case.question())
        results += len(answer["written"])
        found = differences(case, answer)
        assert not found, f"{case.options} {case.records}: {found[0]}"
    assert results > CASES, "inputs without results show nothing"


def test_the_comparison_sees_a_difference(oracle: Oracle) -> None:
    case = next(case for case in cases(0, 20) if len(case.records) > 10)
    answer = oracle.answer(case.question())
    answer["written"][3][3] += 1
    assert differences(case, answer)
    answer["written"][3][3] -= 1
    assert not differences(case, answer)
    answer["table"].popitem()
    assert differences(case, answer)
