from moldau.replication.isr import FollowerState, effective_min_insync, high_watermark_of, may_join, out_of_sync

LAG_MS = 30_000


def follower(log_end_offset: int, *, caught_up_ms: int = 0) -> FollowerState:
    return FollowerState(log_end_offset=log_end_offset, last_caught_up_ms=caught_up_ms)


def high_watermark(
    followers: dict[int, FollowerState], *, isr: tuple[int, ...], eligible: tuple[int, ...] = (), now_ms: int = 100_000
) -> int:
    return high_watermark_of(
        leader_end_offset=10, followers=followers, maximal_isr=isr, eligible=eligible, now_ms=now_ms, lag_time_max_ms=LAG_MS
    )


def test_alone_the_leader_commits_what_it_has() -> None:
    assert high_watermark({}, isr=(1,)) == 10


def test_the_slowest_in_sync_replica_decides() -> None:
    followers = {2: follower(7), 3: follower(9)}
    assert high_watermark(followers, isr=(1, 2, 3)) == 7
    assert high_watermark(followers, isr=(1, 3)) == 9


def test_who_is_about_to_join_counts_already() -> None:
    followers = {2: follower(7, caught_up_ms=99_000)}
    assert high_watermark(followers, isr=(1,), eligible=(2,)) == 7
    assert high_watermark(followers, isr=(1,), eligible=()) == 10  # a fenced follower cannot join
    assert high_watermark(followers, isr=(1,), eligible=(2,), now_ms=99_000 + LAG_MS + 1) == 10  # too far behind to join soon


def test_a_follower_that_keeps_up_with_a_moving_leader_is_caught_up() -> None:
    state = FollowerState(last_caught_up_ms=0)
    for step in range(1, 100):
        # Each fetch gets as far as the log went at the fetch before, never as far as it goes now.
        now_ms = step * 10_000
        state.fetched(offset=step * 5, log_start_offset=0, leader_end_offset=step * 5 + 5, broker_epoch=1, now_ms=now_ms)
    assert state.is_caught_up(leader_end_offset=10**6, now_ms=now_ms, lag_time_max_ms=LAG_MS)


def test_a_follower_that_falls_behind_leaves_in_time() -> None:
    followers = {2: FollowerState(last_caught_up_ms=0), 3: FollowerState(last_caught_up_ms=0)}
    followers[2].fetched(offset=10, log_start_offset=0, leader_end_offset=10, broker_epoch=1, now_ms=50_000)
    followers[3].fetched(offset=4, log_start_offset=0, leader_end_offset=10, broker_epoch=1, now_ms=50_000)

    def gone(now_ms: int) -> list[int]:
        return out_of_sync((1, 2, 3), followers, leader_id=1, leader_end_offset=11, now_ms=now_ms, lag_time_max_ms=LAG_MS)

    assert gone(30_000) == []
    assert gone(50_001) == [3]
    assert gone(80_001) == [2, 3]


def test_joining_needs_what_is_committed_and_the_leaders_first_record() -> None:
    assert may_join(follower(8), high_watermark=8, leader_epoch_start_offset=5)
    assert not may_join(follower(7), high_watermark=8, leader_epoch_start_offset=5)
    assert not may_join(follower(8), high_watermark=8, leader_epoch_start_offset=9)


def test_no_more_copies_are_asked_for_than_there_are_replicas() -> None:
    assert effective_min_insync(2, 1) == 1
    assert effective_min_insync(2, 3) == 2
