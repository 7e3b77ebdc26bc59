from uuid import UUID

from moldau.config import MAX_LONG
from moldau.replication.partition import Partition
from moldau.replication.throttle import LONGEST_WAIT_MS, Pace, Throttles
from moldau.storage.config import LogConfig
from moldau.storage.manager import LogManager
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition

LOCAL = 2


def partitions(count: int, **topic: str) -> list[Partition]:
    files = MemoryFiles()
    files.mkdir("/d")
    logs = LogManager(files, ["/d"], LogConfig(), unique=lambda: UUID(int=1))
    logs.open(0)
    config = LogConfig().override({key.replace("_", "."): value for key, value in topic.items()})
    places = [TopicPartition("t", index) for index in range(count)]
    made = [logs.get_or_create(where, config, now_ms=0, topic_id=UUID(int=5)) for where in places]
    return [
        Partition(log.topic_partition, UUID(int=5), log, local_id=LOCAL, lag_time_max_ms=1, on_flush_wanted=lambda _: None) for log in made
    ]


def test_a_rate_holds_over_time() -> None:
    pace = Pace()
    pace.set_rate(1000, 0)
    sent, now_ms = 0, 0
    while now_ms < 100_000:
        due_ms = pace.due_ms(now_ms)
        if due_ms == now_ms:
            pace.took(700, now_ms)
            sent += 700
        now_ms = max(now_ms + 5, due_ms)
    assert 100_000 <= sent <= 102_000, "this is a hundred seconds' worth, and the second's worth that may go at once"


def test_after_silence_a_second_may_go_at_once_and_no_more() -> None:
    pace = Pace()
    pace.set_rate(1000, 0)
    assert pace.left(3_600_000) == 1000
    pace.took(1500, 3_600_000)
    assert pace.left(3_600_000) == -500
    assert pace.due_ms(3_600_000) == 3_600_600, "it waits until the debt is paid and a tenth of a second's worth is there"


def test_a_rate_that_is_raised_or_taken_away_frees_who_waits() -> None:
    pace = Pace()
    pace.set_rate(1000, 0)
    pace.took(100_000, 0)
    assert pace.due_ms(0) == LONGEST_WAIT_MS, "the rate is looked at again before the debt is paid"
    pace.set_rate(1_000_000, 0)
    assert pace.due_ms(0) == 199
    pace.set_rate(MAX_LONG, 0)
    assert pace.due_ms(0) == 0
    pace.took(1 << 40, 0)
    pace.set_rate(500, 0)
    assert pace.left(0) == 500, "bytes sent without a limit are no debt"


def test_at_no_bytes_a_second_all_waits() -> None:
    pace = Pace()
    pace.set_rate(0, 0)
    assert pace.due_ms(10) == 10 + LONGEST_WAIT_MS


def test_only_named_replicas_of_this_broker_count() -> None:
    named = partitions(4, leader_replication_throttled_replicas="0:1,1:2,3:2", follower_replication_throttled_replicas="*")
    throttles = Throttles(LOCAL)
    assert not any(map(throttles.leader.counts, named)), "nothing counts while there is no rate"
    throttles.leader.set_rate(1000, 0)
    throttles.follower.set_rate(1000, 0)
    assert [throttles.leader.counts(each) for each in named] == [False, True, False, True]
    assert all(map(throttles.follower.counts, named))
    for each in named:
        each.log.configure(LogConfig())
    assert not any(map(throttles.leader.counts, named)), "the topic names no replicas any more"
