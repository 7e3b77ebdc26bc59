"""● Records of topics of another cluster to topics of this one: keys, values, headers, times and partitions stay.

The offset of each partition is kept as a source's offset.  Promise: at least once; with exactly.once.source.support=enabled in the worker,
once.  Offsets in the copy differ from those of the original; groups, access rules and settings of topics are not copied.
The connector's configuration should name ByteArrayConverter for keys and values: with it, bytes stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.clients.cluster import Unreachable
from moldau.clients.consumer import Consumer
from moldau.clients.options import OptionError
from moldau.connect.connectors.connector import Connector, Offset, OffsetReader, OffsetsRefused, Partition, SourceTask
from moldau.connect.data import BYTES, Header, Record, Schema, Type
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, RetriableError
from moldau.errors import KafkaError
from moldau.types import TopicPartition

OPTIONS: Final = Definition(
    Key("source.cluster.bootstrap.servers", Kind.STRING, REQUIRED, "HIGH", "Brokers of the other cluster.", check.non_empty),
    Key("topics", Kind.LIST, REQUIRED, "HIGH", "The topics to copy.", check.valid_list),
    Key("replication.policy.separator", Kind.STRING, ".", "LOW", "What stands between the prefix and the topic's name."),
    Key("source.cluster.alias", Kind.STRING, "", "MEDIUM", "The prefix of the copies; without it, they have the same names."),
    Key("task.share", Kind.STRING, "0/1", "LOW", "Set by the connector: the number of the task, of how many."),
)
PREFIX: Final = "source.consumer."
POLL_S: Final = 0.5
EARLIEST: Final = -2
_OPTIONAL_BYTES: Final = Schema(Type.BYTES, optional=True)


class TopicMirrorTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        self._options = OPTIONS.parse(config)
        number, _, count = self._options["task.share"].partition("/")
        own = {key.removeprefix(PREFIX): value for key, value in config.items() if key.startswith(PREFIX) and value is not None}
        try:
            self._consumer = Consumer(
                self._options["source.cluster.bootstrap.servers"], {"auto.offset.reset": "earliest", **own, "enable.auto.commit": "false"}
            )
            begin: dict[TopicPartition, int] = {}
            for topic in self._options["topics"]:
                for index in await self._consumer.partitions_for(topic):
                    if index % int(count) == int(number):
                        found = offsets.offset(_partition(topic, index))
                        begin[TopicPartition(topic, index)] = EARLIEST if found is None else int(found["offset"])
            await self._consumer.assign(begin)
        except OptionError as error:
            raise ConfigError(str(error)) from error
        except (KafkaError, OSError, Unreachable) as error:
            raise ConnectError(f"the other cluster cannot be read: {error}") from error

    async def poll(self) -> Sequence[Record]:
        try:
            batches = await self._consumer.poll(POLL_S, max_records=1000)
        except (KafkaError, OSError, Unreachable) as error:
            raise RetriableError(f"the other cluster cannot be read: {error}") from error
        return [self._record(record) for batch in batches for record in batch]

    def _record(self, record: Any) -> Record:
        alias, separator = self._options["source.cluster.alias"], self._options["replication.policy.separator"]
        return Record(
            f"{alias}{separator}{record.topic}" if alias else record.topic,
            record.partition,
            _OPTIONAL_BYTES,
            record.key,
            _OPTIONAL_BYTES,
            record.value,
            record.timestamp,
            tuple(Header(name, BYTES if value is not None else None, value) for name, value in record.headers),
            _partition(record.topic, record.partition),
            {"offset": record.offset + 1},
        )

    async def stop(self) -> None:
        if hasattr(self, "_consumer"):
            await self._consumer.close()


def _partition(topic: str, index: int) -> dict[str, Any]:
    return {"topic": topic, "partition": index}


class TopicMirror(Connector):
    names = ("moldau.connect.TopicMirrorConnector",)
    kind = "source"
    definition = OPTIONS
    prefixes = (PREFIX,)
    task = TopicMirrorTask
    task_class = "moldau.connect.connectors.mirror.TopicMirrorTask"

    def task_configs(self, config: Config, max_tasks: int) -> list[dict[str, str | None]]:
        """Partitions are dealt out to tasks by their number."""
        return [{**config, "task.share": f"{number}/{max_tasks}"} for number in range(max_tasks)]

    def check_offsets(self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        for partition, offset in offsets:
            if set(partition) != {"topic", "partition"} or not _is_number(partition["partition"]):
                raise OffsetsRefused('Partition objects should be as {"topic": "name", "partition": 0}')
            if offset is not None and not _is_number(offset.get("offset")):
                raise OffsetsRefused('Offset objects should be as {"offset": 17}')


def _is_number(value: Mapping[str, Any] | Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
