"""A cluster of processes under faults of one seed: no acknowledged record is lost, doubled or out of order."""

import pytest

from moldau.testing.cluster import Cluster
from proof.cluster.processes import QUICK, Hurting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]


def test_what_clients_were_promised_outlives_kills_pauses_and_stops() -> None:
    with Cluster(brokers=3, properties=QUICK) as cluster:
        hurting = Hurting(cluster, seed=3)
        assert hurting.run(4, ["leader killed", "all killed", "all stopped", "controller killed"]) == []
