from threading import Event

import pytest
from confluent_kafka import KafkaError

from proof.cluster.process_load import GivenUp, answered_within, has_lost_count

SAID = "ProduceRequest for copies [0] with 252 message(s) failed due to sequence desynchronization with broker 3"


def test_only_a_fatal_refusal_of_numbers_that_were_used_before_is_librdkafkas_own() -> None:
    assert has_lost_count(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, SAID, fatal=True))
    assert not has_lost_count(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, SAID))
    assert not has_lost_count(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "skipped sequence numbers", fatal=True))
    assert not has_lost_count(KafkaError(KafkaError._FENCED, SAID, fatal=True))


def test_a_call_that_does_not_return_is_given_up() -> None:
    release = Event()
    with pytest.raises(GivenUp, match="wait has not returned after 0 s"):
        answered_within(0.01, release.wait)
    release.set()


def test_a_call_that_fails_fails() -> None:
    def call() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        answered_within(60.0, call)
