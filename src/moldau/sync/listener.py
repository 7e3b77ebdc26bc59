"""● Runs the rebalance listener of a blocking consumer in a thread, so that it may use the consumer, as to commit."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from moldau.clients.consumer.member import RebalanceListener
from moldau.types import TopicPartition


class ThreadListener(RebalanceListener):
    """See the module.  `listener`: its `async` methods stay on the loop of the blocking clients."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await _call(self._listener.on_assigned, partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await _call(self._listener.on_revoked, partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await _call(self._listener.on_lost, partitions)


async def _call(method: Callable[[Sequence[TopicPartition]], Any], partitions: Sequence[TopicPartition]) -> None:
    """The thread has the context of the step, by which the consumer knows a listener that polls."""
    result = method(partitions) if inspect.iscoroutinefunction(method) else await asyncio.to_thread(method, partitions)
    if inspect.isawaitable(result):
        await result
