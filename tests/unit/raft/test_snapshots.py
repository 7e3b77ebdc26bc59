"""Snapshots: names, bytes as Kafka's storage tool writes them, damage."""

from uuid import UUID

import pytest

from moldau.raft.snapshots import CorruptSnapshot, build_snapshot, parse_snapshot_name, read_snapshot, snapshot_name
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.types import OffsetAndEpoch, uuid_from_text

# Written by `kafka-storage format --standalone` of 4.3.1.
FORMATTED = bytes.fromhex(
    "00000000000000000000009a00000000028d6ba8a3002000000002000001a1fd8b57b1000001a1fd8b57b1ffffffffffffffffffffffffffff000000"
    "032a0000000800000003160000000001a1fd8b57aa00001e00000208000000050a000000010000820100000408000000066e0000020000000143fd13"
    "c736534933af8b4c4b49be67b9020b434f4e54524f4c4c45520a3132372e302e302e314a9500000000010000000000000000000000030000003f0000"
    "0000022a694295002000000000000001a1fd8b57b5000001a1fd8b57b5ffffffffffffffffffffffffffff000000011a000000080000000406000000"
    "00"
)


def voters() -> VoterSet:
    return VoterSet([Voter(1, uuid_from_text("Q_0TxzZTSTOvi0xLSb5nuQ"), (Address("CONTROLLER", "127.0.0.1", 19093),), 0, 1)])


def test_kafkas_own_is_read_and_written_alike() -> None:
    snapshot = read_snapshot(FORMATTED)
    assert snapshot.kraft_version == 1
    assert snapshot.voters == voters()
    assert snapshot.records == []
    header = build_snapshot(
        [], epoch=0, now_ms=0x1A1FD8B57B1, last_contained_log_timestamp=0x1A1FD8B57AA, kraft_version=1, voters=voters()
    )[0]
    assert header == FORMATTED[: len(header)]


def test_names() -> None:
    snapshot_id = OffsetAndEpoch(123, 4)
    assert snapshot_name(snapshot_id) == "00000000000000000123-0000000004.checkpoint"
    assert parse_snapshot_name(snapshot_name(snapshot_id)) == snapshot_id
    for other in ("00000000000000000123.log", "00000000000000000123-0000000004.checkpoint.part", "1-1.checkpoint", "quorum-state"):
        assert parse_snapshot_name(other) is None


def test_records_come_back_across_batches() -> None:
    records = [bytes([number % 256]) * 70_000 for number in range(40)]
    parts = build_snapshot(records, epoch=3, now_ms=5, last_contained_log_timestamp=4)
    assert len(parts) > 3
    snapshot = read_snapshot(b"".join(parts))
    assert snapshot.records == records
    assert (snapshot.last_contained_log_timestamp, snapshot.kraft_version, snapshot.voters) == (4, 0, None)


def test_a_cut_snapshot_is_none() -> None:
    for cut in range(len(FORMATTED)):
        with pytest.raises(CorruptSnapshot):
            read_snapshot(FORMATTED[:cut])


def test_every_flipped_bit_is_found_or_changes_nothing() -> None:
    """No checksum covers the offsets and epochs of the batches, and these say nothing."""
    whole = read_snapshot(FORMATTED)
    harmless = set()
    for bit in range(len(FORMATTED) * 8):
        damaged = bytearray(FORMATTED)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert read_snapshot(bytes(damaged)) == whole
            harmless.add(bit // 8)
        except CorruptSnapshot:
            pass
    footer = int.from_bytes(FORMATTED[8:12]) + 12
    assert harmless <= {start + place for start in (0, footer) for place in (*range(8), *range(12, 16))}


def test_a_voter_set_without_its_directory_is_another_replica() -> None:
    assert voters().is_only(1, uuid_from_text("Q_0TxzZTSTOvi0xLSb5nuQ"))
    assert not voters().is_only(1, UUID(int=7))
