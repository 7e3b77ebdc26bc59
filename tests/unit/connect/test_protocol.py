"""The messages that workers exchange through the group, in Kafka's bytes."""

import pytest

from moldau.connect.errors import DataError
from moldau.connect.store.configs import TaskId
from moldau.connect.worker.protocol import Assignment, Metadata, decode_assignment, decode_metadata, encode_assignment, encode_metadata

ASSIGNMENT = Assignment("worker-1", "http://a:8083/", 7, (TaskId("c", -1), TaskId("c", 0)), (TaskId("d", 2),))


def test_an_assignment_is_laid_out_as_kafkas() -> None:
    assert encode_assignment(ASSIGNMENT) == (
        b"\x00\x02\x00\x00\x00\x08worker-1\x00\x0ehttp://a:8083/\x00\x00\x00\x00\x00\x00\x00\x07"
        b"\x00\x00\x00\x01\x00\x01c\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00"
        b"\x00\x00\x00\x01\x00\x01d\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00"
    )


def test_both_messages_come_back_as_they_were() -> None:
    metadata = Metadata("http://b:8083/", 12, ASSIGNMENT.given)
    assert decode_assignment(encode_assignment(ASSIGNMENT)) == ASSIGNMENT
    assert decode_metadata(encode_metadata(metadata)) == metadata


def test_a_message_that_ends_early_is_an_error_that_says_where() -> None:
    with pytest.raises(DataError, match="ends at byte"):
        decode_assignment(encode_assignment(ASSIGNMENT)[:20])
