from confluent_kafka import KafkaError

from proof.cluster.process_load import has_lost_count

SAID = "ProduceRequest for copies [0] with 252 message(s) failed due to sequence desynchronization with broker 3"


def test_only_a_fatal_refusal_of_numbers_that_were_used_before_is_librdkafkas_own() -> None:
    assert has_lost_count(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, SAID, fatal=True))
    assert not has_lost_count(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, SAID))
    assert not has_lost_count(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "skipped sequence numbers", fatal=True))
    assert not has_lost_count(KafkaError(KafkaError._FENCED, SAID, fatal=True))
