from uuid import UUID

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.partition import Partition
from moldau.replication.selector import preferred_replica
from moldau.storage.config import LogConfig
from moldau.storage.log import Log
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition

RACKS = {1: "a", 2: "b", 3: "b", 4: None}
NOW_MS = 1000


@pytest.fixture
def partition() -> Partition:
    """A partition with ten records, led by broker 1 and followed by 2 to 4."""
    files = MemoryFiles()
    files.mkdir("/d/t-0")
    where = TopicPartition("t", 0)
    log = Log.open(files, "/d/t-0", where, LogConfig(), now_ms=NOW_MS)
    partition = Partition(where, UUID(int=1), log, local_id=1, lag_time_max_ms=500, on_flush_wanted=lambda log: None)
    brokers = (1, 2, 3, 4)
    eligible = dict.fromkeys(brokers, 1)
    partition.lead(leader_epoch=1, partition_epoch=1, replicas=brokers, isr=brokers, eligible=eligible, now_ms=NOW_MS)
    partition.append_from_client(build_batch([NewRecord(value=b"x", timestamp=0)] * 10), acks=1, now_ms=NOW_MS)
    return partition


def fetched(partition: Partition, broker_id: int, offset: int, *, start: int = 0, now_ms: int = NOW_MS) -> None:
    partition.follower_fetched(broker_id, offset=offset, log_start_offset=start, broker_epoch=1, now_ms=now_ms)


def preferred(partition: Partition, offset: int, rack: str) -> int | None:
    return preferred_replica(partition, offset, rack, RACKS.get, NOW_MS)


def test_a_reader_in_the_leaders_rack_or_in_none_stays(partition: Partition) -> None:
    for broker_id in (2, 3, 4):
        fetched(partition, broker_id, 10)
    assert preferred(partition, 5, "a") is None
    assert preferred(partition, 5, "") is None
    assert preferred(partition, 5, "elsewhere") is None


def test_of_several_in_its_rack_the_furthest(partition: Partition) -> None:
    fetched(partition, 2, 7)
    fetched(partition, 3, 10)
    assert preferred(partition, 5, "b") == 3
    fetched(partition, 2, 10, now_ms=NOW_MS + 5)
    assert preferred(partition, 5, "b") == 2, "2 is as far as 3, and fetched later"


def test_one_that_is_behind_or_gone_serves_nobody(partition: Partition) -> None:
    fetched(partition, 2, 4)
    assert preferred(partition, 5, "b") is None
    fetched(partition, 2, 10, start=6)
    assert preferred(partition, 5, "b") is None, "2 has deleted that offset"
    fetched(partition, 2, 10)
    assert preferred(partition, 5, "b") == 2
    partition.take_eligible({1: 1, 3: 1}, NOW_MS)
    assert preferred(partition, 5, "b") is None
