"""The error that tells a producer that it is fenced."""

import pytest

from moldau.errors import ErrorCode
from moldau.server.coordinators.transactions import fenced_as_known


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 1, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NONE, 1, ErrorCode.NONE),
    ],
)
def test_older_clients_hear_of_the_epoch(code: ErrorCode, version: int, told: ErrorCode) -> None:
    assert fenced_as_known(code, version, since=2) is told


def test_some_requests_have_no_version_that_knows_it() -> None:
    assert fenced_as_known(ErrorCode.PRODUCER_FENCED) is ErrorCode.INVALID_PRODUCER_EPOCH
