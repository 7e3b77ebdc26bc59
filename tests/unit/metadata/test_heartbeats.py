"""Live brokers, and the next state of each."""

from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.delta import replay
from moldau.metadata.departures import fence
from moldau.metadata.heartbeats import Session, Sessions, broker_heartbeat
from moldau.metadata.image import MetadataImage
from moldau.metadata.outcome import PIECE
from moldau.metadata.records import BrokerRegistrationChangeRecord
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from proof.cluster.images import a_broker, an_image, partition, rules, with_topic

SCHEMA = rules().schema


def beat(
    image: MetadataImage, sessions: Sessions, number: int, *, now_ms: int = 0, **wants: object
) -> tuple[MetadataImage, BrokerHeartbeatResponse]:
    epoch = image.broker_epoch(number)
    fields = {"current_metadata_offset": epoch, "want_fence": False, "want_shut_down": False, **wants}
    request = BrokerHeartbeatRequest(broker_id=number, broker_epoch=epoch, **fields)  # type: ignore[arg-type]
    outcome = broker_heartbeat(image, SCHEMA, sessions, request, now_ms=now_ms, next_offset=60)
    return replay(image, outcome.records), outcome.response


def test_a_broker_comes_fenced_and_is_unfenced_once_it_has_read_so_far() -> None:
    image = replay(an_image(), [a_broker(1, fenced=True, epoch=50)])
    image, answer = beat(image, Sessions(9000), 1, current_metadata_offset=49)
    assert answer.is_fenced and not answer.is_caught_up
    image, answer = beat(image, Sessions(9000), 1, current_metadata_offset=50)
    assert not answer.is_fenced and not image.brokers[1].fenced


def test_stale_epochs_and_strangers() -> None:
    for number in (1, 9):
        request = BrokerHeartbeatRequest(
            broker_id=number, broker_epoch=3, current_metadata_offset=1, want_fence=False, want_shut_down=False
        )
        with pytest.raises(KafkaError) as error:
            broker_heartbeat(an_image(1), SCHEMA, Sessions(9000), request, now_ms=0, next_offset=0)
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_controlled_shutdown() -> None:
    sessions = Sessions(9000)
    image = with_topic(an_image(1, 2), 1, 2)
    image, answer = beat(image, sessions, 2, current_metadata_offset=55)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert not answer.should_shut_down and image.brokers[1].in_controlled_shutdown
    assert partition(image).leader == 2 and partition(image).isr == (2,)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert not answer.should_shut_down, "broker 2 has not read so far, and might still fetch from here"
    image, _ = beat(image, sessions, 2, current_metadata_offset=99)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert answer.should_shut_down and image.brokers[1].fenced


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    image, answer = beat(an_image(1), Sessions(9000), 1, want_shut_down=True)
    assert answer.should_shut_down and image.brokers[1].fenced


def test_silence_ends_a_session() -> None:
    sessions, image = Sessions(9000), an_image(1, 2, fenced=(2,))
    sessions.adopt(image.brokers, now_ms=100)
    assert sessions.overdue(image, 9_100) == []
    assert sessions.overdue(image, 9_101) == [1], "the fenced broker has no session any more"


def test_the_silence_of_the_controller_before_counts_for_the_broker_in_its_process() -> None:
    sessions, image = Sessions(9000), an_image(1, 2)
    sessions.adopt(image.brokers, now_ms=12_500, followed=(1, 10_000))
    assert sessions.next_end_ms(image) == 19_001
    assert sessions.overdue(image, 19_000) == [] and sessions.overdue(image, 19_001) == [1]
    assert sessions.overdue(image, 21_500) == [1] and sessions.overdue(image, 21_501) == [1, 2]


def test_half_a_session_is_left_to_the_broker_of_a_controller_that_was_silent_for_long() -> None:
    """Perhaps only the controllers are cut off from each other, and the broker sends heartbeats."""
    sessions, image = Sessions(9000), an_image(1, 2, 3, fenced=(3,))
    sessions.adopt(image.brokers, now_ms=12_500, followed=(1, 1_000))
    assert sessions.overdue(image, 17_000) == [] and sessions.overdue(image, 17_001) == [1]
    sessions.adopt(image.brokers, now_ms=12_500, followed=(3, 12_000))
    assert not sessions.is_valid(3, 12_500), "a fenced broker has no session to lose"
    sessions.adopt(image.brokers, now_ms=12_500, followed=(101, 12_000))
    assert 101 not in sessions.by_broker, "a controller that is no broker"


def test_an_idle_log_does_not_hold_up_a_shutdown() -> None:
    """Others have to read up to the last record before the broker stops, and an idle broker cannot have read further."""
    sessions, image = Sessions(9000), with_topic(an_image(1, 2), 1, 2)
    image, _ = beat(image, sessions, 1, want_shut_down=True)
    written = 2  # the shutdown at 60, and one partition at 61
    assert sessions.by_broker[1].shutdown_offset == 60 + written - 1
    image, _ = beat(image, sessions, 2, current_metadata_offset=60 + written - 1)
    assert beat(image, sessions, 1, want_shut_down=True)[1].should_shut_down


def test_a_shutdown_in_pieces_is_known_with_the_last() -> None:
    sessions, image = Sessions(9000), with_topic(an_image(1, 2), 1, 2, partition_count=PIECE + 1)
    image, _ = beat(image, sessions, 1, want_shut_down=True)
    assert sessions.by_broker[1].shutdown_offset == -1 and not image.brokers[1].in_controlled_shutdown
    image, _ = beat(image, sessions, 1, want_shut_down=True)
    assert sessions.by_broker[1].shutdown_offset == 61 and image.brokers[1].in_controlled_shutdown


def test_a_new_controller_gives_a_session_only_to_those_who_have_one_to_lose() -> None:
    """A fenced broker that starts again must not wait for the end of a session that it never had."""
    sessions = Sessions(9000)
    sessions.adopt(an_image(1, 2, fenced=(2,)).brokers, now_ms=100)
    assert sessions.is_valid(1, 200) and not sessions.is_valid(2, 200)


def test_who_has_only_registered_has_no_session() -> None:
    sessions = Sessions(9000)
    sessions.touch(1, 100, metadata_offset=40)
    sessions.begin(1)
    assert not sessions.is_valid(1, 100) and sessions.by_broker[1] == Session()


def test_cordoned_directories_are_noted_once() -> None:
    sessions, image = Sessions(9000), an_image(1)
    image, _ = beat(image, sessions, 1, cordoned_log_dirs=None)
    assert image.brokers[1].cordoned_log_dirs is None and image.brokers[1].has_uncordoned_dirs
    image, _ = beat(image, sessions, 1, cordoned_log_dirs=[UUID(int=5001)])
    assert image.brokers[1].cordoned_log_dirs == (UUID(int=5001),) and not image.brokers[1].has_uncordoned_dirs
    assert beat(image, sessions, 1, cordoned_log_dirs=[UUID(int=5001)])[0] == image
    assert beat(image, sessions, 1, cordoned_log_dirs=[])[0].brokers[1].has_uncordoned_dirs
    old = an_image(1, level=29)
    assert beat(old, sessions, 1, cordoned_log_dirs=[UUID(int=5001)])[0].brokers[1].cordoned_log_dirs is None


def test_under_a_new_controller_a_shutdown_begins_anew() -> None:
    """The new controller does not know the offset that others have to reach: the broker may stop at once only if it leads nothing."""
    image = with_topic(an_image(1, 2), 1, 2)
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1)
    image = replay(image, [change])
    sessions = Sessions(9000)
    sessions.adopt(image.brokers, now_ms=0)
    image, answer = beat(image, sessions, 1, want_shut_down=True)
    assert not answer.should_shut_down and partition(image).leader == 2 and sessions.by_broker[1].shutdown_offset == 60
    assert beat(image, sessions, 1, want_fence=True)[1].is_fenced is False, "the shutdown comes first"


def test_an_unfenced_broker_does_not_lead_what_it_says_is_lost() -> None:
    """Kafka judges unfencing and lost directories by the state before: broker 1 then leads, and is out of the in-sync set."""
    image = with_topic(an_image(1, 2), 1)
    image = replay(image, fence(image, SCHEMA, 1).records)
    image, _ = beat(image, Sessions(9000), 1, offline_log_dirs=[UUID(int=5001)])
    assert not image.brokers[1].fenced and partition(image).leader == -1


def test_a_response_that_is_too_early_for_directories_waits_for_all_pieces() -> None:
    """A piece of the fence comes first; the directories that the heartbeat names come with the last piece."""
    image = with_topic(an_image(1, 2), 1, 2, partition_count=PIECE + 1)
    first, _ = beat(image, Sessions(9000), 1, want_fence=True, cordoned_log_dirs=[UUID(int=5001)])
    assert first.brokers[1].cordoned_log_dirs is None
    last, _ = beat(first, Sessions(9000), 1, want_fence=True, cordoned_log_dirs=[UUID(int=5001)])
    assert last.brokers[1].cordoned_log_dirs == (UUID(int=5001),) and last.brokers[1].fenced
