"""◇ Control records: the records that brokers write about a log, into the log itself.

    key    int16 version (0) · int16 type
    value  ABORT, COMMIT: int16 version (0) · int32 coordinator_epoch
           KRaft's own: a message of `raft/records.py`, whose first field is its version

A control batch holds one record; only KRaft may write several together.  Consumers never see control records, but each takes an offset.
Source: ControlRecordType.java, EndTransactionMarker.java; KIP-98, 595, 630, 853.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Buffer
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.types import NO_SEQUENCE

_KEY: Final = Struct(">hh")
_END_TXN_MARKER: Final = Struct(">hi")
CURRENT_VERSION: Final = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


_TYPES: Final = {int(kind): kind for kind in ControlType}


class ControlKey(NamedTuple):
    """A control record's key.  `number` is the type in the key.  `type` is UNKNOWN for a type of a newer Kafka."""

    version: int
    type: ControlType
    number: int


class EndTxnMarker(NamedTuple):
    version: int
    coordinator_epoch: int


def parse_control_key(key: Buffer | None) -> ControlKey:
    """Read a control record's key.  A newer version may have more bytes after the type.  Errors: CorruptBatch."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record's key has a version and a type: four bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"a control record's key has version {version}")
    return ControlKey(version, _TYPES.get(number, ControlType.UNKNOWN), number)


def control_key(kind: ControlType) -> bytes:
    assert kind is not ControlType.UNKNOWN
    return _KEY.pack(CURRENT_VERSION, kind)


def parse_end_txn_marker(value: Buffer | None) -> EndTxnMarker:
    """Read the value of an ABORT or COMMIT record.  Errors: CorruptBatch."""
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise CorruptBatch("an end-of-transaction marker has a version and a coordinator epoch: six bytes")
    marker = EndTxnMarker._make(_END_TXN_MARKER.unpack_from(value))
    if marker.version < 0:
        raise CorruptBatch(f"an end-of-transaction marker has version {marker.version}")
    return marker


def build_end_txn_marker(
    *,
    is_commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a transaction on one partition."""
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    record = NewRecord(timestamp_ms, control_key(kind), _END_TXN_MARKER.pack(CURRENT_VERSION, coordinator_epoch))
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )


def build_control_batch(
    records: Sequence[tuple[ControlType, Buffer]], *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytearray:
    """KRaft's control records, each a type and its encoded value, in one batch."""
    return build_batch(
        [NewRecord(timestamp_ms, control_key(kind), value) for kind, value in records],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        is_control=True,
    )
