"""The tables of kafka-transactions, and the options that it refuses before it asks a broker."""

import pytest

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.transactions import LIST_COLUMNS, lines, main


def test_a_table_as_kafka_prints_it() -> None:
    rows = [("billing-of-the-whole-world", 1, 4000, "Ongoing"), ("b", 12, None, "PrepareCommit")]
    assert lines(LIST_COLUMNS, rows) == [
        "TransactionalId           \tCoordinator\tProducerId\tTransactionState\t",
        "billing-of-the-whole-world\t1          \t4000      \tOngoing         \t",
        "b                         \t12         \tNone      \tPrepareCommit   \t",
    ]
    assert lines(("A",), []) == ["A\t"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list"], "--bootstrap-server is required"),
        (["--bootstrap-server", "localhost:1"], "too few arguments"),
        (["--bootstrap-server", "localhost:1", "describe"], "--transactional-id"),
        (["--bootstrap-server", "localhost:1", "lst"], "is not one of list, describe"),
    ],
)
def test_mistakes_are_named(arguments: list[str], words: str) -> None:
    with pytest.raises(Failure, match=words):
        main(arguments)
