"""● `moldau connect-distributed`: a worker in a group, as connect-distributed.sh runs it.  Source: ConnectDistributed.java."""

from pathlib import Path

from moldau.tools.cli.connect.running import run_worker
from moldau.tools.cli.kafka.background import add_daemon, start_in_background
from moldau.tools.cli.kafka.options import KafkaParser


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "connect-distributed",
        "Run a Kafka Connect worker in a group of workers, as connect-distributed.sh does.",
        examples=["connect-distributed.properties"],
    )
    add_daemon(parser)
    parser.add_argument("file", type=Path, metavar="worker.properties", help="the worker's properties")
    options = parser.parse_args(arguments)
    if options.daemon:
        return start_in_background("connect-distributed", arguments, "connectDistributed")
    return run_worker(options.file, None, {})
