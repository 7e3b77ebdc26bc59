"""● For pytest, installed with the package, nothing to configure:

    moldau_broker      one `EmbeddedBroker` for the session, empty at its start: give your topics names of their own
    moldau_topic       the name of a topic of one partition that no other test has
    moldau_faults      what happens to the next requests: see `moldau.testing.faults`; cleared after the test

def test_orders(moldau_broker, moldau_topic):
    send_orders(moldau_broker.bootstrap_servers, moldau_topic)
    moldau_broker.expect(moldau_topic, [b"tea", b"cake"])
"""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.embedded import EmbeddedBroker
    from moldau.testing.faults import Faults


@pytest.fixture(scope="session")
def moldau_broker() -> "Iterator[EmbeddedBroker]":
    """A running broker."""
    # Imported here, because pytest loads the plugin in every project where the package is installed.
    from moldau.testing.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def moldau_topic(moldau_broker: "EmbeddedBroker") -> str:
    """A fresh topic of one partition."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    moldau_broker.create_topic(name)
    return name


@pytest.fixture
def moldau_faults(moldau_broker: "EmbeddedBroker") -> "Iterator[Faults]":
    """The broker's faults, none of which outlives the test."""
    yield moldau_broker.faults
    moldau_broker.faults.clear()
