"""● Finds where partitions begin and end, and the offset of a time.  It asks the leaders, again while they move."""

import asyncio
from collections.abc import Mapping

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.consumer.fetcher import Fetcher
from moldau.clients.consumer.options import ConsumerOptions
from moldau.clients.errors import ClusterUnreachable
from moldau.errors import KafkaError
from moldau.types import TopicPartition


class OffsetListing:
    """Lists offsets within default_api_timeout_ms."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, fetcher: Fetcher) -> None:
        self._cluster = cluster
        self._options = options
        self._fetcher = fetcher

    async def find(self, targets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of each target.  Errors: ClientError."""
        found: dict[TopicPartition, int] = {}
        last: Exception | None = None
        try:
            async with asyncio.timeout(self._options.default_api_timeout_ms / 1000):
                while len(found) < len(targets):
                    try:
                        last = await self._find_some(targets, found) or last
                    except (OSError, Unreachable) as error:
                        last = error
                    if len(found) < len(targets):
                        await asyncio.sleep(self._options.retry_backoff_ms / 1000)
                        try:
                            await self._cluster.refresh(sorted({one.topic for one in targets}))
                        except (OSError, Unreachable) as error:
                            last = error
        except TimeoutError:
            within = f"within default.api.timeout.ms={self._options.default_api_timeout_ms}"
            raise ClusterUnreachable(f"the offsets could not be found out {within}: {last or 'no answer'}") from None
        return found

    async def _find_some(self, targets: Mapping[TopicPartition, int], found: dict[TopicPartition, int]) -> Exception | None:
        """Ask for the targets whose leaders are known.  Errors: ClientError."""
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for one, target in targets.items():
            leader = self._cluster.view.leader_of(one)
            if leader is not None and one not in found:
                by_node.setdefault(leader.node_id, {})[one] = target
        last: Exception | None = None
        for node_id, wanted in by_node.items():
            for one, answer in (await self._fetcher.list_offsets(node_id, wanted)).items():
                if not isinstance(answer, KafkaError):
                    found[one] = answer
                elif not answer.code.retriable:
                    raise answer
                else:
                    last = answer
        return last
