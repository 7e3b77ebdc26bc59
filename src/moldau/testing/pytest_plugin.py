"""● A plug-in for pytest, installed with the package, without configuration:

    moldau_broker      one `EmbeddedBroker` for the session, empty at its start: give your topics names of their own
    moldau_topic       the name of a topic of one partition that no other test has
    moldau_faults      faults of the next requests: see `moldau.testing.faults`; cleared after the test
    moldau_process     one broker as a process of its own, to be killed and started again; it runs at the start of each test
    moldau_cluster     three of them that are one cluster, started once; all run at the start of each test

def test_orders(moldau_broker, moldau_topic):
    send_orders(moldau_broker.bootstrap_servers, moldau_topic)
    moldau_broker.expect(moldau_topic, [b"tea", b"cake"])
"""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster
    from moldau.testing.embedded import EmbeddedBroker
    from moldau.testing.faults import Faults
    from moldau.testing.process import BrokerProcess


@pytest.fixture(scope="session")
def moldau_broker() -> "Iterator[EmbeddedBroker]":
    """A running broker."""
    # The import stands here, because pytest loads the plugin in every project where the package is installed.
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
    """The broker's faults; none outlives the test."""
    yield moldau_broker.faults
    moldau_broker.faults.clear()


@pytest.fixture(scope="session")
def moldau_process_of_session() -> "Iterator[BrokerProcess]":
    """The broker behind `moldau_process`."""
    from moldau.testing.process import BrokerProcess

    with BrokerProcess() as broker:
        yield broker


@pytest.fixture
def moldau_process(moldau_process_of_session: "BrokerProcess") -> "BrokerProcess":
    """A running broker in a process: `kill()`, `stop()`, `start()`; the same folder and port."""
    broker = moldau_process_of_session
    if broker.process is not None and broker.process.poll() is not None:
        broker.kill()  # the process has ended by itself
    if broker.process is None:
        broker.start()
    return broker


@pytest.fixture(scope="session")
def moldau_cluster_of_session() -> "Iterator[Cluster]":
    """The cluster behind `moldau_cluster`."""
    from moldau.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def moldau_cluster(moldau_cluster_of_session: "Cluster") -> "Cluster":
    """Three nodes, each broker and controller, all of them serving."""
    cluster = moldau_cluster_of_session
    for node in cluster.nodes.values():
        if node.is_paused:
            node.resume()
        if node.process is not None and not node.is_running:
            node.kill()  # the process has ended by itself
    cluster.start()
    return cluster
