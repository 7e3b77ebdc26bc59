"""◇ A segment or a KRaft snapshot, batch by batch and record by record, in the lines that Kafka's DumpLogSegments prints.

Guarantee: a broken file ends in a note of how many bytes are invalid, never in an exception.  The line of a batch says whether its CRC
holds.

Source: DumpLogSegments.java.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from moldau.protocol.records.batch import BatchHeader, CorruptBatch, Record, batches, next_sequence, records_of, verify_crc
from moldau.protocol.records.control import ControlType, parse_control_key, parse_end_txn_marker
from moldau.protocol.wire import DecodeError
from moldau.raft.control import parse_control_value
from moldau.tools.cli.dump.decoders import Decoder
from moldau.tools.cli.dump.message_json import compact, to_json
from moldau.types import NO_SEQUENCE

LOG: Final = ".log"
SNAPSHOT: Final = ".checkpoint"
BOOTSTRAP: Final = "bootstrap.checkpoint"
NO_LIMIT: Final = 0x7FFFFFFF

# The names as Kafka prints them, with its irregular punctuation.
_CONTROL_NAMES: Final = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


@dataclass
class SegmentDump:
    """The way to print one file, and the gaps and bad CRCs that were found on the way."""

    name: str
    deep: bool = False
    decoder: Decoder | None = None
    """None: contents are not printed."""
    skip_metadata: bool = False
    max_bytes: int = NO_LIMIT
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Offsets of neighbours that are not consecutive."""
    bad_crcs: int = 0

    def lines(self, data: memoryview) -> Iterator[str]:
        title = heading(self.name)
        if title:
            yield title
        view = data[: self.max_bytes]
        valid_bytes, last_offset = 0, -1
        try:
            for position, header in batches(view):
                yield self._batch_line(view, position, header)
                valid_bytes = position + header.size
                if not self.deep:
                    continue
                for record in records_of(view[position:valid_bytes]):
                    if last_offset not in (-1, record.offset - 1):
                        self.gaps.append((last_offset, record.offset))
                    last_offset = record.offset
                    yield self._record_line(header, record)
        except CorruptBatch as error:
            yield f"Broken at byte {valid_bytes}: {error}"
        if valid_bytes < len(data) and self.max_bytes >= NO_LIMIT:
            yield f"Found {len(data) - valid_bytes} invalid bytes at the end of {self.name}"

    def _batch_line(self, view: memoryview, position: int, header: BatchHeader) -> str:
        is_valid = verify_crc(view, position, header)
        self.bad_crcs += not is_valid
        horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count}"
            f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
            f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
            f" partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)}"
            f" isControl: {_bool(header.is_control)} deleteHorizonMs: {horizon}"
            f" position: {position} {_TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp}"
            f" size: {header.size} magic: {header.magic} compresscodec: {header.codec.name.lower()}"
            f" crc: {header.crc} isvalid: {_bool(is_valid)}"
        )

    def _record_line(self, header: BatchHeader, record: Record) -> str:
        parts = [] if self.skip_metadata else [self._metadata(header, record)]
        if self.decoder is not None and not header.is_control:
            key, value = self.decoder(record)
            parts += [f"key: {key}"] if key is not None else []
            parts += [f"payload: {value}"] if value is not None else []
        return "| " + " ".join(parts) if parts else ""

    def _metadata(self, header: BatchHeader, record: Record) -> str:
        sequence = NO_SEQUENCE
        if header.base_sequence != NO_SEQUENCE:
            sequence = next_sequence(header.base_sequence, record.offset - header.base_offset)
        shown = (
            f"offset: {record.offset} {_TIMESTAMP_TYPES[header.timestamp_type]}: {record.timestamp}"
            f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
            f" sequence: {sequence} headerKeys: [{','.join(one.shown_key for one in record.headers)}]"
        )
        return f"{shown} {control_text(record)}" if header.is_control else shown


def heading(name: str) -> str:
    """The line before a file's batches.  Errors: ValueError for a name that is no segment's."""
    if name == BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    if name.endswith(SNAPSHOT):
        offset, _, epoch = name.removesuffix(SNAPSHOT).partition("-")
        return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
    return f"Log starting offset: {int(name.split('.', maxsplit=1)[0])}"


def control_text(record: Record) -> str:
    """Errors: CorruptBatch."""
    key = parse_control_key(record.key)
    if key.type in (ControlType.ABORT, ControlType.COMMIT):
        return f"endTxnMarker: {key.type.name} coordinatorEpoch: {parse_end_txn_marker(record.value).coordinator_epoch}"
    try:
        message = parse_control_value(key.type, record.value)
    except DecodeError as error:
        raise CorruptBatch(f"the control record at offset {record.offset}: {error}") from error
    if message is None:
        return f"controlType: {key.type.name}({key.number})"
    return f"{_CONTROL_NAMES[key.type]} {compact(to_json(message, message.version))}"


def _size(data: memoryview | None) -> int:
    return -1 if data is None else len(data)


def _bool(value: bool) -> str:
    return "true" if value else "false"
