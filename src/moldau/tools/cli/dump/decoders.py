"""◇ Keys and values of internal topics in words, as kafka-dump-log's decoders print them.

A decoder takes a record and gives the text of its key and the text of its value, None where there is no text.

Source: DumpLogSegments.java, CoordinatorRecordMessageFormatter.java.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.coordinator.group.records import GROUP_RECORDS, GroupMetadataValue
from moldau.coordinator.share.records import SHARE_STATE_RECORDS
from moldau.coordinator.txn.records import TRANSACTION_RECORDS
from moldau.metadata.records import METADATA_RECORDS
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.records.batch import Record
from moldau.protocol.stored import KeyedRecords, decode_versioned
from moldau.protocol.varint import read_unsigned
from moldau.protocol.wire import DecodeError, StoredRecord
from moldau.tools.cli.dump.message_json import compact, to_json
from moldau.types import METADATA_TOPIC

Decoded = tuple[str | None, str | None]
Decoder = Callable[[Record], Decoded]

DELETED: Final = "<DELETE>"
_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def text(record: Record) -> Decoded:
    """Bytes as UTF-8."""
    return _text(record.key), _text(record.value)


def _text(data: memoryview | None) -> str | None:
    return None if data is None else str(data, "utf-8", "replace")


def cluster_metadata(record: Record) -> Decoded:
    try:
        assert record.value is not None
        message = METADATA_RECORDS.decode(record.value)
        version = _framed_version(record.value)
        shown = {"type": record_type_name(type(message)), "version": version, "data": to_json(message, version)}
    except (DecodeError, AssertionError) as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    return None, compact(shown)


def record_type_name(declared: type[StoredRecord]) -> str:
    """RegisterBrokerRecord → REGISTER_BROKER_RECORD."""
    return _WORD_STARTS.sub("_", declared.__name__).upper()


def _framed_version(value: memoryview) -> int:
    _, position = read_unsigned(value, 0)
    _, position = read_unsigned(value, position)
    return read_unsigned(value, position)[0]


def keyed(records: KeyedRecords) -> Decoder:
    """The records of one coordinator's topic."""

    def decode(record: Record) -> Decoded:
        if record.key is None:
            return f"Error at offset {record.offset}, skipping. The key is missing", None
        try:
            decoded = records.decode(record.key, record.value)
        except DecodeError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None
        number = int.from_bytes(record.key[:2])
        if decoded is None:
            return f"Unknown record type {number} at offset {record.offset}, skipping.", None
        key, value = decoded
        shown_key = compact({"type": str(number), "data": to_json(key, 0)})
        if value is None or record.value is None:
            return shown_key, DELETED
        version = int.from_bytes(record.value[:2])
        data = to_json(value, version)
        if isinstance(value, GroupMetadataValue):
            open_classic_members(data)
        return shown_key, compact({"version": str(version), "data": data})

    return decode


def open_classic_members(data: dict[str, Any]) -> None:
    """The messages between members of a classic consumer group, instead of their bytes."""
    if data.get("protocolType") != "consumer":
        return
    embedded: Mapping[str, type[StoredRecord]] = {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}
    for member in data["members"]:
        for name, declared in embedded.items():
            raw = b64decode(member[name])
            try:
                message = decode_versioned(declared, raw)
            except DecodeError:
                continue
            member[name] = to_json(message, int.from_bytes(raw[:2]))


DECODERS: Final[Mapping[str, Decoder]] = {
    METADATA_TOPIC: cluster_metadata,
    "__consumer_offsets": keyed(GROUP_RECORDS),
    "__transaction_state": keyed(TRANSACTION_RECORDS),
    "__share_group_state": keyed(SHARE_STATE_RECORDS),
}
"""The decoders by topic."""
