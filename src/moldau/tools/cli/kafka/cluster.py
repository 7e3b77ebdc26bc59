"""● `moldau kafka-cluster`: the cluster's id and endpoints, and unregistering brokers, as kafka-cluster.sh does."""

import argparse
from collections.abc import Sequence

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import EndpointType
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.java_errors import java_error
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.parser import Parser


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    by_controller = options.bootstrap_controller is not None
    if by_controller == (options.bootstrap_server is not None):
        raise Failure("one of --bootstrap-server and --bootstrap-controller is required", "`moldau kafka-cluster --help` says more")
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller
    options.command_config = options.command_config or options.config

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        kind = EndpointType.CONTROLLER if by_controller else EndpointType.BROKER
        if options.action == "cluster-id":
            print(f"Cluster ID: {(await admin.describe_cluster()).cluster_id}")
        elif options.action == "unregister":
            await _unregister(admin, options.id)
        else:
            await _endpoints(admin, kind, options)
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-cluster",
        "Show the cluster's id and endpoints, or unregister a broker, as kafka-cluster.sh does.",
        examples=["cluster-id --bootstrap-server localhost:9092", "list-endpoints --bootstrap-server localhost:9092"],
    )
    parser.add_version()
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    for name, about in (
        ("cluster-id", "print the cluster's id"),
        ("unregister", "forget a broker that will not come back"),
        ("list-endpoints", "print brokers or controllers with their addresses"),
    ):
        action = actions.add_parser(name, help=about, description=about)
        action.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT", help="one or more brokers")
        action.add_argument("-C", "--bootstrap-controller", metavar="HOST:PORT", help="one or more controllers, instead of brokers")
        action.add_argument("-c", "--command-config", metavar="FILE", help="a properties file with client settings")
        action.add_argument("--config", metavar="FILE", help="(deprecated) --command-config")
        if name == "unregister":
            action.add_argument("-i", "--id", type=int, required=True, help="the broker's number")
        if name == "list-endpoints":
            action.add_argument("--include-fenced-brokers", action="store_true", help="list fenced brokers too")
    return parser


async def _unregister(admin: Admin, broker_id: int) -> None:
    try:
        await admin.unregister_broker(broker_id)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            print("The target cluster does not support the broker unregistration API.")
            return
        raise Failure(java_error(error)) from error
    print(f"Broker {broker_id} is no longer registered.")


async def _endpoints(admin: Admin, kind: EndpointType, options: argparse.Namespace) -> None:
    include_fenced = options.include_fenced_brokers
    if include_fenced and kind is EndpointType.CONTROLLER:
        raise Failure("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    response = await admin.describe_cluster(include_fenced=include_fenced)
    controllers = kind is EndpointType.CONTROLLER
    rows = [
        (str(one.broker_id), one.host, str(one.port), one.rack, "fenced" if one.is_fenced else "unfenced")
        for one in sorted(response.brokers, key=lambda one: one.broker_id)
    ]
    for line in endpoint_lines(rows, "controller" if controllers else "broker", with_state=not controllers):
        print(line)


def endpoint_lines(rows: Sequence[tuple[str, str, str, str | None, str]], kind: str, *, with_state: bool) -> list[str]:
    """`rows`: id, host, port, rack, state.  The columns of hosts and racks are as wide as the longest."""
    host_width = max((len(row[1]) for row in rows), default=10)
    rack_width = max((len(row[3]) for row in rows if row[3]), default=10)
    state = " {4:<10}" if with_state else ""
    layout = f"{{0:<10}} {{1:<{host_width}}} {{2:<10}} {{3:<{rack_width}}}{state} {{5:<15}}"
    title = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
    return [layout.format(*(cell or "null" for cell in row)) for row in (title, *((*row, kind) for row in rows))]
