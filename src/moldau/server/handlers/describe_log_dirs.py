"""● DescribeLogDirs: the folders of this broker, their replicas and their free space.

Versions       1-5.
Authorises     DESCRIBE on the cluster.
Behaviour      Null topics are all of them; folders come in the order of log.dirs; topics without a partition here are left out.  A
               partition that moves to another folder is listed in both; in the new one it is a future replica, which lags behind.
Version notes  3+ an error for the whole; 4+ bytes in total and free; 5+ cordoned folders (KIP-1066), of which this broker has none.
Errors         KAFKA_STORAGE_ERROR for a folder that is offline.
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
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.storage.folders.directory import LogDirectory


@handles(DescribeLogDirsRequest)
def describe_log_dirs(broker: Broker, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    partitions = [partition for partition in broker.replicas if wanted is None or partition.topic_partition in wanted]
    return DescribeLogDirsResponse(results=[_describe(broker, directory, partitions) for directory in broker.logs.directories])


def _describe(broker: Broker, directory: LogDirectory, partitions: list[Partition]) -> DescribeLogDirsResult:
    folder = directory.path
    try:
        if directory.failure is not None:
            raise directory.failure
        total, usable = broker.files.total_bytes(folder), broker.files.free_bytes(folder)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder, topics=[])
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        topic, number = partition.topic_partition
        log, move = partition.log, broker.logs.moves.get(partition.topic_partition)
        if log.directory.rpartition("/")[0] == folder:
            lag = max(0, log.high_watermark - log.log_end_offset)
            topics.setdefault(topic, []).append(_partition(number, log.size, lag, is_future=False))
        if move is not None and move.parent == folder:
            topics.setdefault(topic, []).append(_partition(number, move.size, move.offset_lag, is_future=True))
    return DescribeLogDirsResult(
        log_dir=folder,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def _partition(number: int, size: int, lag: int, *, is_future: bool) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(partition_index=number, partition_size=size, offset_lag=lag, is_future_key=is_future)
