"""◇ AlterReplicaLogDirs: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AlterReplicaLogDir:
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    """Move replicas to another log directory of the same broker.  Sent by admin tools."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)

    def refused(self, code: int, message: str | None = None) -> "AlterReplicaLogDirsResponse":
        topics = [topic for directory in self.dirs for topic in directory.topics]
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index in topic.partitions],
                )
                for topic in topics
            ]
        )


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = int32()
    error_code: int = int16(default=0)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(response_to=AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
