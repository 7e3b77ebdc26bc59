"""◇ AssignReplicasToDirs: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, struct, uuid


@struct
class AssignReplicasToDirsRequestPartitionData:
    partition_index: int = int32()


@struct
class AssignReplicasToDirsRequestTopicData:
    topic_id: UUID = uuid()
    partitions: list[AssignReplicasToDirsRequestPartitionData] = array(AssignReplicasToDirsRequestPartitionData)


@struct
class AssignReplicasToDirsRequestDirectoryData:
    id: UUID = uuid()
    topics: list[AssignReplicasToDirsRequestTopicData] = array(AssignReplicasToDirsRequestTopicData)


@message(api_key=73, versions="0", flexible="0+", listeners=("controller",))
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    """Tell the controller the log directory of each replica.  Sent by brokers."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = array(AssignReplicasToDirsRequestDirectoryData)


@struct
class AssignReplicasToDirsResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)


@struct
class AssignReplicasToDirsResponseTopicData:
    topic_id: UUID = uuid()
    partitions: list[AssignReplicasToDirsResponsePartitionData] = array(AssignReplicasToDirsResponsePartitionData)


@struct
class AssignReplicasToDirsResponseDirectoryData:
    id: UUID = uuid()
    topics: list[AssignReplicasToDirsResponseTopicData] = array(AssignReplicasToDirsResponseTopicData)


@message(response_to=AssignReplicasToDirsRequest)
class AssignReplicasToDirsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    directories: list[AssignReplicasToDirsResponseDirectoryData] = array(AssignReplicasToDirsResponseDirectoryData)
