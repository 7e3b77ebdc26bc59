"""● Sends requests to the leaders of partitions.  It looks leaders up when they are not known, and again while they seem to move."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, TypeVar

from moldau.clients.cluster import STALE_METADATA, Cluster, retrying
from moldau.errors import KafkaError
from moldau.types import TopicPartition

T = TypeVar("T")

SETTLE_WITHIN_S: Final = 5.0


class Leaders:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def know(self, partitions: Iterable[TopicPartition]) -> None:
        unknown = {one.topic for one in partitions} - self._cluster.view.topics.keys()
        if unknown:
            await self._cluster.refresh(sorted(unknown))

    async def group(
        self, partitions: Iterable[TopicPartition], found: dict[TopicPartition, T | KafkaError]
    ) -> dict[int, list[TopicPartition]]:
        """Partitions by leader.  A partition whose leader is not known gets the reason in `found`."""
        groups: dict[int, list[TopicPartition]] = defaultdict(list)
        for one in partitions:
            try:
                groups[(await self._cluster.leader_of(one)).node_id].append(one)
            except KafkaError as error:
                found[one] = error
        return groups

    async def until_settled(
        self, attempt: Callable[[], Awaitable[None]], found: dict[TopicPartition, T | KafkaError]
    ) -> dict[TopicPartition, T | KafkaError]:
        """Call `attempt`, which fills `found`, until no partition's leader seems to have moved, or time is up."""

        async def once() -> None:
            await attempt()
            stale = [one for one in found.values() if isinstance(one, KafkaError) and one.code in STALE_METADATA]
            if stale:
                await self._cluster.refresh(sorted({one.topic for one in found}))
                raise stale[0]

        with suppress(KafkaError):
            await retrying(once, within_s=SETTLE_WITHIN_S)
        return found


def is_open(answer: object) -> bool:
    """Whether a partition has not been asked for yet, or has to be asked for again."""
    return answer is None or (isinstance(answer, KafkaError) and answer.code in STALE_METADATA)
