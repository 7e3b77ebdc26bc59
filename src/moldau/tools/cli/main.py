"""● `moldau`: finds the command, runs it, and turns whatever goes wrong into one line and an exit code.

A command is a module with `main(arguments) -> exit code`, imported only when it is called: `moldau up` must not pay for the others.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

from moldau.tools.cli.failure import Failure


class Command(NamedTuple):
    module: str
    about: str


_OURS: Final = "moldau.tools.cli"
_KAFKAS: Final = "moldau.tools.cli.kafka"

COMMANDS: Final = {
    "up": Command(f"{_OURS}.up.command", "start a broker right here; its folder is formatted on first use"),
    "serve": Command(f"{_OURS}.serve", "run a node from a server.properties file"),
    "storage": Command(f"{_OURS}.storage", "format and inspect a node's folders"),
    "topics": Command(f"{_OURS}.topics", "list, create, describe, extend and delete topics"),
    "partitions": Command(f"{_OURS}.partitions", "show where replicas are, move them to other folders, elect leaders"),
    "configs": Command(f"{_OURS}.configs", "read and change the settings of topics and brokers"),
    "produce": Command(f"{_OURS}.produce", "write records from the command line or from lines of input"),
    "consume": Command(f"{_OURS}.consume", "read records"),
    "offsets": Command(f"{_OURS}.offsets", "show first and last offsets, and offsets by time"),
    "groups": Command(f"{_OURS}.groups", "show members, offsets and lag of consumer and streams groups; reset and delete them"),
    "share-groups": Command(f"{_OURS}.share_groups", "show members and lag of share groups (queues); reset and delete them"),
    "transactions": Command(f"{_OURS}.transactions", "list open transactions and producers; find and end transactions that hang"),
    "connect": Command(f"{_OURS}.connect.command", "run a Kafka Connect worker with its connectors and its REST API"),
    "pipelines": Command("moldau.pipelines.running.command", "run pipelines on Spark, pack what its workers need"),
    "shop": Command("moldau.shop.command", "run the services around the pipelines: orders and burgers over HTTP, mails, a live page"),
    "demo": Command("moldau.pipelines.demo.command", "send real orders through a broker and Spark, and check every verdict"),
    "perf": Command(f"{_OURS}.perf.command", "measure how fast records go in and come out, and how long one is on its way"),
    "profile": Command(f"{_OURS}.shell.profile", "name clusters, and choose the one that commands speak to"),
    "completion": Command(f"{_OURS}.shell.completion", "complete commands and options in bash, zsh and fish"),
    "dump-log": Command(f"{_OURS}.dump_log", "look into segment, index, snapshot and checkpoint files"),
}
TWINS: Final = {
    "kafka-server-start": Command(f"{_KAFKAS}.server_start", "kafka-server-start.sh"),
    "kafka-server-stop": Command(f"{_KAFKAS}.server_stop", "kafka-server-stop.sh"),
    "kafka-topics": Command(f"{_KAFKAS}.topics", "kafka-topics.sh"),
    "kafka-configs": Command(f"{_KAFKAS}.configs", "kafka-configs.sh"),
    "kafka-client-metrics": Command(f"{_KAFKAS}.client_metrics", "kafka-client-metrics.sh"),
    "kafka-storage": Command(f"{_OURS}.storage", "kafka-storage.sh"),
    "kafka-console-producer": Command(f"{_KAFKAS}.console_producer", "kafka-console-producer.sh"),
    "kafka-console-consumer": Command(f"{_KAFKAS}.console_consumer", "kafka-console-consumer.sh"),
    "kafka-console-share-consumer": Command(f"{_KAFKAS}.console_share_consumer", "kafka-console-share-consumer.sh"),
    "kafka-consumer-groups": Command(f"{_KAFKAS}.consumer_groups", "kafka-consumer-groups.sh"),
    "kafka-share-groups": Command(f"{_KAFKAS}.share_groups", "kafka-share-groups.sh"),
    "kafka-streams-groups": Command(f"{_KAFKAS}.streams_groups", "kafka-streams-groups.sh"),
    "kafka-groups": Command(f"{_KAFKAS}.groups", "kafka-groups.sh"),
    "kafka-transactions": Command(f"{_KAFKAS}.transactions", "kafka-transactions.sh"),
    "kafka-get-offsets": Command(f"{_KAFKAS}.get_offsets", "kafka-get-offsets.sh"),
    "kafka-dump-log": Command(f"{_KAFKAS}.dump_log", "kafka-dump-log.sh"),
    "kafka-delete-records": Command(f"{_KAFKAS}.delete_records", "kafka-delete-records.sh"),
    "kafka-log-dirs": Command(f"{_KAFKAS}.log_dirs", "kafka-log-dirs.sh"),
    "kafka-leader-election": Command(f"{_KAFKAS}.leader_election", "kafka-leader-election.sh"),
    "kafka-reassign-partitions": Command(f"{_KAFKAS}.reassign_partitions", "kafka-reassign-partitions.sh"),
    "kafka-metadata-quorum": Command(f"{_KAFKAS}.metadata_quorum", "kafka-metadata-quorum.sh"),
    "kafka-features": Command(f"{_KAFKAS}.features", "kafka-features.sh"),
    "kafka-cluster": Command(f"{_KAFKAS}.cluster", "kafka-cluster.sh"),
    "kafka-producer-perf-test": Command(f"{_OURS}.perf.kafka_producer", "kafka-producer-perf-test.sh"),
    "kafka-consumer-perf-test": Command(f"{_OURS}.perf.kafka_consumer", "kafka-consumer-perf-test.sh"),
    "kafka-share-consumer-perf-test": Command(f"{_OURS}.perf.kafka_share_consumer", "kafka-share-consumer-perf-test.sh"),
    "kafka-verifiable-producer": Command(f"{_OURS}.verifiable.producer", "kafka-verifiable-producer.sh"),
    "kafka-verifiable-consumer": Command(f"{_OURS}.verifiable.consumer", "kafka-verifiable-consumer.sh"),
    "kafka-broker-api-versions": Command(f"{_KAFKAS}.broker_api_versions", "kafka-broker-api-versions.sh"),
    "connect-standalone": Command(f"{_OURS}.connect.kafka_standalone", "connect-standalone.sh"),
    "connect-distributed": Command(f"{_OURS}.connect.kafka_distributed", "connect-distributed.sh"),
}
ALL: Final = {**COMMANDS, **TWINS}

_INTERRUPTED: Final = 130
_WIDTH: Final = max(map(len, COMMANDS)) + 1


def usage() -> str:
    from textwrap import fill

    ours = "".join(f"  {name:<{_WIDTH}} {command.about}\n" for name, command in COMMANDS.items())
    return f"""\
usage: moldau COMMAND [OPTIONS]

Apache Kafka in Python.

commands:
{ours}
Kafka's own tools, with its options and its output:
{fill(" ".join(TWINS), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)}

`moldau COMMAND --help` says more.  To begin:

  moldau up
  moldau topics create hello
  moldau produce hello "Hello, world"
  moldau consume hello --from-beginning
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script.  Returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return run(arguments)
    except Failure as failure:
        print(f"moldau: {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, such as `head`.  Nothing is wrong, and the interpreter must not complain while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(arguments: list[str]) -> int:
    if not arguments:
        print(usage(), end="", file=sys.stderr)
        return 1
    name, *rest = arguments
    if name in ("-h", "--help", "help"):
        return _help(rest)
    if name in ("-V", "--version", "version"):
        from importlib.metadata import version

        print(f"moldau {version('moldau')}")
        return 0
    command = ALL.get(name.removesuffix(".sh"))
    if command is None:
        raise Failure(f"there is no command {name!r}" + _nearest(name), "`moldau --help` lists them")
    return int(import_module(command.module).main(rest))


def _help(topics: list[str]) -> int:
    if topics and topics[0] in ALL:
        return run([topics[0], "--help"])
    print(usage(), end="")
    return 0


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, ALL, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


if __name__ == "__main__":
    sys.exit(main())
