"""● The promises between brokers of a schedule, checked on their disks.  Each check returns a violation in words, or None.

A broken promise rarely costs a record within a schedule, because a leader has to die at the right moment.  So `schedules.py` checks the
promises themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import read_header, records_of
from moldau.storage.epochs import EpochEntry
from moldau.storage.log import Log
from proof.replication.broker import Broker

LOOKED_AT: Final = 8
"""The number of records at the end of a log that are compared before and after a truncation."""


def value_at(log: Log, offset: int) -> bytes | None:
    """The value of the one record of a batch."""
    data = log.read(offset, 1, min_one_batch=True)
    if isinstance(data, ErrorCode) or data.records is None:
        return None
    view = memoryview(data.records.read())
    header = read_header(view)
    (record,) = records_of(view)
    return bytes(record.value or b"") if header.base_offset == offset else None


def epochs_of(log: Log) -> list[EpochEntry]:
    """The epochs with records."""
    return [entry for entry in log.epochs.entries if entry.start_offset < log.log_end_offset]


def content_of(log: Log) -> bytes:
    """Every byte of the log's segments."""
    return b"".join(segment.file.pread(segment.size, 0) for segment in log.segments)


def end_of(log: Log) -> list[tuple[int, bytes | None]]:
    """The last records, by their offsets."""
    return [
        (offset, value_at(log, offset)) for offset in range(max(log.log_start_offset, log.log_end_offset - LOOKED_AT), log.log_end_offset)
    ]


def is_everywhere(brokers: Mapping[int, Broker], isr: Sequence[int], offset: int, value: bytes) -> str | None:
    """Check that every acknowledged record is in the log of each replica that the controller counts as in sync."""
    without = [each for each in isr if brokers[each].is_up and value_at(brokers[each].log, offset) != value]
    return f"{value!r} at {offset} is acknowledged, and {without} of the in-sync {isr} do not have it" if without else None


def may_join(joiner: Broker, acknowledged: Mapping[int, bytes]) -> str | None:
    """Check that a replica that becomes in sync has every acknowledged record."""
    missing = [offset for offset, value in acknowledged.items() if value_at(joiner.log, offset) != value]
    return f"{joiner.id} becomes in sync without what was acknowledged at {missing[:3]}" if missing else None


def believes_rightly(leader: Broker, brokers: Mapping[int, Broker]) -> str | None:
    """Check that a follower has the records that its leader counts, as the leader has them."""
    for broker_id, state in leader.partition.followers.items():
        other, last = brokers[broker_id], state.log_end_offset - 1
        is_of_this_life = other.is_up and state.broker_epoch in (-1, other.epoch)
        if is_of_this_life and last >= leader.log.log_start_offset and value_at(other.log, last) != value_at(leader.log, last):
            return f"{leader.id} leads epoch {leader.partition.leader_epoch} and thinks that {broker_id} has its record at {last}"
    return None


def keeps_what_is_common(follower: Broker, leader: Broker, before: Iterable[tuple[int, bytes | None]]) -> str | None:
    """Check that a follower truncates no record that its leader has, too.  `before` are the follower's last records before that."""
    for offset, value in before:
        if value is not None and offset >= follower.log.log_end_offset and value_at(leader.log, offset) == value:
            return f"{follower.id} truncates {value!r} at {offset}, which its leader {leader.id} has"
    return None
