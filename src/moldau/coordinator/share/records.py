"""◇ The records of `__share_group_state`: snapshots of share partitions and updates to them (KIP-932)."""

from uuid import UUID

from moldau.protocol.stored import KeyedRecords
from moldau.protocol.wire import StoredRecord, array, int8, int16, int32, int64, record, string, struct, uuid


@record(record_type=0, versions="0")
class ShareSnapshotKey(StoredRecord):
    group_id: str = string()
    topic_id: UUID = uuid()
    partition: int = int32()


@struct
class StateBatch:
    first_offset: int = int64(about="Inclusive.")
    last_offset: int = int64(about="Inclusive.")
    delivery_state: int = int8()
    delivery_count: int = int16()


@record(record_type=0, versions="0", flexible="0+")
class ShareSnapshotValue(StoredRecord):
    """The whole state of a share partition.  Source: KIP-1226."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@record(record_type=1, versions="0")
class ShareUpdateKey(StoredRecord):
    group_id: str = string()
    topic_id: UUID = uuid()
    partition: int = int32()


@record(record_type=1, versions="0", flexible="0+")
class ShareUpdateValue(StoredRecord):
    """The changes of a share partition's state since the last snapshot.  Source: KIP-1226."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


SHARE_STATE_RECORDS = KeyedRecords(
    (ShareSnapshotKey, ShareSnapshotValue),
    (ShareUpdateKey, ShareUpdateValue),
)
