"""One broker process for all clients."""

from collections.abc import Iterator

import pytest

from moldau.testing.process import BrokerProcess


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as broker:
        yield broker
