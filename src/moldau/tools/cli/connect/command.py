"""● `moldau connect`: a worker of Kafka Connect, in the foreground."""

from pathlib import Path

from moldau.tools.cli.connect.running import run_worker
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser, key_value


def main(arguments: list[str]) -> int:
    parser = Parser(
        "moldau connect",
        "Run a Kafka Connect worker: connectors over Kafka Connect's REST API, with its properties, topics and configurations.  "
        "Workers with the same group.id share connectors.  With --standalone, the worker is alone: its offsets are in a file, and it "
        "begins with the connectors in the files that follow.  Log lines go to stderr; SIGTERM or Ctrl-C stops it cleanly.",
        examples=[
            "moldau connect connect-distributed.properties",
            "moldau connect worker.properties --override listeners=http://127.0.0.1:8084",
            "moldau connect --standalone connect-standalone.properties connect-file-source.properties",
            "curl localhost:8083/connector-plugins",
        ],
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the worker's properties file, such as connect-distributed.properties")
    parser.add_argument("connectors", nargs="*", metavar="CONNECTOR", help="with --standalone: a connector's file, properties or JSON")
    parser.add_argument("--standalone", action="store_true", help="one worker without a group")
    parser.add_argument(
        "--override", action="append", default=[], type=key_value, metavar="K=V", help="a property that overrides the file; repeatable"
    )
    parser.add_argument("--check", action="store_true", help="only read the files and say what is wrong with them")
    options = parser.parse_args(arguments)
    if options.connectors and not options.standalone:
        raise Failure("a worker in a group reads no connectors from files", "Create them over REST, or give --standalone")
    connectors = options.connectors if options.standalone else None
    return run_worker(options.file, connectors, dict(options.override), only_checks=options.check)
