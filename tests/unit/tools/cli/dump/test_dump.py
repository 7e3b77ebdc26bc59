"""Files as lines: as Kafka's tool prints them, with a note at the end of a broken file."""

from struct import pack

import pytest
from crc32c import crc32c

from moldau.coordinator.group.records import GROUP_RECORDS, GroupMetadataKey, GroupMetadataValue, MemberMetadata
from moldau.metadata.records import METADATA_RECORDS, BrokerRegistrationChangeRecord, FeatureLevelRecord
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import ControlType, build_control_batch, build_end_txn_marker
from moldau.protocol.stored import encode_versioned
from moldau.raft.control import control_value
from moldau.raft.records import KRaftVersionRecord
from moldau.tools.cli.dump.decoders import DECODERS, text
from moldau.tools.cli.dump.indexes import (
    BrokenIndex,
    OffsetIndexDump,
    TimeIndexDump,
    check_offset_index,
    check_time_index,
    snapshot_lines,
    transaction_index_lines,
)
from moldau.tools.cli.dump.segments import SegmentDump, heading

NAME = "00000000000000000005.log"


def lines_of(*batches: bytearray, **options: object) -> list[str]:
    return list(SegmentDump(NAME, **options).lines(memoryview(b"".join(map(bytes, batches)))))  # type: ignore[arg-type]


def a_batch(offset: int = 5) -> bytearray:
    return build_batch([NewRecord(10, b"k", b"v", [("h", b"x")]), NewRecord(11, None, None)], base_offset=offset, leader_epoch=3)


def test_a_batch_and_its_records() -> None:
    title, batch, first, second = lines_of(a_batch(), decoder=text, deep=True)
    assert title == "Log starting offset: 5"
    assert batch.startswith(
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 3"
    )
    assert batch.endswith("isvalid: true")
    assert first == "| offset: 5 CreateTime: 10 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h] key: k payload: v"
    assert second == "| offset: 6 CreateTime: 11 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []"


def test_without_metadata_only_contents_are_left() -> None:
    assert lines_of(a_batch(), decoder=text, deep=True, skip_metadata=True)[2:] == ["| key: k payload: v", ""]


def test_control_records() -> None:
    marker = build_end_txn_marker(is_commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=9, timestamp_ms=1)
    kraft = build_control_batch(
        [(ControlType.KRAFT_VERSION, control_value(KRaftVersionRecord(version=0, kraft_version=1)))], timestamp_ms=1, base_offset=1
    )
    lines = lines_of(marker, kraft, deep=True, decoder=text)
    assert lines[2].endswith("endTxnMarker: ABORT coordinatorEpoch: 9")
    assert lines[4].endswith('KRaftVersion {"version":0,"kRaftVersion":1}')


def test_gaps_bad_crcs_and_torn_ends_are_noticed() -> None:
    broken = a_batch(9)
    broken[-1] ^= 2
    dump = SegmentDump(NAME, deep=True)
    lines = list(dump.lines(memoryview(bytes(a_batch() + broken + a_batch(11)[:-3]))))
    assert dump.gaps == [(6, 9)]
    assert dump.bad_crcs == 1
    assert lines[-1] == f"Found {len(a_batch()) - 3} invalid bytes at the end of {NAME}"


def test_nonsense_in_the_middle_ends_the_dump_with_its_place() -> None:
    nonsense = bytearray(a_batch())
    nonsense[16] = 9
    lines = lines_of(a_batch(), nonsense)
    assert lines[-2].startswith(f"Broken at byte {len(a_batch())}: magic 9")


def test_headings() -> None:
    assert heading("00000000000000000012-0000000007.checkpoint") == "Snapshot end offset: 12, epoch: 7"
    assert heading("bootstrap.checkpoint") == "KRaft bootstrap snapshot"
    with pytest.raises(ValueError, match="invalid literal"):
        heading("nosuch.log")


def decoded(topic: str, key: bytes | None, value: bytes | None) -> list[str]:
    return lines_of(build_batch([NewRecord(0, key, value)]), deep=True, decoder=DECODERS[topic], skip_metadata=True)[2:]


def test_cluster_metadata() -> None:
    record = METADATA_RECORDS.encode(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)
    assert decoded("__cluster_metadata", None, record) == [
        '| payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}}'
    ]
    change = METADATA_RECORDS.encode(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1), 0)
    (line,) = decoded("__cluster_metadata", None, change)
    assert line.endswith('"data":{"brokerId":1,"brokerEpoch":2,"fenced":-1}}')
    assert "Error at 0, skipping." in decoded("__cluster_metadata", None, b"\x09")[0]


def test_classic_groups_show_what_members_said() -> None:
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=1,
        subscription=encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 0),
        assignment=encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[]), 0),
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="m", members=[member])
    (line,) = decoded("__consumer_offsets", GROUP_RECORDS.encode_key(GroupMetadataKey(group="g")), GROUP_RECORDS.encode_value(value, 3))
    assert line.startswith('| key: {"type":"2","data":{"group":"g"}} payload: {"version":"3","data":{"protocolType":"consumer"')
    assert '"subscription":{"topics":["t"],"userData":null},"assignment":{"assignedPartitions":[],"userData":null}' in line


def test_tombstones_and_unknown_types() -> None:
    (line,) = decoded("__consumer_offsets", GROUP_RECORDS.encode_key(GroupMetadataKey(group="g")), None)
    assert line.endswith("payload: <DELETE>")
    assert decoded("__consumer_offsets", pack(">h", 99), b"") == ["| key: Unknown record type 99 at offset 0, skipping."]


def test_offset_index_is_held_against_the_log() -> None:
    log = memoryview(bytes(a_batch(5) + a_batch(7)))
    data = memoryview(pack(">iiiiii", 1, 0, 4, len(a_batch()), 0, 0))
    dump = OffsetIndexDump(5)
    assert list(dump.lines(data, log)) == ["offset: 6 position: 0", f"offset: 9 position: {len(a_batch())}"]
    assert dump.mismatches == [(9, 8)]


def test_time_index_is_held_against_the_log() -> None:
    log = memoryview(bytes(a_batch(5) + a_batch(7)))
    data = memoryview(pack(">qiqiqi", 11, 1, 11, 3, 12, 9))
    dump = TimeIndexDump(5)
    assert list(dump.lines(data, memoryview(b""), log)) == [
        "timestamp: 11 offset: 6",
        "timestamp: 11 offset: 8",
        "timestamp: 12 offset: 14",
    ]
    assert (dump.mismatches, dump.out_of_order, dump.not_found) == ([], [(11, 11)], [(14, -1)])


def test_sanity_checks() -> None:
    check_offset_index(memoryview(pack(">ii", 1, 0)), 5)
    check_time_index(memoryview(pack(">qi", 1, 1)), 5)
    for check, data in ((check_offset_index, bytes(9)), (check_time_index, bytes(13)), (check_time_index, pack(">qiqi", 9, 1, 8, 2))):
        with pytest.raises(BrokenIndex, match="its"):
            check(memoryview(data), 5)


def test_transaction_index() -> None:
    assert list(transaction_index_lines(memoryview(pack(">hqqqq", 0, 1, 2, 3, 4)))) == [
        "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    ]


def a_snapshot(*entries: bytes) -> bytes:
    body = pack(">i", len(entries)) + b"".join(entries)
    return pack(">hI", 1, crc32c(body)) + body


def test_producer_snapshot() -> None:
    entry = pack(">qhiqiqiq", 7, 1, 9, 20, 4, 1000, -1, -1)
    nothing_yet = pack(">qhiqiqiq", 8, 0, -1, -1, 0, -1, 3, 55)
    first, second = snapshot_lines(memoryview(a_snapshot(entry, nothing_yet)))
    assert first == (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 1000 "
        "firstSequence: 5 lastSequence: 9 lastOffset: 20 offsetDelta: 4 timestamp: 1000"
    )
    assert second == "producerId: 8 producerEpoch: 0 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong[55] lastTimestamp: -1 "


def test_a_sequence_that_wrapped() -> None:
    (line,) = snapshot_lines(memoryview(a_snapshot(pack(">qhiqiqiq", 7, 1, 1, 20, 3, 0, -1, -1))))
    assert "firstSequence: 2147483646 lastSequence: 1 " in line


@pytest.mark.parametrize(
    "data", [b"", a_snapshot(b"short"), a_snapshot()[:-1] + b"\x01", b"\x00\x02" + a_snapshot()[2:], a_snapshot()[:6] + pack(">i", -1)]
)
def test_broken_snapshots(data: bytes) -> None:
    with pytest.raises(BrokenIndex):
        list(snapshot_lines(memoryview(data)))
