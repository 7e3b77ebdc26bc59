"""Every transform against Kafka's own class, on random records: the same records, topics and headers, errors for the same cases."""

from collections import Counter
from random import Random

import pytest

from moldau.connect.transforms.catalogue import TRANSFORM_PLUGINS
from proof.connect.transforms import Oracle, case, comparable, is_beyond_our_calendar, ours
from proof.metadata.oracle import javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.skipif(javac() is None, reason="Kafka's classes are called from Java source, which a JDK compiles"),
]
CASES = 6000
SEED = 4


def test_each_transform_makes_of_a_record_what_kafkas_makes_of_it() -> None:
    random = Random(SEED)
    seen, worked, different = set(), set(), []
    with Oracle() as oracle:
        for _ in range(CASES):
            one = case(random)
            theirs, own = oracle.ask(one), ours(one)
            seen.add(one["type"])
            if "error" not in theirs:
                worked.add(one["type"])
            if comparable(theirs) != comparable(own) and not is_beyond_our_calendar(own):
                different.append(f"{one}\n  Java: {theirs}\n  ours: {own}")
    kinds = Counter(one.split("'")[3] for one in different)
    assert not different, f"{len(different)} of {CASES}: {kinds}\n" + "\n".join(different[:8])
    assert seen == worked == set(TRANSFORM_PLUGINS)
