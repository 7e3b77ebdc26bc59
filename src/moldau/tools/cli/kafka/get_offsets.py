"""● `moldau kafka-get-offsets`: `topic:partition:offset` lines, as kafka-get-offsets.sh prints them."""

import argparse
import re
import sys
from collections.abc import Callable
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser, TopicFilter
from moldau.types import TopicPartition

TIMES: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}
_WORDS: Final = " / ".join(f"{number} or {word}" for word, number in TIMES.items())
_PATTERN: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Wanted = Callable[[TopicPartition], bool]


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")
    if options.topic_partitions and (options.topic or options.partitions):
        raise parser.usage_error("Error occurred: --topic-partitions cannot be used with --topic or --partitions")
    target = parse_time(options.time)

    async def work(cluster: Cluster) -> int:
        await _show(cluster, options, target)
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-get-offsets",
        "Print offsets of partitions, as kafka-get-offsets.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 --topic orders",
            "--bootstrap-server localhost:9092 --topic-partitions orders:0-2 --time earliest",
        ],
    )
    parser.add_common()
    parser.add_argument("--topic", help="a regular expression (all topics)")
    parser.add_argument("--partitions", metavar="0,1,2", help="only these partitions")
    parser.add_argument("--topic-partitions", metavar="PATTERNS", help="topic:partition, topic:0-3, topic:5-, topic; comma separated")
    parser.add_argument("--time", default="latest", help=f"milliseconds, or {_WORDS} (latest)".replace("%", "%%"))
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out the topics that Kafka keeps for itself")
    return parser


def parse_time(text: str) -> int:
    """Errors: Failure in Kafka's words."""
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise Failure(
            f"Error occurred: Malformed time argument {text}. Please use {_WORDS}, or a specified long format timestamp"
        ) from None


def parse_topic_partitions(text: str) -> Wanted:
    """The filter that lets through the matches of any of several `topic:range` patterns.  Errors: Failure."""
    rules = [_rule(part.strip()) for part in text.split(",")]
    return lambda one: any(rule(one) for rule in rules)


def _rule(text: str) -> Wanted:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise Failure(f"Error occurred: Invalid rule specification: {text}")
    name, exact, low, high = match.groups()
    topics = TopicFilter(name or ".*")
    first = int(exact or low or 0)
    last = int(exact) + 1 if exact else (int(high) if high else None)
    return lambda one: topics.matches(one.topic) and one.partition >= first and (last is None or one.partition < last)


def _wanted(options: argparse.Namespace) -> Wanted:
    if options.topic_partitions:
        return parse_topic_partitions(options.topic_partitions)
    topics = TopicFilter(options.topic or ".*")
    try:
        numbers = {int(number) for number in options.partitions.split(",") if number} if options.partitions else set()
    except ValueError:
        raise Failure(
            f"Error occurred: --partitions expects a comma separated list of numeric partition ids, but received: {options.partitions}"
        ) from None
    return lambda one: topics.matches(one.topic) and (not numbers or one.partition in numbers)


async def _show(cluster: Cluster, options: argparse.Namespace, target: int) -> None:
    wanted = _wanted(options)
    admin = Admin(cluster)
    topics = await admin.topics.list(include_internal=not options.exclude_internal_topics)
    everything = (TopicPartition(topic.name or "", one.partition_index) for topic in topics for one in topic.partitions)
    partitions = sorted((one for one in everything if wanted(one)), key=str)
    if not partitions:
        raise Failure("Error occurred: Could not match any topic-partitions with the specified filters")
    found = await admin.partitions.list_offsets(dict.fromkeys(partitions, target))
    for one in partitions:
        answer = found[one]
        if isinstance(answer, KafkaError):
            print(f"Skip getting offsets for topic-partition {one} due to error: {answer.detail}", file=sys.stderr)
        elif answer.offset >= 0:
            print(f"{one.topic}:{one.partition}:{answer.offset}")
