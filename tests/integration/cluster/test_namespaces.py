import subprocess

import pytest

from proof.cluster.namespaces import Namespaces, why_not

WHY_NOT = why_not()
pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")]


def test_no_device_is_left_that_the_next_cluster_would_make() -> None:
    """The kernel removes the devices of a namespace some time after the namespace, so there are several attempts to see one."""
    for _ in range(10):
        with Namespaces([1, 2, 3]) as net:
            network = net.host(1).split(".")[2]
        left = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True).stdout
        assert f"moldau-{network}-" not in left
