"""◇ The form in which records of `__consumer_offsets` are written today, whatever forms are read."""

from moldau.coordinator.group.records import (
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.coordinator.outcome import CoordinatorRecord
from moldau.protocol.wire import StoredRecord


def written_version(value: StoredRecord) -> int:
    """The version that Kafka 4.3 writes, so that its tools and older brokers read it too.  Source: GroupCoordinatorRecordHelpers."""
    if isinstance(value, GroupMetadataValue):
        return 3
    if isinstance(value, OffsetCommitValue):
        # Only version 1 has a field for an expiry of its own.
        return 4 if value.expire_timestamp == -1 else 1
    return value.VERSIONS[-1]


def as_written_today(key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> CoordinatorRecord:
    """The record in today's form; the old form is a commit from before Kafka 0.9."""
    commit = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return CoordinatorRecord(commit, None)
    return CoordinatorRecord(
        commit, OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
    )
