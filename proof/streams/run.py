"""● Puts random inputs through each operator, in memory, and through Kafka Streams' own.

python -m proof.streams.run --cases 200
python -m proof.streams.run --only versioned --seed 7
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from proof.kafka.provision import streams_jars
from proof.metadata.oracle import Oracle
from proof.streams.cases import OPERATORS, cases
from proof.streams.comparison import differences
from proof.streams.listed import is_listed

SOURCE: Final = Path(__file__).parent / "oracle" / "Operators.java"


@contextmanager
def streams_oracle() -> Iterator[Oracle]:
    """Kafka Streams 4.3.1 in a JVM, which answers one case after the other."""
    with Oracle(SOURCE, "Operators", streams_jars()) as oracle:
        yield oracle


def name_of(options: dict[str, Any]) -> str:
    return " ".join(str(value) for value in options.values() if value not in ("", False))


class Compared(NamedTuple):
    """What the cases of an operator gave."""

    results: int
    found: list[str]
    """The differences in words, without listed ones."""
    listed: int
    """The cases that differ as docs/reference/streams.md says."""


def compared(oracle: Oracle, number: int, count: int, seed: int = 0) -> Compared:
    results, found, listed = 0, [], 0
    for case in cases(number, count, seed):
        answer = oracle.answer(case.question())
        results += len(answer["written"])
        if not (different := differences(case, answer)):
            continue
        if is_listed(case, answer):
            listed += 1
        else:
            found.append(f"{case.options} {case.records}: {different[0]}")
    return Compared(results, found, listed)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="the number of inputs for each operator (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of the operators' names")
    given = parser.parse_args(arguments)
    is_equal = True
    with streams_oracle() as oracle:
        for number, (options, _) in enumerate(OPERATORS):
            if given.only in name_of(options):
                results, found, listed = compared(oracle, number, given.cases, given.seed)
                print(f"{name_of(options)}: {given.cases} inputs, {results} results, {listed} as listed, {len(found)} differ", flush=True)
                print(*found[:2], sep="\n", end="\n" if found else "", flush=True)
                is_equal = is_equal and not found
    raise SystemExit(not is_equal)


if __name__ == "__main__":
    main()
