"""Tiered storage, which several brokers cannot share yet, is refused at the start."""

from pathlib import Path

import pytest

from moldau.testing.child import BrokerFailed
from moldau.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]


def test_tiered_storage_on_a_second_broker_is_refused_in_one_line(tmp_path: Path) -> None:
    tiered = {"remote.log.storage.system.enable": "true", "rsm.config.storage.url": f"file://{tmp_path}"}
    with pytest.raises(BrokerFailed) as failed, Cluster(brokers=2, controllers=1, properties=tiered):
        pass
    (line,) = [line for line in str(failed.value).splitlines() if "remote.log.storage.system.enable" in line]
    assert "works on a cluster of one broker only, and this one has others: " in line
    assert "Traceback" not in str(failed.value)


def test_tiered_storage_is_there_for_one_broker_with_controllers_of_its_own(tmp_path: Path) -> None:
    tiered = {"remote.log.storage.system.enable": "true", "rsm.config.storage.url": f"file://{tmp_path}"}
    with Cluster(brokers=1, controllers=3, properties=tiered) as cluster:
        assert [broker.node_id for broker in cluster.metadata().brokers] == [1]
