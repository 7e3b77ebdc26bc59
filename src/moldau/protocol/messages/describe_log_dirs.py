"""◇ DescribeLogDirs: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, int64, message, string, struct


@struct
class DescribableLogDirTopic:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """Ask a broker for its log directories, and the size and lag of the replicas in them.  Sent by admin tools."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic:
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    error_code: int = int16(default=0)
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", default=False, ignorable=True)


@message(response_to=DescribeLogDirsRequest)
class DescribeLogDirsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
