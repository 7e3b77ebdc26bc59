"""● `moldau kafka-delete-records`: drop records below given offsets, as kafka-delete-records.sh does."""

import json
from pathlib import Path

from moldau.clients.admin.admin import Admin
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.java_errors import java_error
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.types import TopicPartition


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "kafka-delete-records",
        "Delete the records below given offsets, as kafka-delete-records.sh does.  The file's form:\n"
        '  {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}\n'
        "Offset -1 deletes everything that consumers can see.",
        examples=["--bootstrap-server localhost:9092 --offset-json-file offsets.json"],
    )
    parser.add_common()
    parser.add_argument("--offset-json-file", metavar="FILE", help="the offsets, in a file of this form")
    options = parser.parse_args(arguments)
    missing = [name for name in ("bootstrap-server", "offset-json-file") if getattr(options, name.replace("-", "_")) is None]
    if missing:
        raise parser.missing(*missing)
    before = read_offsets(options.offset_json_file)

    async def work(cluster: Cluster) -> int:
        print("Executing records delete operation")
        answers = await Admin(cluster).partitions.delete_records(before)
        print("Records delete operation completed:")
        for one in sorted(answers, key=str):
            answer = answers[one]
            if isinstance(answer, KafkaError):
                print(f"partition: {one}\terror: {java_error(answer)}")
            else:
                print(f"partition: {one}\tlow_watermark: {answer}")
        return 0

    return on_cluster(options, work)


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Errors: Failure in Kafka's words."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"Unable to read file {path}") from error
    try:
        found = json.loads(text)
        if found.get("version", 1) != 1:
            raise Failure(f"Not supported version field value {found['version']}")
        rows = [(TopicPartition(row["topic"], int(row["partition"])), int(row["offset"])) for row in found["partitions"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Failure(f"{path} is not of the form that --help shows: {type(error).__name__}: {error}") from error
    names = [one for one, _ in rows]
    twice = list(dict.fromkeys(str(one) for one in names if names.count(one) > 1))
    if twice:
        raise Failure(f"Offset json file contains duplicate topic partitions: {', '.join(twice)}")
    return dict(rows)
