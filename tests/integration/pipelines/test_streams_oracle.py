"""Every operator gives what Kafka Streams 4.3.1 gives: the same records in the order of their keys, the same tables at the end.

`python -m proof.streams.run` tries more inputs.
"""

from collections.abc import Iterator

import pytest

from proof.metadata.oracle import Oracle, javac
from proof.streams.cases import OPERATORS, cases
from proof.streams.comparison import differences
from proof.streams.listed import is_listed
from proof.streams.plants import PLANTS, planted
from proof.streams.run import compared, name_of, streams_oracle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.xdist_group("streams oracle"),
    pytest.mark.skipif(javac() is None, reason="no javac: the program that asks Kafka's classes is compiled here"),
]
CASES = 40
UNTIL_FOUND = 200


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with streams_oracle() as started:
        yield started


@pytest.mark.parametrize("number", range(len(OPERATORS)), ids=[name_of(options) for options, _ in OPERATORS])
def test_an_operator_answers_as_kafka_streams(oracle: Oracle, number: int) -> None:
    results, found, _ = compared(oracle, number, CASES)
    assert not found, found[0]
    assert results > CASES / 2, "inputs without results show nothing"


def test_the_comparison_sees_a_difference(oracle: Oracle) -> None:
    case = next(case for case in cases(0, 20) if len(case.records) > 10)
    answer = oracle.answer(case.question())
    answer["written"][3][3] += 1
    assert differences(case, answer)
    answer["written"][3][3] -= 1
    assert not differences(case, answer)
    answer["table"].popitem()
    assert differences(case, answer)


@pytest.mark.parametrize(("operator", "turn"), [("versioned tables inner", 142), ("versioned grouped aggregate", 186)])
def test_a_tombstone_at_the_time_of_a_version_is_the_listed_difference(oracle: Oracle, operator: str, turn: int) -> None:
    number = next(number for number, (options, _) in enumerate(OPERATORS) if name_of(options) == operator)
    case = list(cases(number, turn + 1))[turn]
    answer = oracle.answer(case.question())
    assert differences(case, answer) and is_listed(case, answer)
    answer["written"].pop()
    assert not is_listed(case, answer)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(oracle: Oracle, name: str) -> None:
    operator = PLANTS[name].operator
    number = next(number for number, (options, _) in enumerate(OPERATORS) if name_of(options) == operator)
    with planted(name):
        found = next(
            (turn for turn, case in enumerate(cases(number, UNTIL_FOUND)) if differences(case, oracle.answer(case.question()))), None
        )
    assert found is not None, f"{UNTIL_FOUND} inputs do not show it"
