"""● `moldau connect-standalone`: one worker without a group, as connect-standalone.sh runs it.

Source: ConnectStandalone.java, AbstractConnectCli.java.
"""

from pathlib import Path

from moldau.tools.cli.connect.running import run_worker
from moldau.tools.cli.kafka.background import add_daemon, start_in_background
from moldau.tools.cli.kafka.options import KafkaParser


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "connect-standalone",
        "Run one Kafka Connect worker without a group, with the connectors in the files, as connect-standalone.sh does.  Its offsets are "
        "in offset.storage.file.filename.  It ends with 3 when a connector cannot be created.",
        examples=["connect-standalone.properties connect-file-source.properties connect-file-sink.json"],
    )
    add_daemon(parser)
    parser.add_argument("file", type=Path, metavar="worker.properties", help="the worker's properties")
    parser.add_argument("connectors", nargs="*", metavar="connector", help="a connector's file, properties or JSON")
    options = parser.parse_args(arguments)
    if options.daemon:
        return start_in_background("connect-standalone", arguments, "connectStandalone")
    return run_worker(options.file, options.connectors, {})
