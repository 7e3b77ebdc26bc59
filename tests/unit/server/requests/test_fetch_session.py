from itertools import count
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, PartitionData, ReplicaState
from moldau.server.requests.fetch_session import EVICTION_MS, MAX_EPOCH, NO_SESSION, FetchContext, FetchSessionCache, Spot
from moldau.types import ZERO_UUID

TOPIC_ID = UUID(int=99)


def cache(max_sessions: int = 10) -> FetchSessionCache:
    ids = count(101)
    return FetchSessionCache(max_sessions, lambda: next(ids))


def spot(partition: int, offset: int = 0, *, topic: str = "t", topic_id: UUID = ZERO_UUID, leader_epoch: int = -1) -> Spot:
    asked = FetchPartition(partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=1000)
    return Spot(topic, topic_id, asked)


def request(session_id: int = 0, epoch: int = 0, *, follower: bool = False) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[],
        replica_state=ReplicaState(replica_id=2 if follower else -1),
    )


def data(partition: int, *, high_watermark: int = 5, records: bytes = b"", error: int = 0, log_start_offset: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def ask(sessions: FetchSessionCache, spots: list[Spot], session_id: int = 0, epoch: int = 0, *, version: int = 12) -> FetchContext:
    return sessions.context(request(session_id, epoch), version, spots, [], now_ms=0)


def reply(context: FetchContext, **changed: PartitionData) -> list[int]:
    """Answers every partition of the context with `data`, or with `p<number>` where given; returns the partitions that are told."""
    results = [(each, changed.get(f"p{each.partition}", data(each.partition))) for each in context.spots]
    answered = context.answer(results, now_ms=0)
    assert answered.error is ErrorCode.NONE
    return [found.partition_index for _, found in answered.results]


def begin(sessions: FetchSessionCache, *partitions: int) -> int:
    context = ask(sessions, [spot(each) for each in partitions])
    answered = context.answer([(each, data(each.partition)) for each in context.spots], now_ms=0)
    assert [found.partition_index for _, found in answered.results] == list(partitions)
    return answered.session_id


def test_a_full_fetch_begins_a_session() -> None:
    sessions = cache()
    assert begin(sessions, 0, 1) == 101
    assert len(sessions) == 1


def test_a_fetch_without_session_leaves_none() -> None:
    sessions = cache()
    context = ask(sessions, [spot(0)], epoch=-1)
    assert context.answer([(each, data(0)) for each in context.spots], now_ms=0).session_id == NO_SESSION
    assert len(sessions) == 0


def test_an_incremental_answer_leaves_out_what_was_told() -> None:
    sessions = cache()
    session_id = begin(sessions, 0, 1, 2)
    assert reply(ask(sessions, [], session_id, 1)) == []
    assert reply(ask(sessions, [], session_id, 2), p1=data(1, high_watermark=6)) == [1]
    assert reply(ask(sessions, [], session_id, 3), p1=data(1, high_watermark=6)) == []


def test_what_must_be_told() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    epoch = count(1)

    def told(found: PartitionData) -> bool:
        return reply(ask(sessions, [], session_id, next(epoch)), p0=found) == [0]

    assert not told(data(0))
    assert told(data(0, records=b"x"))
    assert told(data(0, records=b"x"))
    assert told(data(0, log_start_offset=2))
    assert not told(data(0, log_start_offset=2))
    assert told(data(0, log_start_offset=2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert told(data(0, log_start_offset=2))  # the error is gone, which is told though nothing else changed
    assert not told(data(0, log_start_offset=2))


def test_an_answer_that_a_follower_ignored_is_told_again() -> None:
    """The follower learned of another leader epoch while the answer was on its way.  Nothing else may change for a long time."""
    sessions = cache()
    context = ask(sessions, [spot(0, leader_epoch=1)])
    session_id = context.answer([(each, data(0)) for each in context.spots], now_ms=0).session_id
    assert reply(ask(sessions, [], session_id, 1), p0=data(0, high_watermark=6, log_start_offset=2)) == [0]
    ignored = data(0, high_watermark=6, log_start_offset=2)
    assert reply(ask(sessions, [spot(0, leader_epoch=2)], session_id, 2), p0=ignored) == [0]
    assert reply(ask(sessions, [spot(0, 7, leader_epoch=2)], session_id, 3), p0=ignored) == []


def test_what_came_with_a_diverging_epoch_is_told_again() -> None:
    """A follower truncates its log, and looks at nothing else in that answer."""
    diverging = data(0, high_watermark=6)
    diverging.diverging_epoch = EpochEndOffset(epoch=1, end_offset=6)
    sessions = cache()
    context = ask(sessions, [spot(0)])
    session_id = context.answer([(each, diverging) for each in context.spots], now_ms=0).session_id
    assert reply(ask(sessions, [spot(0, 6)], session_id, 1), p0=data(0, high_watermark=6)) == [0]
    assert reply(ask(sessions, [spot(0, 7)], session_id, 2), p0=diverging) == [0]
    assert reply(ask(sessions, [spot(0, 6)], session_id, 3), p0=data(0, high_watermark=6)) == [0]
    assert reply(ask(sessions, [], session_id, 4), p0=data(0, high_watermark=6)) == []


def test_partitions_come_change_and_go() -> None:
    sessions = cache()
    session_id = begin(sessions, 0, 1)
    context = sessions.context(request(session_id, 1), 12, [spot(1, 44), spot(2, 7)], [("t", 0)], now_ms=0)
    assert [(each.partition, each.fetch_offset) for each in context.spots] == [(1, 44), (2, 7)]
    assert reply(context) == [2]


def test_partitions_with_data_go_to_the_end() -> None:
    sessions = cache()
    session_id = begin(sessions, 0, 1, 2)
    reply(ask(sessions, [], session_id, 1), p0=data(0, records=b"x"))
    assert [each.partition for each in ask(sessions, [], session_id, 2).spots] == [1, 2, 0]


def test_an_epoch_is_served_once() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    reply(ask(sessions, [], session_id, 1))
    assert ask(sessions, [], session_id, 1).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(sessions, [], session_id, 3).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(sessions, [], session_id, 2).error is ErrorCode.NONE


def test_a_request_that_waited_while_the_next_one_came_is_told_so() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    slow = ask(sessions, [], session_id, 1)
    ask(sessions, [], session_id, 2)
    assert slow.answer([], now_ms=0).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epochs_wrap_to_one() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    sessions._sessions[session_id].epoch = MAX_EPOCH
    ask(sessions, [], session_id, MAX_EPOCH)
    assert sessions._sessions[session_id].epoch == 1


def test_an_unknown_session_is_told_so() -> None:
    context = ask(cache(), [], 12345, 1)
    assert context.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert list(context.spots) == []


def test_a_session_stays_with_names_or_with_ids() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    assert ask(sessions, [], session_id, 1, version=13).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    context = ask(sessions, [spot(0, topic="", topic_id=TOPIC_ID)], version=13)
    by_id = context.answer([(each, data(0)) for each in context.spots], now_ms=0).session_id
    assert ask(sessions, [], by_id, 1, version=12).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert ask(sessions, [], by_id, 1, version=13).error is ErrorCode.NONE


def test_full_and_final_fetches_close_the_session_named() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    ask(sessions, [spot(0)], session_id, epoch=-1)
    assert len(sessions) == 0
    session_id = begin(sessions, 0)
    context = ask(sessions, [spot(0)], session_id, epoch=0)
    assert len(sessions) == 0
    assert context.answer([(each, data(0)) for each in context.spots], now_ms=0).session_id != session_id


def test_a_session_without_partitions_ends() -> None:
    sessions = cache()
    session_id = begin(sessions, 0)
    context = sessions.context(request(session_id, 1), 12, [], [("t", 0)], now_ms=0)
    assert len(sessions) == 0
    assert context.answer([], now_ms=0).session_id == NO_SESSION


def create(sessions: FetchSessionCache, size: int, *, now_ms: int = 0, follower: bool = False) -> int:
    spots = {each.key: each for each in map(spot, range(size))}
    return sessions.create(spots, replica_id=5 if follower else -1, uses_topic_ids=False, now_ms=now_ms)


def test_a_full_cache_gives_no_session_to_newcomers() -> None:
    sessions = cache(2)
    assert create(sessions, 1) and create(sessions, 1)
    assert create(sessions, 99) == NO_SESSION


def test_a_stale_session_makes_room() -> None:
    sessions = cache(2)
    stale, fresh = create(sessions, 5), create(sessions, 5)
    sessions._sessions[fresh].last_used_ms = EVICTION_MS + 1
    assert create(sessions, 1, now_ms=EVICTION_MS + 1) != NO_SESSION
    assert stale not in sessions._sessions
    assert fresh in sessions._sessions


def test_an_older_smaller_session_makes_room_for_a_bigger_one() -> None:
    sessions = cache(2)
    small, big = create(sessions, 2), create(sessions, 9)
    for session in sessions._sessions.values():
        session.last_used_ms = EVICTION_MS + 1
    assert create(sessions, 1, now_ms=EVICTION_MS + 2) == NO_SESSION
    assert create(sessions, 3, now_ms=EVICTION_MS + 2) != NO_SESSION
    assert small not in sessions._sessions
    assert big in sessions._sessions


def test_a_followers_session_displaces_a_consumers_but_not_the_other_way() -> None:
    sessions = cache(1)
    create(sessions, 99)
    follower = create(sessions, 1, follower=True)
    assert follower != NO_SESSION
    assert create(sessions, 1, follower=True) == NO_SESSION
    assert create(sessions, 99) == NO_SESSION
    assert list(sessions._sessions) == [follower]
