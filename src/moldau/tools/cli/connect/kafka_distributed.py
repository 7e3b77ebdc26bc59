"""● `moldau connect-distributed`: a worker in a group, as connect-distributed.sh runs it.  Source: ConnectDistributed.java."""

from pathlib import Path

from moldau.tools.cli.connect.running import run_worker
from moldau.tools.cli.kafka.options import KafkaParser


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "connect-distributed",
        "Run a Kafka Connect worker in a group of workers, as connect-distributed.sh does.",
        examples=["connect-distributed.properties"],
    )
    parser.add_argument("file", type=Path, metavar="worker.properties", help="the worker's properties")
    return run_worker(parser.parse_args(arguments).file, None, {})
