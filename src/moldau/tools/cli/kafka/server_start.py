"""● `moldau kafka-server-start`: run a node from a server.properties, as kafka-server-start.sh does.

Source: kafka-server-start.sh, Kafka.scala.
"""

from pathlib import Path

from moldau.tools.cli.kafka.background import add_daemon, start_in_background
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.parser import key_value
from moldau.tools.cli.serve import loaded, serve


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "kafka-server-start",
        "Run a node as server.properties says, as kafka-server-start.sh does.  SIGTERM or `moldau kafka-server-stop` stops it cleanly.",
        examples=["server.properties", "-daemon server.properties --override log.retention.hours=24"],
    )
    add_daemon(parser)
    parser.add_argument("file", type=Path, metavar="server.properties", help="the node's properties")
    parser.add_argument(
        "--override", action="append", default=[], type=key_value, metavar="property=value", help="overrides the file; repeatable"
    )
    parser.add_version()
    options = parser.parse_args(arguments)
    config = loaded(options.file, dict(options.override))
    if options.daemon:
        return start_in_background("kafka-server-start", arguments, "kafkaServer")
    return serve(config)
