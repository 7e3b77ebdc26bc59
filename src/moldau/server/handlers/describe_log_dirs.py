"""● DescribeLogDirs: the folders of this broker, what lies in them and how much room there is.

Versions       1-5.
Authorises     DESCRIBE on the cluster.
Behaviour      Null topics are all of them; folders are told in the order of log.dirs, topics without a partition here are left out.
Version notes  3+ an error for the whole; 4+ bytes in total and free; 5+ cordoned folders (KIP-1066), which there are none of here.
Errors         KAFKA_STORAGE_ERROR for a folder that cannot be asked.
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.replication.partition import Partition
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(DescribeLogDirsRequest)
def describe_log_dirs(broker: Broker, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    partitions = [partition for partition in broker.replicas if wanted is None or partition.topic_partition in wanted]
    return DescribeLogDirsResponse(results=[_describe(broker, folder, partitions) for folder in broker.config.log_dirs])


def _describe(broker: Broker, folder: str, partitions: list[Partition]) -> DescribeLogDirsResult:
    try:
        total, usable = broker.files.total_bytes(folder), broker.files.free_bytes(folder)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder, topics=[])
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        log = partition.log
        if log.directory.rpartition("/")[0] == folder:
            lag = 0 if partition.is_leader else max(0, log.high_watermark - log.log_end_offset)
            topics.setdefault(partition.topic_partition.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=partition.topic_partition.partition, partition_size=log.size, offset_lag=lag, is_future_key=False
                )
            )
    return DescribeLogDirsResult(
        log_dir=folder,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
