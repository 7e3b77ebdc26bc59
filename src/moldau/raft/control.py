"""◇ KRaft's control records: the message of each type, and its bytes.

A value begins with its own version, the same number that it is encoded in.

Source: ControlRecordUtils.java.
"""

from typing import Final, TypeAlias

from moldau.protocol.compiler import decode, encode_bytes
from moldau.protocol.records.control import ControlType
from moldau.protocol.wire import DecodeError
from moldau.raft.records import KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord

ControlMessage: TypeAlias = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

BY_TYPE: Final[dict[ControlType, type[ControlMessage]]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def control_value(message: ControlMessage) -> bytes:
    return encode_bytes(message, message.version)


def parse_control_value(kind: ControlType, value: memoryview | bytes | None) -> ControlMessage | None:
    """The message in a control record's value; None for a type that is not KRaft's.  Errors: DecodeError."""
    declared = BY_TYPE.get(kind)
    if declared is None:
        return None
    if value is None or len(value) < 2:
        raise DecodeError(declared.__name__, "a control record's value begins with its version")
    version = min(int.from_bytes(value[:2], "big", signed=True), declared.VERSIONS[-1])
    return decode(declared, version, value)
