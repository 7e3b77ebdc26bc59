"""◇ Snapshots of the metadata log: names and bytes.

    00000000000000000123-0000000004.checkpoint        holds everything below offset 123 (exclusive), which belongs to epoch 4 or before

    control batch   SnapshotHeader; with kraft.version 1 also KRaftVersion and Voters
    batches         the machine's records
    control batch   SnapshotFooter

A snapshot that is being written bears `.part` after its name and does not count; one without its footer, or with a bad CRC, is no snapshot.
Source: Snapshots.java, RecordsSnapshotWriter, RecordsSnapshotReader; KIP-630, KIP-853.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.protocol.records.batch import CorruptBatch, batches, records_of, verify_crc
from moldau.protocol.records.builder import BatchOptions, NewRecord, RecordBatchBuilder
from moldau.protocol.records.control import ControlType, build_control_batch, parse_control_key
from moldau.protocol.wire import DecodeError
from moldau.raft.control import control_value, parse_control_value
from moldau.raft.records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from moldau.raft.voters import VoterSet
from moldau.types import OffsetAndEpoch

SUFFIX: Final = ".checkpoint"
PARTIAL_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".checkpoint.deleted"
FETCHED_SUFFIX: Final = ".checkpoint.fetched"
BATCH_BYTES: Final = 1 << 20
"""Records of a snapshot are put into batches of about this size."""

_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10


class CorruptSnapshot(ValueError):
    """The file is not a whole snapshot."""


class Snapshot(NamedTuple):
    """The content of a snapshot.  `kraft_version` 0 comes without voters."""

    last_contained_log_timestamp: int
    kraft_version: int
    voters: VoterSet | None
    records: list[bytes]


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:0{_OFFSET_DIGITS}d}-{snapshot_id.epoch:0{_EPOCH_DIGITS}d}{SUFFIX}"


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    """The id in a snapshot's file name; None for any other name, also of an unfinished or retired snapshot."""
    stem = name.removesuffix(SUFFIX)
    offset, dash, epoch = stem.partition("-")
    is_name = name.endswith(SUFFIX) and dash and len(offset) == _OFFSET_DIGITS and len(epoch) == _EPOCH_DIGITS
    return OffsetAndEpoch(int(offset), int(epoch)) if is_name and offset.isdigit() and epoch.isdigit() else None


def build_snapshot(
    records: Iterable[bytes],
    *,
    epoch: int,
    now_ms: int,
    last_contained_log_timestamp: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> list[bytearray]:
    """The file's content in parts."""
    header = [
        (
            ControlType.SNAPSHOT_HEADER,
            control_value(SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)),
        )
    ]
    if kraft_version > 0:
        assert voters is not None, "with kraft.version 1 the voters are part of the snapshot"
        header.append((ControlType.KRAFT_VERSION, control_value(KRaftVersionRecord(version=0, kraft_version=kraft_version))))
        header.append((ControlType.KRAFT_VOTERS, control_value(voters.to_record())))
    parts = [build_control_batch(header, timestamp_ms=now_ms, base_offset=0, leader_epoch=epoch)]
    offset = len(header)
    builder = RecordBatchBuilder(BatchOptions(base_offset=offset, leader_epoch=epoch))
    for value in records:
        if len(builder) and builder.size + len(value) > BATCH_BYTES:
            parts.append(builder.build())
            builder = RecordBatchBuilder(BatchOptions(base_offset=offset, leader_epoch=epoch))
        builder.append(NewRecord(now_ms, None, value))
        offset += 1
    if len(builder):
        parts.append(builder.build())
    footer = [(ControlType.SNAPSHOT_FOOTER, control_value(SnapshotFooterRecord(version=0)))]
    parts.append(build_control_batch(footer, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch))
    return parts


def read_snapshot(data: bytes | memoryview) -> Snapshot:
    """The snapshot in a file's bytes.  Errors: CorruptSnapshot."""
    timestamp: int | None = None
    kraft_version = 0
    voters: VoterSet | None = None
    records: list[bytes] = []
    has_footer = False
    try:
        for is_control, key, value in _records(memoryview(data)):
            if has_footer:
                raise CorruptSnapshot("there is more after its footer")
            if not is_control:
                records.append(value)
                continue
            kind = parse_control_key(key).type
            if timestamp is None and kind is not ControlType.SNAPSHOT_HEADER:
                raise CorruptSnapshot("it does not begin with a header")
            message = parse_control_value(kind, value)
            match message:
                case SnapshotHeaderRecord():
                    timestamp = message.last_contained_log_timestamp
                case KRaftVersionRecord():
                    kraft_version = message.kraft_version
                case VotersRecord():
                    voters = VoterSet.from_record(message)
                case SnapshotFooterRecord():
                    has_footer = True
    except (CorruptBatch, DecodeError, KeyError) as error:
        raise CorruptSnapshot(str(error)) from error
    if timestamp is None or not has_footer:
        raise CorruptSnapshot("it has no footer: it was never finished" if timestamp is not None else "it is empty")
    return Snapshot(timestamp, kraft_version, voters, records)


def _records(view: memoryview) -> Iterator[tuple[bool, bytes | None, bytes]]:
    for position, header in batches(view, strict=True):
        if not verify_crc(view, position, header):
            raise CorruptSnapshot(f"the batch at byte {position} does not match its checksum")
        for record in records_of(view[position : position + header.size]):
            if record.value is None:
                raise CorruptSnapshot(f"the record at offset {record.offset} has no value")
            yield header.is_control, None if record.key is None else bytes(record.key), bytes(record.value)
