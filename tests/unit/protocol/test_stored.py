"""The bytes in front of stored records."""

import pytest

from moldau.coordinator.group.records import GROUP_RECORDS, OffsetCommitKey, OffsetCommitValue
from moldau.metadata.records import METADATA_RECORDS, FeatureLevelRecord, PartitionChangeRecord
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.stored import decode_newer_too, decode_versioned, encode_versioned
from moldau.protocol.wire import DecodeError
from moldau.types import METADATA_TOPIC_ID

KEY = OffsetCommitKey(group="g", topic="t", partition=2)
VALUE = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)


def test_a_keyed_record() -> None:
    key, value = GROUP_RECORDS.encode_key(KEY), GROUP_RECORDS.encode_value(VALUE, 3)
    assert key == b"\0\x01" + b"\0\x01g\0\x01t\0\0\0\x02"
    assert value == b"\0\x03" + bytes(7) + b"\x05" + b"\xff\xff\xff\xff" + b"\0\x01m" + bytes(7) + b"\x06"
    assert GROUP_RECORDS.decode(key, value) == (KEY, VALUE)
    assert GROUP_RECORDS.decode(key, None) == (KEY, None)
    assert GROUP_RECORDS.encode_value(VALUE)[:2] == b"\0\x04"


def test_a_keyed_record_of_a_type_from_the_future_is_passed_over() -> None:
    assert GROUP_RECORDS.decode(b"\x03\xe8whatever", b"") is None


@pytest.mark.parametrize(("key", "value"), [(b"\0", b""), (b"\0\x01\0", None), (b"\0\x01\0\x01g\0\x01t\0\0\0\x02", b"\0\x09")])
def test_a_keyed_record_that_lies_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        GROUP_RECORDS.decode(key, value)


def test_a_framed_record() -> None:
    record = FeatureLevelRecord(name="f", feature_level=3)
    assert METADATA_RECORDS.encode(record, 0) == b"\x01\x0c\0" + b"\x02f\0\x03\0"
    change = PartitionChangeRecord(partition_id=1, topic_id=METADATA_TOPIC_ID, leader=4, isr=[4])
    assert METADATA_RECORDS.encode(change)[:3] == b"\x01\x05\x02"
    for one in (record, change):
        assert METADATA_RECORDS.decode(METADATA_RECORDS.encode(one)) == one


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "the bytes end inside it"),
        (b"\x01\x0c", "the bytes end inside it"),
        (b"\xff\xff\xff\xff\xff\x01", "a varint is longer than 32 bits"),
        (b"\0\x0c\0", "frame version 0 is unknown"),
        (b"\x01\x63\0", "record type 99 is unknown"),
        (b"\x01\x0c\x05", "version 5 is unknown"),
        (b"\x01\x0c\0\x02f\0\x03\0\0", "left behind its end"),
    ],
)
def test_a_frame_that_lies_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        METADATA_RECORDS.decode(frame)


def test_members_read_each_others_newer_bytes_as_the_newest_they_know() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"])
    raw = encode_versioned(subscription, 3)
    assert decode_versioned(ConsumerProtocolSubscription, raw) == subscription
    newer = b"\0\x07" + raw[2:]
    assert decode_newer_too(ConsumerProtocolSubscription, newer) == subscription
    with pytest.raises(DecodeError, match="version 7 is unknown"):
        decode_versioned(ConsumerProtocolSubscription, newer)
    with pytest.raises(DecodeError, match="version -1 is unknown"):
        decode_versioned(ConsumerProtocolSubscription, b"\xff\xff" + raw[2:])
