"""● Topics of the pipelines: made when missing, with the configs that a replay of old orders needs."""

from collections.abc import Mapping
from typing import Final

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pyspark_moldau.options import read_options
from pyspark_moldau.session import cluster_of

TIMEOUT_MS: Final = 30_000
BROKER_DECIDES: Final = -1


def create_topics(
    bootstrap_servers: str,
    topics: Mapping[str, Mapping[str, str]],
    *,
    partitions: int,
    security: Mapping[str, str] | None = None,
    within_s: float = TIMEOUT_MS / 1000,
) -> None:
    """`topics` is name → configs.  A topic that exists already stays as it is.  The broker decides how many replicas a topic has.

    Returns when all topics can be written to.  Errors: KafkaError, OSError, OptionError.
    """
    cluster = cluster_of(read_options({"kafka.bootstrap.servers": bootstrap_servers, **(security or {})}), "topics")
    missing = cluster.retrying(lambda: _missing(cluster, topics), within_s=within_s)
    if missing:
        cluster.retrying(lambda: _create(cluster, {name: topics[name] for name in missing}, partitions), within_s=within_s)
        cluster.retrying(lambda: _see_leaders(cluster, missing), within_s=within_s)
    cluster.close()


def _missing(cluster: BlockingCluster, topics: Mapping[str, object]) -> list[str]:
    view = cluster.refresh(list(topics))
    for name in topics:
        code = view.error_of(name)
        if code and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(code, f"topic {name}: {code.text}")
    return [name for name in topics if view.error_of(name)]


def _create(cluster: BlockingCluster, topics: Mapping[str, Mapping[str, str]], partitions: int) -> None:
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=BROKER_DECIDES,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in topics.items()
    ]
    response = cluster.any().send(CreateTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS))
    for one in response.topics:
        code = ErrorCode.of(one.error_code)
        if code and code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(code, f"topic {one.name}: {one.error_message or code.text}")


def _see_leaders(cluster: BlockingCluster, names: list[str]) -> None:
    view = cluster.refresh(names)
    for name in names:
        if view.error_of(name) or not view.partitions_of(name):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} was made and is not there yet")
