"""● `moldau kafka-leader-election`: makes preferred replicas or any live ones leaders, as kafka-leader-election.sh does.

Differs from Kafka: partitions are sorted, where Kafka prints them in the order of its hash maps, and no stack trace follows an error.
"""

import argparse
import json
import sys
from pathlib import Path

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.partitions import Answers, ElectionType
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.java_errors import java_error
from moldau.tools.cli.kafka.options import KafkaParser, deprecated
from moldau.types import TopicPartition

SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    wrong = _wrong(options)
    if wrong is not None:
        raise parser.usage_error(wrong)
    note = deprecated(options.old_command_config, "--admin.config", "--command-config")
    if note is not None:
        print(note, file=sys.stderr)
        options.command_config = options.command_config or options.old_command_config
    partitions = None if options.all_topic_partitions else [TopicPartition(options.topic, options.partition)]
    if options.path_to_json_file is not None:
        partitions = read_partitions(options.path_to_json_file)
    kind = ElectionType[options.election_type.upper()]

    async def work(cluster: Cluster) -> int:
        tell(kind, await Admin(cluster).partitions.elect_leaders(kind, partitions))
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-leader-election",
        "Elect leaders of partitions, as kafka-leader-election.sh does.  The file's form:\n"
        '  {"partitions": [{"topic": "foo", "partition": 1}]}',
        examples=[
            "--bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions",
            "--bootstrap-server localhost:9092 --election-type unclean --topic orders --partition 0",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--admin.config", dest="old_command_config", metavar="FILE", help="(deprecated) --command-config")
    add("--election-type", type=str.lower, choices=("preferred", "unclean"), help="which replica is to lead")
    add("--topic", help="the topic of the one partition; needs --partition")
    add("--partition", type=int, metavar="ID", help="the number of the one partition; needs --topic")
    add("--all-topic-partitions", action="store_true", help="all partitions that need an election")
    add("--path-to-json-file", metavar="FILE", help="the partitions in a file")
    return parser


def _wrong(options: argparse.Namespace) -> str | None:
    missing = [name for name in ("bootstrap-server", "election-type") if getattr(options, name.replace("-", "_")) is None]
    if missing:
        return f"Missing required option(s): {', '.join(missing)}"
    if sum(getattr(options, name.replace("-", "_")) not in (None, False) for name in SCOPES) != 1:
        return f"One and only one of the following options is required: {', '.join(SCOPES)}"
    if options.topic is not None and options.partition is None:
        return "Missing required option(s): partition"
    if options.topic is None and options.partition is not None:
        return "Option partition is only allowed if topic is used"
    return None


def read_partitions(path: str) -> list[TopicPartition]:
    """Errors: Failure."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if "partitions" not in found:
            raise Failure('Replica election data is missing "partitions" field')
        rows = [TopicPartition(row["topic"], int(row["partition"])) for row in found["partitions"]]
    except OSError as error:
        raise Failure(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise Failure(f"{path} is not of the form that --help shows: {type(error).__name__}: {error}") from error
    twice = sorted({one for one in rows if rows.count(one) > 1})
    if twice:
        raise Failure(f"Replica election data contains duplicate partitions: [{', '.join(map(str, twice))}]")
    return rows


def tell(kind: ElectionType, answers: Answers) -> None:
    """Errors: Failure when a leader could not be elected."""
    elected = sorted(one for one, error in answers.items() if error is None)
    failed = {one: error for one, error in sorted(answers.items()) if error is not None}
    needless = [one for one, error in failed.items() if error.code is ErrorCode.ELECTION_NOT_NEEDED]
    if elected:
        print(f"Successfully completed leader election ({kind.name}) for partitions {', '.join(map(str, elected))}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    for one in needless:
        del failed[one]
    for one, error in failed.items():
        print(f"Error completing leader election ({kind.name}) for partition: {one}: {java_error(error)}")
    if failed:
        raise Failure(f"{len(failed)} replica(s) could not be elected")
