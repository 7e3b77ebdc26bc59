"""◇ The record of `__transaction_state`: one transactional id and the state of its transaction.

Source: KIP-98, KIP-890 (version 1, flexible, since transaction.version 1).
"""

from moldau.protocol.stored import KeyedRecords
from moldau.protocol.wire import StoredRecord, array, int8, int16, int32, int64, record, string, struct


@record(record_type=0, versions="0")
class TransactionLogKey(StoredRecord):
    transactional_id: str = string()


@struct
class PartitionsSchema:
    topic: str = string()
    partition_ids: list[int] = array(int32)


@record(record_type=0, versions="0-1", flexible="1+")
class TransactionLogValue(StoredRecord):
    """The state of a transaction, and the producer that may write to it.  Source: KIP-915."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2, default=0)


TRANSACTION_RECORDS = KeyedRecords(
    (TransactionLogKey, TransactionLogValue),
)
