"""One broker process for all clients, and the brokers on which our own clients have to do the same.

Every test with `bootstrap` is of the xdist group `both brokers`, so that one worker starts Apache Kafka once.
"""

from collections.abc import Iterator

import pytest

from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as broker:
        yield broker


@pytest.fixture(scope="session", params=["moldau", pytest.param("apache", marks=[pytest.mark.slow, pytest.mark.java])])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """Our broker, then Apache Kafka, for a whole session: give your topics and groups names of their own."""
    if request.param == "moldau":
        yield request.getfixturevalue("moldau_broker").bootstrap_servers
    else:
        with ApacheKafka() as kafka:
            yield kafka.bootstrap
