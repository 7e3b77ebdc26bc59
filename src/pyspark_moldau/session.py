"""● One process's connections, kept between micro-batches: Spark's worker processes live on and are used again."""

import os
from typing import Any

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.connection import Wire
from moldau.clients.cluster import parse_bootstrap
from pyspark_moldau.options import OptionError, Options
from pyspark_moldau.security import authentication_of, tls_of

_clusters: dict[Any, BlockingCluster] = {}
_MOST_CLUSTERS = 8


def cluster_of(options: Options, purpose: str) -> BlockingCluster:
    """The same object for the same options in this process.  Errors: OptionError."""
    bootstrap = options.get("kafka.bootstrap.servers")
    key = (os.getpid(), purpose, tuple(sorted((name, str(value)) for name, value in options.values.items() if name.startswith("kafka."))))
    if key not in _clusters:
        while len(_clusters) >= _MOST_CLUSTERS:
            _clusters.pop(next(iter(_clusters))).close()
        try:
            addresses = parse_bootstrap(bootstrap)
        except ValueError as error:
            raise OptionError("kafka.bootstrap.servers", str(error)) from None
        wire = Wire(
            client_id=options.get("kafka.client.id", "spark"),
            connect_within_s=options.get("kafka.socket.connection.setup.timeout.ms", 10_000) / 1000,
            answer_within_s=options.get("kafka.request.timeout.ms", 30_000) / 1000,
            tls=tls_of(options),
            authenticate=authentication_of(options),
        )
        give_up_ms = (
            options.get("kafka.delivery.timeout.ms", 120_000) if purpose == "sink" else options.get("kafka.default.api.timeout.ms", 60_000)
        )
        _clusters[key] = BlockingCluster(addresses, wire, give_up_after_s=give_up_ms / 1000)
    return _clusters[key]
