"""Controllers become voters and stop being voters, by Kafka's tool and by ours, in clusters of real processes."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.testing.child import CLUSTER_ID
from moldau.testing.cluster import Cluster, ClusterNode
from moldau.testing.process import FORMAT_WITHIN_S, moldau_command
from proof.kafka.twins import Ended, ours, theirs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

WITHIN_S = 60.0
QUORUM, FEATURES, CONFIGS = "kafka-metadata-quorum", "kafka-features", "kafka-configs"
JAVA = pytest.param(theirs, id="Kafka's tool", marks=pytest.mark.java)
OURS = pytest.param(ours, id="ours")
Run = Callable[..., Ended]


class Newcomer(ClusterNode):
    """A controller that no list of voters names."""

    def format_folder(self) -> None:
        format_plainly(self, "--no-initial-controllers")


class FixedVoter(ClusterNode):
    """A node of a quorum that controller.quorum.voters names: kraft.version 0."""

    def server_properties(self) -> dict[str, str]:
        properties = super().server_properties()
        del properties["controller.quorum.bootstrap.servers"]
        voters = ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in self.controllers)
        return {**properties, "controller.quorum.voters": voters}

    def format_folder(self) -> None:
        format_plainly(self)


def format_plainly(node: ClusterNode, *how: str) -> None:
    command = moldau_command("storage", "format", "-t", CLUSTER_ID, "-c", str(node.properties_file), *how)
    subprocess.run(command, env=node.environment(), check=True, timeout=FORMAT_WITHIN_S, capture_output=True)


def succeeds(run: Run, tool: str, *arguments: str) -> str:
    """The output of a tool.  A change that has to wait for another one is tried again, as the tool asks for."""
    until = time.monotonic() + WITHIN_S
    while True:
        ended = run(tool, *arguments)
        if ended.exit_code == 0 or time.monotonic() > until:
            assert ended.exit_code == 0, ended
            return ended.out


def voters(cluster_bootstrap: str, *, option: str = "--bootstrap-server") -> list[dict[str, object]]:
    status = dict(
        line.split(":", 1) for line in succeeds(ours, QUORUM, option, cluster_bootstrap, "describe", "--status").splitlines() if ":" in line
    )
    found: list[dict[str, object]] = json.loads(status["CurrentVoters"])
    return found


def level_of_quorum(*at: str) -> str:
    """The finalized level of kraft.version."""
    (line,) = [one for one in succeeds(ours, FEATURES, *at, "describe").splitlines() if one.startswith("Feature: kraft.version")]
    return line.split("FinalizedVersionLevel:")[1].split()[0]


def ids(found: list[dict[str, object]]) -> list[object]:
    return sorted(one["id"] for one in found)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, controllers=3) as started:
        yield started


def a_newcomer(cluster: Cluster, **more: str) -> Newcomer:
    properties = {**cluster.nodes[101].extra, **{key.replace("_", "."): value for key, value in more.items()}}
    node = Newcomer(104, ("controller",), cluster.directory / "node-104", properties)
    node.controllers = [each for each in cluster.nodes.values() if each.is_controller]
    return node


@pytest.mark.parametrize("run", [OURS, JAVA])
def test_a_controller_is_added_and_another_removed_through_a_broker_and_through_a_controller(cluster: Cluster, run: Run) -> None:
    with a_newcomer(cluster) as new:
        at = ("--bootstrap-server", cluster.bootstrap)
        config = ("--command-config", str(new.properties_file))
        said = succeeds(run, QUORUM, *at, *config, "add-controller", "--dry-run")
        assert said.startswith("DRY RUN of adding controller 104 with directory id ")
        assert ids(voters(cluster.bootstrap)) == [101, 102, 103]
        said = succeeds(run, QUORUM, *at, *config, "add-controller")
        assert said.startswith("Added controller 104 with directory id ")
        assert said.rstrip().endswith(f"and endpoints: CONTROLLER://127.0.0.1:{new.controller_port}")
        found = voters(cluster.bootstrap)
        assert ids(found) == [101, 102, 103, 104]

        first = cluster.nodes[101]
        gone = next(str(one["directoryId"]) for one in found if one["id"] == 101)
        through = ("--bootstrap-controller", f"127.0.0.1:{cluster.nodes[102].controller_port}")
        removal = ("remove-controller", "--controller-id", "101", "--controller-directory-id", gone)
        assert succeeds(run, QUORUM, *through, *removal) == f"Removed  KRaft controller 101 with directory id {gone}\n"
        assert ids(voters(through[1], option=through[0])) == [102, 103, 104]
        first.stop()
        again = run(QUORUM, *at, *removal)
        assert again.exit_code == 1 and "101" in again.out + again.err


def test_settings_of_a_controller_are_shown_and_changed_through_any_controller(cluster: Cluster) -> None:
    for asked in (101, 102, 103):
        through = ("--bootstrap-controller", f"127.0.0.1:{cluster.nodes[asked].controller_port}", "--entity-type", "brokers")
        threads = f"log.cleaner.threads={asked - 100}"
        succeeds(ours, CONFIGS, *through, "--alter", "--entity-default", "--add-config", threads)
        said = succeeds(ours, CONFIGS, *through, "--describe", "--entity-default")
        assert f"  {threads} sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{threads}}}\n" in said
    # Controller 103 is asked about the settings of 101 and 102; the active controller may be any of them.
    assert succeeds(ours, CONFIGS, *through, "--describe", "--entity-name", "101") == "Dynamic configs for broker 101 are:\n"
    assert "  node.id=102 " in succeeds(ours, CONFIGS, *through, "--describe", "--entity-name", "102", "--all")
    nobody = succeeds(ours, CONFIGS, *through, "--describe", "--entity-name", "1")
    assert nobody == "The broker '1' doesn't exist and doesn't have dynamic config.\n"


def test_a_controller_joins_by_itself(cluster: Cluster) -> None:
    with a_newcomer(cluster, **{"controller.quorum.auto.join.enable": "true"}):
        until = time.monotonic() + WITHIN_S
        while ids(voters(cluster.bootstrap)) != [101, 102, 103, 104]:
            assert time.monotonic() < until, "it did not become a voter"


@pytest.mark.parametrize("run", [OURS, JAVA])
def test_voters_of_the_options_become_voters_of_the_log_while_the_cluster_runs(tmp_path: Path, run: Run) -> None:
    common = {"offsets.topic.replication.factor": "3"}
    nodes = [FixedVoter(number, ("broker", "controller"), tmp_path / f"node-{number}", common) for number in (1, 2, 3)]
    for node in nodes:
        node.controllers = nodes
    with ExitStack() as running:
        for node in nodes:
            node.prepare()
            running.callback(node.kill)
            node.launch()
        for node in nodes:
            node.wait_until_ready()
        at = ("--bootstrap-server", nodes[0].bootstrap)
        assert level_of_quorum(*at) == "0"
        assert "kraft.version was upgraded to 1" in succeeds(run, FEATURES, *at, "upgrade", "--feature", "kraft.version=1")
        assert level_of_quorum(*at) == "1"
        found = voters(nodes[0].bootstrap)
        assert ids(found) == [1, 2, 3] and all("directoryId" in one for one in found)
        refused = run(FEATURES, *at, "downgrade", "--feature", "kraft.version=0")
        assert refused.exit_code == 1 and "downgrade" in refused.out + refused.err
        for node in nodes:
            node.stop()
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_until_ready()
        assert voters(nodes[1].bootstrap) == found
