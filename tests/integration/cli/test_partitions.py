"""`moldau partitions` on a broker with two folders."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.process import BrokerProcess
from proof.kafka.twins import Ended, ours

pytestmark = pytest.mark.slow

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("node")
    with BrokerProcess(directory=folder / "node", properties={"log.dirs": f"{folder}/one,{folder}/two"}) as running:
        assert ours("topics", "create", "orders", "--partitions", "3", "--bootstrap-server", running.bootstrap).exit_code == 0
        yield running


def rows(broker: BrokerProcess, *topics: str) -> list[list[str]]:
    done = ours("partitions", "list", *topics, "--bootstrap-server", broker.bootstrap)
    assert done.exit_code == 0, done.err
    title, *lines = done.out.splitlines()
    assert title.split("\t") == ["TOPIC", "PARTITION", "BROKER", "FOLDER", "SIZE", "STATE"]
    return [line.split("\t") for line in lines]


def ask(broker: BrokerProcess, *arguments: str) -> Ended:
    return ours("partitions", *arguments, "--bootstrap-server", broker.bootstrap)


def test_partitions_are_listed_with_their_folders(broker: BrokerProcess) -> None:
    found = rows(broker, "orders:2,0")
    assert [row[:3] for row in found] == [["orders", "0", "1"], ["orders", "2", "1"]]
    assert {Path(row[3]).name for row in found} <= {"one", "two"} and found[0][4:] == ["0 B", ""]
    assert [row for row in rows(broker) if row[0] == "orders"] == rows(broker, "orders")


def test_a_replica_moves_to_another_folder(broker: BrokerProcess) -> None:
    here = rows(broker, "orders:1")[0][3]
    there = str(Path(here).parent / ("two" if here.endswith("one") else "one"))
    assert ask(broker, "move", "orders:1", there).out == f"orders-1 moves from {here} to {there}.\n"
    deadline = time.monotonic() + WITHIN_S
    while [row[3] for row in rows(broker, "orders:1")] != [there]:
        assert time.monotonic() < deadline, rows(broker, "orders:1")
    assert ask(broker, "move", "orders:1", there).out == f"orders-1 is in {there} already.\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("list nosuch", "there is no topic nosuch"),
        ("list orders:7", 'The partitions "orders-7" do not exist'),
        ("list orders:x", "Invalid partition 'x' specified"),
        ("move orders /nowhere", "/nowhere is not in log.dirs of broker 1"),
        ("move orders /nowhere --broker 9", "broker 9 has none of them"),
    ],
)
def test_what_cannot_be_is_one_line(broker: BrokerProcess, command: str, says: str) -> None:
    done = ask(broker, *command.split())
    assert done.exit_code == 1 and says in done.err and done.err.count("\n") == 1


def test_leaders_that_are_the_preferred_ones_stay(broker: BrokerProcess) -> None:
    for arguments in ((), ("orders",), ("orders:0", "--unclean")):
        assert ask(broker, "elect", *arguments)[:2] == (0, "Every partition has the leader that it should have.\n")
