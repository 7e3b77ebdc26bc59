"""● The calls that brokers and clusters have for tests: `create_topic`, `produce`, `consume`, `expect`.

Embedded brokers, processes and clusters all have these calls.  They block: in a test that awaits, run them by `asyncio.to_thread`, or use
the clients themselves.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded with the first call: many tests start brokers and never use the clients behind these calls
    from moldau.clients.records import ConsumerRecord

LOOKS_EVERY_S = 0.5


class Calls(ABC):
    """See the module."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """`host:port`, or several with commas in between, for any Kafka client."""

    def create_topic(
        self, name: str, partition_count: int = 1, configs: Mapping[str, str] | None = None, *, replication_factor: int = -1
    ) -> None:
        """Create a topic.  `replication_factor` -1: that of the broker or cluster.  Errors: KafkaError."""
        from moldau.clients.admin import NewTopic
        from moldau.errors import KafkaError
        from moldau.sync import Admin

        with Admin(self.bootstrap_servers) as admin:
            (answer,) = admin.topics.create([NewTopic(name, partition_count, replication_factor, configs or {})]).values()
        if isinstance(answer, KafkaError):
            raise answer

    def produce(self, topic: str, values: Sequence[bytes | str], *, keys: Sequence[bytes | str] | None = None) -> None:
        """Write all values, and wait until they are acknowledged.  Errors: ClientError."""
        from moldau.sync import Producer

        with Producer(self.bootstrap_servers) as producer:
            producer.send_many(topic, values, keys=keys)

    def consume(self, topic: str, count: int, *, within_s: float = 30.0, read_committed: bool = False) -> "list[ConsumerRecord]":
        """The first `count` records of all partitions; fewer if no more come within `within_s` seconds."""
        return self._read(topic, count, within_s, 0.0, read_committed)[:count]

    def expect(
        self,
        topic: str,
        values: Sequence[bytes | str],
        *,
        within_s: float = 30.0,
        quiet_s: float = 0.2,
        read_committed: bool = False,
    ) -> None:
        """Expect these values in order, and no others.

        After the last one it waits `quiet_s` seconds for one more.  Errors: AssertionError that shows the records.
        """
        wanted = [value.encode() if isinstance(value, str) else value for value in values]
        found = [record.value for record in self._read(topic, len(wanted), within_s, quiet_s, read_committed)]
        assert found == wanted, f"{topic} holds {found}, not {wanted}"

    def _read(self, topic: str, count: int, within_s: float, quiet_s: float, read_committed: bool) -> "list[ConsumerRecord]":
        """Read until there are `count` records or the time is over, and then `quiet_s` seconds longer unless there are more already."""
        from moldau.sync import Consumer
        from moldau.types import TopicPartition

        level = "read_committed" if read_committed else "read_uncommitted"
        found: list[ConsumerRecord] = []
        with Consumer(self.bootstrap_servers, isolation_level=level) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in consumer.partitions_for(topic)])
            consumer.seek_to_beginning()
            for wanted, wait_s in ((count, within_s), (count + 1, quiet_s)):
                until = time.monotonic() + wait_s
                while len(found) < wanted and (left_s := until - time.monotonic()) > 0:
                    for records in consumer.poll(min(LOOKS_EVERY_S, left_s)):
                        found += records
        return found
