"""● Offsets of a connector, read and changed over REST.  A source's offsets are in the offset topic, a sink's are in its group.

Source: Worker.alterConnectorOffsets, SinkUtils (KIP-875).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from moldau.clients.admin import Admin
from moldau.clients.cluster import Unreachable
from moldau.connect.declare.definition import Config
from moldau.connect.errors import BadRequest, ConnectError, shown
from moldau.connect.store.offsets import canonical, offset_record
from moldau.connect.worker.requests import Requests
from moldau.errors import KafkaError
from moldau.types import TopicPartition

ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"

Change = tuple[Mapping[str, Any], Mapping[str, Any] | None]


def group_of(name: str, config: Config) -> str:
    return config.get("consumer.override.group.id") or f"connect-{name}"


class OffsetRequests:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._herder = requests.herder

    async def read(self, name: str) -> dict[str, Any]:
        config = self._herder.options.providers.resolved(self._requests.config(name))
        if self._requests.kind(config) == "sink":
            found: list[Change] = [
                ({PARTITION: one.partition, TOPIC: one.topic}, {OFFSET: offset})
                for one, offset in sorted((await self._of_group(group_of(name, config))).items())
            ]
        else:
            await self._herder.offset_log.read_to_end()
            found = list(self._herder.offsets.offsets(name))
        return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]}

    async def _of_group(self, group: str) -> dict[TopicPartition, int]:
        async with Admin(self._herder.cluster) as admin:
            return {one: found.offset for one, found in (await admin.groups.offsets(group)).items()}

    async def alter(self, name: str, changes: list[Change]) -> str:
        connector, config = self._requests.stopped_connector(name)
        if connector.kind == "sink":
            await self._alter_sink(name, config, changes)
            return ALTERED
        for partition, _ in changes:
            if partition is None:
                raise ConnectError("Partition objects cannot be null")
        connector.check_offsets(config, changes)
        merged = {canonical(partition): (partition, offset) for partition, offset in changes}
        await self._herder.offset_log.write([offset_record(name, partition, offset) for partition, offset in merged.values()])
        await self._herder.offset_log.read_to_end()
        return ALTERED

    async def reset(self, name: str) -> str:
        connector, config = self._requests.stopped_connector(name)
        if connector.kind == "sink":
            known = await self._of_group(group_of(name, config))
            async with Admin(self._herder.cluster) as admin:
                if known:
                    await _settled(name, admin.groups.delete(group_of(name, config)))
            return RESET
        await self._herder.offset_log.read_to_end()
        known_partitions = [partition for partition, _ in self._herder.offsets.offsets(name)]
        await self._herder.offset_log.write([offset_record(name, partition, None) for partition in known_partitions])
        await self._herder.offset_log.read_to_end()
        return RESET

    async def _alter_sink(self, name: str, config: Config, changes: list[Change]) -> None:
        parsed = [sink_offset(partition, offset) for partition, offset in changes]
        group = group_of(name, config)
        wanted = {one: offset for one, offset in parsed if offset is not None}
        forgotten = [one for one, offset in parsed if offset is None]
        if any(offset < 0 for offset in wanted.values()):
            raise ConnectError(f"Failed to modify offsets for sink connector {name}")
        async with Admin(self._herder.cluster) as admin:
            failures: list[KafkaError | None] = []
            if wanted:
                failures += (await _settled(name, admin.groups.alter_offsets(group, wanted))).values()
            if forgotten:
                failures += (await _settled(name, admin.groups.delete_offsets(group, forgotten))).values()
        for failure in failures:
            if failure is not None:
                raise ConnectError(f"Failed to alter consumer group offsets for connector {name}") from failure


async def _settled(name: str, asked: Any) -> Any:
    """Errors: ConnectError."""
    try:
        async with asyncio.timeout(20):
            return await asked
    except (KafkaError, OSError, Unreachable, TimeoutError) as error:
        raise ConnectError(f"Failed to alter consumer group offsets for connector {name}") from error


def sink_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> tuple[TopicPartition, int | None]:
    """Errors: BadRequest."""
    if partition is None:
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    if partition.get(TOPIC) is None or partition.get(PARTITION) is None:
        raise BadRequest("The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'")
    one = TopicPartition(shown(partition[TOPIC]), _integer(partition[PARTITION], "partition", "Partition"))
    if offset is None:
        return one, None
    if offset.get(OFFSET) is None:
        raise BadRequest("The offset for a sink connector should either be null or contain the key 'kafka_offset'")
    return one, _integer(offset[OFFSET], "offset", "Offset")


def _integer(value: Any, what: str, title: str) -> int:
    try:
        return int(shown(value))
    except ValueError:
        raise BadRequest(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{shown(value)}'. "
            f"{title} values for sink connectors need to be integers."
        ) from None
