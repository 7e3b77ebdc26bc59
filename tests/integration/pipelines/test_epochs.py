"""A micro-batch takes the epoch of the one before only if that epoch was noted as unused and nobody took the next."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.transactions import OffsetMark, add_offset, begin, end
from moldau.clients.cluster import parse_bootstrap
from moldau.pipelines.topics import create_topics
from pyspark_moldau.epochs import Epoch, epoch_for, note_unused

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingCluster]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with BlockingCluster(parse_bootstrap(bootstrap)) as cluster:
        yield cluster


def planned(cluster: BlockingCluster, name: str) -> Epoch:
    return epoch_for(cluster, "brokers", name, timeout_ms=60_000)


def test_an_unused_epoch_is_taken_again(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    note_unused(first)
    second = planned(cluster, prefix)
    assert second.producer == first.producer
    assert second.token != first.token


def test_without_a_note_of_this_very_micro_batch_there_is_a_new_one(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    note_unused(first._replace(token="of another"))
    second = planned(cluster, prefix)
    assert second.producer != first.producer
    third = planned(cluster, prefix)  # the second noted nothing, so its tasks may still write
    assert third.producer != second.producer


def test_an_epoch_that_was_written_with_is_not_taken_again(cluster: BlockingCluster, bootstrap: str, prefix: str) -> None:
    topic = prefix + "t"
    create_topics(bootstrap, {topic: {}}, partitions=1)
    first = planned(cluster, prefix)
    add_offset(cluster, first.producer, OffsetMark(prefix, (topic,), 1, ""))
    end(cluster, first.producer, commit=True)
    note_unused(first)
    assert planned(cluster, prefix).producer != first.producer


def test_who_was_fenced_takes_a_new_epoch(cluster: BlockingCluster, prefix: str) -> None:
    first = planned(cluster, prefix)
    note_unused(first)
    rival = begin(cluster, prefix, timeout_ms=60_000)
    assert planned(cluster, prefix).producer not in (first.producer, rival)


def test_a_folder_that_others_can_write_to_is_not_believed(cluster: BlockingCluster, prefix: str, tmp_path: Path) -> None:
    first = planned(cluster, prefix)
    note_unused(first)
    (folder,) = tmp_path.iterdir()
    folder.chmod(0o777)
    assert planned(cluster, prefix).producer != first.producer
