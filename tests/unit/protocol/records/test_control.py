"""Control records: keys, end-of-transaction markers, KRaft batches."""

import pytest

from moldau.protocol.records.batch import CorruptBatch, read_header, records_of, verify_crc
from moldau.protocol.records.control import (
    ControlType,
    build_control_batch,
    build_end_txn_marker,
    control_key,
    parse_control_key,
    parse_end_txn_marker,
)


@pytest.mark.parametrize(("is_commit", "kind"), [(True, ControlType.COMMIT), (False, ControlType.ABORT)])
def test_end_txn_marker(is_commit: bool, kind: ControlType) -> None:
    batch = memoryview(build_end_txn_marker(is_commit=is_commit, producer_id=5, producer_epoch=6, coordinator_epoch=7, timestamp_ms=8))
    header = read_header(batch)
    assert verify_crc(batch, 0, header)
    assert (header.is_control, header.is_transactional, header.producer_id, header.producer_epoch) == (True, True, 5, 6)
    assert (header.base_sequence, header.records_count, header.max_timestamp) == (-1, 1, 8)
    (record,) = records_of(batch)
    assert parse_control_key(record.key) == (0, kind, int(kind))
    assert parse_end_txn_marker(record.value) == (0, 7)


def test_the_markers_bytes_are_kafkas() -> None:
    (record,) = records_of(build_end_txn_marker(is_commit=True, producer_id=1, producer_epoch=2, coordinator_epoch=3, timestamp_ms=4))
    assert (bytes(record.key or b"").hex(), bytes(record.value or b"").hex()) == ("00000001", "000000000003")


def test_the_numbers_are_kafkas() -> None:
    assert {kind.name: int(kind) for kind in ControlType} == {
        "ABORT": 0,
        "COMMIT": 1,
        "LEADER_CHANGE": 2,
        "SNAPSHOT_HEADER": 3,
        "SNAPSHOT_FOOTER": 4,
        "KRAFT_VERSION": 5,
        "KRAFT_VOTERS": 6,
        "UNKNOWN": -1,
    }


@pytest.mark.parametrize("kind", [kind for kind in ControlType if kind is not ControlType.UNKNOWN])
def test_keys_round_trip(kind: ControlType) -> None:
    assert parse_control_key(control_key(kind)).type is kind


def test_a_type_from_a_newer_kafka_is_unknown_with_its_number() -> None:
    assert parse_control_key(b"\x00\x01\x00\x63more") == (1, ControlType.UNKNOWN, 99)
    assert parse_control_key(b"\x00\x00\xff\xff") == (0, ControlType.UNKNOWN, -1)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_bad_keys(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="control record's key"):
        parse_control_key(key)


@pytest.mark.parametrize("value", [None, b"", bytes(5), b"\xff\xff\x00\x00\x00\x00"])
def test_bad_markers(value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="end-of-transaction marker"):
        parse_end_txn_marker(value)


def test_several_kraft_records_share_a_batch() -> None:
    batch = build_control_batch(
        [(ControlType.SNAPSHOT_HEADER, b"header"), (ControlType.KRAFT_VERSION, b"version")], timestamp_ms=3, base_offset=40, leader_epoch=2
    )
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.partition_leader_epoch, header.producer_id) == (True, False, 2, -1)
    assert [(one.offset, parse_control_key(one.key).type, one.value) for one in records_of(batch)] == [
        (40, ControlType.SNAPSHOT_HEADER, b"header"),
        (41, ControlType.KRAFT_VERSION, b"version"),
    ]
