"""● `moldau kafka-log-dirs`: sizes of partitions by broker and folder as JSON, as kafka-log-dirs.sh prints them."""

import argparse
from typing import Any

from moldau.clients.admin.admin import Admin
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsResult
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.dump.message_json import compact
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.java_errors import java_error
from moldau.tools.cli.kafka.options import KafkaParser


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "kafka-log-dirs",
        "Print how large the partitions in each broker's folders are, as kafka-log-dirs.sh does.",
        examples=["--bootstrap-server localhost:9092 --describe --topic-list orders,payments"],
    )
    parser.add_common()
    parser.add_argument("--describe", action="store_true", help="required")
    parser.add_argument("--topic-list", default="", metavar="TOPIC,TOPIC", help="only these topics (all)")
    parser.add_argument("--broker-list", default="", metavar="ID,ID", help="only these brokers (all)")
    options = parser.parse_args(arguments)
    missing = [name for name in ("bootstrap-server", "describe") if not getattr(options, name.replace("-", "_"))]
    if missing:
        raise parser.missing(*missing)

    async def work(cluster: Cluster) -> int:
        await _describe(Admin(cluster), options)
        return 0

    return on_cluster(options, work)


async def _describe(admin: Admin, options: argparse.Namespace) -> None:
    topics = {name for name in options.topic_list.split(",") if name}
    known = sorted(broker.broker_id for broker in (await admin.describe_cluster()).brokers)
    try:
        asked = sorted({int(number) for number in options.broker_list.split(",") if number}) or known
    except ValueError as error:
        raise Failure(f"--broker-list {options.broker_list} is not a list of numbers") from error
    foreign = [broker for broker in asked if broker not in known]
    if foreign:
        raise Failure(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, foreign))}."
            f" Current existent brokers: {','.join(map(str, known))}"
        )
    print("Querying brokers for log directories information")
    found = await admin.partitions.describe_log_dirs(asked)
    print(f"Received log directory information from brokers {','.join(map(str, asked))}")
    brokers = []
    for broker_id, answer in found.items():
        if isinstance(answer, KafkaError):
            raise answer
        brokers.append({"broker": broker_id, "logDirs": [_folder(one, topics) for one in answer]})
    print(compact({"brokers": brokers, "version": 1}))


def _folder(one: DescribeLogDirsResult, topics: set[str]) -> dict[str, Any]:
    partitions = [
        {
            "partition": f"{topic.name}-{partition.partition_index}",
            "size": partition.partition_size,
            "offsetLag": partition.offset_lag,
            "isFuture": partition.is_future_key,
        }
        for topic in one.topics
        if not topics or topic.name in topics
        for partition in topic.partitions
    ]
    error = java_error(KafkaError(ErrorCode.of(one.error_code))) if one.error_code else None
    return {"partitions": partitions, "error": error, "logDir": one.log_dir}
