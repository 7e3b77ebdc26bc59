"""A cluster of processes in network namespaces: lines are cut in one direction, disks lose power, partitions move under a throttle."""

from pathlib import Path

import pytest

from proof.cluster.apart import ClusterApart
from proof.cluster.hurting_apart import OPTIONS, HurtingApart
from proof.cluster.namespaces import why_not

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
]


def test_what_clients_were_promised_outlives_cuts_and_moves() -> None:
    with ClusterApart(brokers=4, controllers=0, properties=OPTIONS) as cluster:
        hurting = HurtingApart(cluster, seed=1)
        assert hurting.run(3, ["one-way cuts", "moves under throttle, a leader killed", "leader unplugged and killed"]) == []


@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="there is no /dev/fuse")
def test_what_clients_were_promised_outlives_a_power_cut() -> None:
    with ClusterApart(brokers=3, controllers=0, has_disks=True, properties=OPTIONS) as cluster:
        hurting = HurtingApart(cluster, seed=1, has_disks=True)
        assert hurting.run(2, ["power cut"]) == []


@pytest.mark.java
def test_what_kafkas_java_clients_were_promised_outlives_a_kill(tmp_path: Path) -> None:
    with ClusterApart(brokers=3, controllers=0, properties=OPTIONS, directory=tmp_path) as cluster:
        hurting = HurtingApart(cluster, seed=1, has_java=True)
        assert hurting.run(1, ["leader killed"]) == []
