"""● `moldau kafka-metadata-quorum`: the KRaft quorum's state, as kafka-metadata-quorum.sh prints it."""

import argparse
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.quorum import QuorumDescription
from moldau.clients.cluster import Cluster
from moldau.protocol.messages.describe_quorum import Node, ReplicaState
from moldau.tools.cli.connecting import Work, on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.kafka.quorum_voters import add_controller, remove_controller
from moldau.tools.cli.parser import Parser
from moldau.types import ZERO_UUID, uuid_to_text

REPLICATION_COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
LABEL_WIDTH = 24


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if (options.bootstrap_server is None) == (options.bootstrap_controller is None):
        raise Failure("one of --bootstrap-server and --bootstrap-controller is required", "`moldau kafka-metadata-quorum --help` says more")
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller
    works: dict[str, Callable[[argparse.Namespace], Work]] = {"describe": _describe, "add-controller": _add, "remove-controller": _remove}
    return on_cluster(options, works[options.action](options))


def _add(options: argparse.Namespace) -> Work:
    if options.command_config is None:
        raise Failure("You must supply the configuration file of the controller you are adding when using add-controller.")
    return partial(_change, options, partial(add_controller, path=Path(options.command_config)))


def _remove(options: argparse.Namespace) -> Work:
    return partial(_change, options, partial(remove_controller, voter_id=options.controller_id, directory=options.controller_directory_id))


async def _change(options: argparse.Namespace, change: Callable[..., Awaitable[str]], cluster: Cluster) -> int:
    print(await change(cluster, dry_run=options.dry_run))
    return 0


def _describe(options: argparse.Namespace) -> Work:
    if options.status and options.replication:
        raise Failure("Only one of --status or --replication should be specified with describe sub-command")
    if not options.status and not options.replication:
        raise Failure("One of --status or --replication must be specified with describe sub-command")
    if options.human_readable and options.status:
        raise Failure("The option --human-readable is only supported along with --replication")

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        quorum = await admin.quorum.describe()
        if options.status:
            cluster_id = (await admin.describe_cluster()).cluster_id
            for label, value in status_lines(cluster_id, quorum):
                print(f"{label + ':':<{LABEL_WIDTH}}{value}")
        else:
            now_ms = time.time_ns() // 1_000_000
            for line in replication_lines(quorum, now_ms if options.human_readable else None):
                print(line)
        return 0

    return work


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-metadata-quorum",
        "Describe the quorum of controllers and change its voters, as kafka-metadata-quorum.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 describe --status",
            "--bootstrap-server localhost:9092 describe --replication",
            "--bootstrap-server localhost:9092 --command-config controller4.properties add-controller",
            "--bootstrap-server localhost:9092 remove-controller --controller-id 1 --controller-directory-id wFPuxv0rQHaVgUIWpJXDJg",
        ],
    )
    parser.add_common()
    parser.add_argument("--bootstrap-controller", metavar="HOST:PORT", help="one or more controllers, instead of brokers")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    describe = actions.add_parser("describe", help="show the quorum's status, or how far each node is")
    describe.add_argument("--status", action="store_true", help="a summary")
    describe.add_argument("--replication", action="store_true", help="each node's offset and lag")
    describe.add_argument("--human-readable", action="store_true", help="times as `5 ms ago`")
    add = actions.add_parser("add-controller", help="make a running controller a voter; --command-config is its properties file")
    remove = actions.add_parser("remove-controller", help="remove a controller from the voters")
    remove.add_argument("--controller-id", "-i", type=int, required=True, metavar="ID", help="the id of the controller to remove")
    remove.add_argument(
        "--controller-directory-id", "-d", required=True, metavar="DIRECTORY", help="the directory id of the controller to remove"
    )
    for action in (add, remove):
        action.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    return parser


def status_lines(cluster_id: str, quorum: QuorumDescription) -> list[tuple[str, object]]:
    state = quorum.state
    leader = next((one for one in state.current_voters if one.replica_id == state.leader_id), None)
    last = min(state.current_voters, key=lambda one: one.log_end_offset, default=None)
    leader_end = leader.log_end_offset if leader else state.high_watermark
    return [
        ("ClusterId", cluster_id),
        ("LeaderId", state.leader_id),
        ("LeaderEpoch", state.leader_epoch),
        ("HighWatermark", state.high_watermark),
        ("MaxFollowerLag", leader_end - last.log_end_offset if last else 0),
        ("MaxFollowerLagTimeMs", _lag_ms(leader, last)),
        ("CurrentVoters", _members(state.current_voters, quorum.nodes)),
        ("CurrentObservers", _members(state.observers, ())),
    ]


def _lag_ms(leader: ReplicaState | None, last: ReplicaState | None) -> int:
    """The time by which the last voter lags behind the leader, in milliseconds; -1 if it never caught up."""
    if leader is None or last is None or last is leader:
        return 0
    caught_up = last.last_caught_up_timestamp
    return leader.last_caught_up_timestamp - caught_up if caught_up >= 0 else -1


def _members(replicas: Iterable[ReplicaState], nodes: Iterable[Node]) -> str:
    listeners = {node.node_id: node.listeners for node in nodes}
    shown = []
    for one in replicas:
        member: dict[str, object] = {"id": one.replica_id}
        if one.replica_directory_id != ZERO_UUID:
            member["directoryId"] = uuid_to_text(one.replica_directory_id)
        if listeners.get(one.replica_id):
            member["endpoints"] = [f"{at.name}://{_host(at.host)}:{at.port}" for at in listeners[one.replica_id]]
        shown.append(json.dumps(member))
    return f"[{', '.join(shown)}]"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def replication_lines(quorum: QuorumDescription, now_ms: int | None) -> list[str]:
    """The rows of a table.  With `now_ms`, each time is shown as its age."""
    state = quorum.state
    leader = next((one for one in state.current_voters if one.replica_id == state.leader_id), None)
    if leader is None:
        raise Failure("the quorum has no leader now", "Try again in a moment")
    others = [(one, "Follower") for one in state.current_voters if one is not leader]
    rows = [list(REPLICATION_COLUMNS)]
    for one, status in [(leader, "Leader"), *others, *((one, "Observer") for one in state.observers)]:
        rows.append(
            [
                str(one.replica_id),
                uuid_to_text(one.replica_directory_id),
                str(one.log_end_offset),
                str(leader.log_end_offset - one.log_end_offset),
                _moment(one.last_fetch_timestamp, now_ms),
                _moment(one.last_caught_up_timestamp, now_ms),
                status,
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(REPLICATION_COLUMNS))]
    return ["\t".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + "\t" for row in rows]


def _moment(timestamp_ms: int, now_ms: int | None) -> str:
    if now_ms is None or timestamp_ms < 0:
        return str(timestamp_ms)
    return f"{now_ms - timestamp_ms} ms ago"
