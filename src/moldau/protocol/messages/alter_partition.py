"""◇ AlterPartition: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, int64, message, struct, uuid


@struct
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@struct
class AlterPartitionRequestPartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2", default=[])
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+", default=[])
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@struct
class AlterPartitionRequestTopicData:
    topic_id: UUID = uuid()
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


@message(api_key=56, versions="2-3", flexible="0+", listeners=("controller",))
class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    """Propose a new in-sync replica set.  Sent by a partition's leader to the active controller.  Source: KIP-704, 841, 903."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


@struct
class AlterPartitionResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@struct
class AlterPartitionResponseTopicData:
    topic_id: UUID = uuid()
    partitions: list[AlterPartitionResponsePartitionData] = array(AlterPartitionResponsePartitionData)


@message(response_to=AlterPartitionRequest)
class AlterPartitionResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
