"""● `moldau kafka-broker-api-versions`: which APIs each broker serves, as kafka-broker-api-versions.sh prints them."""

from collections.abc import Iterator
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.cluster import Cluster
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.api_versions import ApiVersionsResponse
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.kafka.options import KafkaParser

NAMES: Final = {key: request.__name__.removesuffix("Request") for key, request in REQUESTS.items()}


def main(arguments: list[str]) -> int:
    parser = KafkaParser(
        "kafka-broker-api-versions",
        "Print which APIs in which versions each broker serves, as kafka-broker-api-versions.sh does.",
        examples=["--bootstrap-server localhost:9092"],
    )
    parser.add_common()
    options = parser.parse_args(arguments)
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        for broker in (await admin.describe_cluster()).brokers:
            print(f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {broker.rack or 'null'} isFenced: false) -> (")
            print(",\n".join(api_lines(await admin.api_versions(broker.broker_id))))
            print(")")
        return 0

    return on_cluster(options, work)


def api_lines(response: ApiVersionsResponse) -> Iterator[str]:
    """The lines of all APIs that brokers have, by number, and then of APIs that only this broker knows."""
    served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    for key, request in sorted(REQUESTS.items()):
        if "broker" not in request.LISTENERS:
            continue
        name = f"\t{NAMES[key]}({key}): "
        if key not in served:
            yield name + "UNSUPPORTED"
            continue
        low, high = served[key]
        newest = request.VERSIONS[-1] - request.LATEST_IS_UNSTABLE
        usable = min(high, newest)
        shown = "unusable" if usable < max(low, request.VERSIONS[0]) else f"usable: {usable}"
        yield f"{name}{_range(low, high)} [{shown}]"
    for key in sorted(served.keys() - REQUESTS.keys()):
        yield f"\tUNKNOWN({key}): {_range(*served[key])}"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
