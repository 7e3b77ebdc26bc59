"""Our decisions about partitions and brokers are those of Kafka's own controller classes."""

from collections import Counter

import pytest

from proof.metadata.comparison import ACCEPTED, begin, differences
from proof.metadata.oracle import Oracle, javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.skipif(javac() is None, reason="no javac: the program that asks Kafka's classes is compiled here"),
]
CASES = 4_500
"""So many that the rarest reason for a difference is met."""


def test_random_clusters_go_on_as_with_kafka() -> None:
    """The same brokers, partitions and requests give the same records and answers, but where we differ on purpose."""
    accepted: Counter[str] = Counter()
    with Oracle() as oracle:
        for seed in range(CASES):
            case = begin(seed)
            for found in differences(case, oracle.ask(case.question())):
                assert found.accepted is not None, f"seed {seed}: {found}"
                accepted[found.accepted] += 1
    assert accepted.keys() == ACCEPTED.keys(), "a reason that no case meets any more is to be taken out"


def test_the_comparison_sees_a_difference() -> None:
    with Oracle() as oracle:
        cases = map(begin, range(1_000))
        case = next(one for one in cases if one.decided[0].step.op == "alter_partition" and one.decided[0].records)
        answers = oracle.ask(case.question())
        assert not differences(case, answers)
        answers[0]["records"] = answers[0]["records"][1:]
        assert differences(case, answers)
