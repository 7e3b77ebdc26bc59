"""● For pytest: the fixture `moldau_broker`, one `EmbeddedBroker` for the session.  Installed with the package, nothing to configure.

def test_orders(moldau_broker):
    producer = Producer({"bootstrap.servers": moldau_broker.bootstrap_servers})
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def moldau_broker() -> "Iterator[EmbeddedBroker]":
    """A running broker, empty at the start of the session: give your topics names of their own."""
    # Imported here, because pytest loads the plugin in every project where the package is installed.
    from moldau.testing.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker
