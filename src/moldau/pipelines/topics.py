"""● Topics through a stock client's admin: made when missing, with what a replay of old orders needs."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TIMEOUT_S = 30.0


def create_topics(bootstrap_servers: str, topics: Mapping[str, Mapping[str, str]], *, partitions: int) -> None:
    """`topics` is name → configs.  A topic that exists already stays as it is."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 4})
    wanted = [NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(configs)) for name, configs in topics.items()]
    for future in admin.create_topics(wanted, operation_timeout=TIMEOUT_S).values():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
