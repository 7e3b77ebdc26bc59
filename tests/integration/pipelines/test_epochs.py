"""A micro-batch takes the epoch of the one before only if that epoch was passed on, is unused and nobody took the next."""

import pickle
import tempfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql.types import StringType, StructType

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.transactions import OffsetMark, add_offset, begin, end
from moldau.clients.cluster import parse_bootstrap
from moldau.clients.view import ClusterView
from moldau.pipelines.topics import create_topics
from proof.pipelines.bare import Hand
from pyspark_moldau import DefaultSource
from pyspark_moldau.epochs import Epoch, epoch_for, pass_on

pytestmark = pytest.mark.slow

TIMEOUT_MS = 60_000


@pytest.fixture
def cluster(either_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingCluster]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with BlockingCluster(parse_bootstrap(either_bootstrap)) as cluster:
        yield cluster


def planned(cluster: BlockingCluster, name: str, timeout_ms: int = TIMEOUT_MS) -> Epoch:
    cluster_id = cluster.retrying(lambda: cluster.refresh([])).cluster_id or ""
    return epoch_for(cluster, cluster_id, name, timeout_ms=timeout_ms)


def planned_elsewhere(bootstrap: str, name: str) -> Epoch:
    with BlockingCluster(parse_bootstrap(bootstrap)) as cluster:
        return planned(cluster, name)


def test_an_unused_epoch_is_taken_again(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    pass_on(first)
    second = planned(cluster, prefix)
    assert second.producer == first.producer
    assert second.token != first.token


def test_processes_that_take_turns_pass_the_epoch_on(cluster: BlockingCluster, either_bootstrap: str, prefix: str) -> None:
    hands = [Hand() for _ in range(4)]
    try:
        found = []
        for number in range(6):
            found.append(hands[number % 2].ask(planned_elsewhere, either_bootstrap, prefix))
            hands[2 + number % 2].ask(pass_on, found[-1])
    finally:
        for hand in hands:
            hand.end()
    assert len({one.producer for one in found}) == 1
    assert len({one.token for one in found}) == 6


def test_an_epoch_that_was_not_passed_on_is_not_taken_again(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    pass_on(first)
    second = planned(cluster, prefix)
    third = planned(cluster, prefix)  # the second passed nothing on, so its tasks may still write
    assert second.producer == first.producer != third.producer


def test_of_two_that_plan_at_a_time_one_takes_it_and_one_is_fenced(cluster: BlockingCluster, either_bootstrap: str, prefix: str) -> None:
    together = Barrier(2)

    def rival(_: int) -> Epoch:
        with BlockingCluster(parse_bootstrap(either_bootstrap)) as own:
            own.refresh([])
            together.wait()
            return planned(own, prefix)

    with ThreadPoolExecutor(2) as rivals:
        for _ in range(10):
            pass_on(planned(cluster, prefix))
            one, other = rivals.map(rival, range(2))
            assert one.producer != other.producer


def test_an_epoch_that_was_written_with_is_not_taken_again(cluster: BlockingCluster, either_bootstrap: str, prefix: str) -> None:
    topic = prefix + "t"
    create_topics(either_bootstrap, {topic: {}}, partitions=1)
    first = planned(cluster, prefix)
    add_offset(cluster, first.producer, OffsetMark(prefix, (topic,), 1, ""))
    end(cluster, first.producer, commit=True)
    pass_on(first)
    assert planned(cluster, prefix).producer != first.producer


def test_who_was_fenced_takes_a_new_epoch(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    pass_on(first)
    rival = begin(cluster, prefix, timeout_ms=TIMEOUT_MS)
    assert planned(cluster, prefix).producer not in (first.producer, rival)


def test_a_commit_that_comes_late_passes_nothing_on(cluster: BlockingCluster, prefix: str) -> None:
    late = planned(cluster, prefix)
    newer = planned(cluster, prefix)
    pass_on(late)
    assert planned(cluster, prefix).producer not in (late.producer, newer.producer)


def test_another_time_out_takes_a_new_epoch(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    pass_on(first)
    assert planned(cluster, prefix, TIMEOUT_MS + 1).producer != first.producer


@pytest.mark.parametrize("cluster_id", ["of another cluster", ""])
def test_a_note_of_another_cluster_is_not_taken(cluster: BlockingCluster, prefix: str, cluster_id: str) -> None:
    first = planned(cluster, prefix)
    pass_on(first._replace(cluster_id=cluster_id))
    assert planned(cluster, prefix).producer != first.producer


def test_a_folder_that_others_can_write_to_is_not_believed(cluster: BlockingCluster, prefix: str, tmp_path: Path) -> None:
    first = planned(cluster, prefix)
    pass_on(first)
    (folder,) = tmp_path.iterdir()
    folder.chmod(0o777)
    assert planned(cluster, prefix).producer != first.producer


def test_a_plan_asks_for_the_cluster_and_its_topic_at_once(
    either_bootstrap: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    topic, asked, refresh = prefix + "t", [], BlockingCluster.refresh

    def counted(cluster: BlockingCluster, topics: Collection[str] | None = None, *, creates: bool = False) -> ClusterView:
        asked.append(topics)
        return refresh(cluster, topics, creates=creates)

    create_topics(either_bootstrap, {topic: {}}, partitions=1)
    monkeypatch.setattr(BlockingCluster, "refresh", counted)
    options = {"kafka.bootstrap.servers": either_bootstrap, "topic": topic, "sinkId": prefix}
    writer = DefaultSource(options).streamWriter(StructType().add("value", StringType()), overwrite=False)
    try:
        pickle.dumps(writer)  # as Spark does once there are tasks
    finally:
        writer.cluster.close()
    assert asked == [[topic]]
    assert writer.plan.epoch.cluster_id
