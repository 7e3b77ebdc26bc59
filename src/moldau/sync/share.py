"""● The blocking share consumer."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.clients.share.consumer import ShareConsumer as AsyncShareConsumer
from moldau.clients.unpicklable import Unpicklable
from moldau.sync.portal import the_portal

if TYPE_CHECKING:
    from moldau.clients.connecting import Given
    from moldau.clients.share import Acknowledge, SharedRecord
    from moldau.errors import ErrorCode
    from moldau.types import TopicPartition


class ShareConsumer(Unpicklable):
    """`moldau.ShareConsumer`, blocking.  One thread at a time may use it."""

    def __init__(
        self,
        servers: str | Sequence[str] | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        options: "Given | None" = None,
        on_acknowledged: "Callable[[TopicPartition, list[int], ErrorCode], None] | None" = None,
        **given: Any,
    ) -> None:
        from moldau.sync.forgotten import Closing

        self._portal = the_portal()

        async def make() -> AsyncShareConsumer:
            return AsyncShareConsumer(servers, group_id, topics, options, on_acknowledged, **given)

        self._consumer = self._portal.run(make())
        self._closing = Closing(self, self._portal, self._consumer.close)

    def subscribe(self, topics: Sequence[str] | str) -> None:
        self._portal.call(lambda: self._consumer.subscribe(topics))

    def unsubscribe(self) -> None:
        self._portal.run(self._consumer.unsubscribe())

    @property
    def assignment(self) -> "frozenset[TopicPartition]":
        return self._consumer.assignment

    def poll(self, *, wait_s: float = 1.0) -> "list[SharedRecord]":
        return self._portal.run(self._consumer.poll(wait_s=wait_s), take_back=self._consumer.take_back)

    def acknowledge(self, shared: "SharedRecord", kind: "Acknowledge") -> None:
        self._portal.call(lambda: self._consumer.acknowledge(shared, kind))

    def commit(self) -> None:
        self._portal.run(self._consumer.commit())

    def close(self) -> None:
        self._closing.done()
        self._portal.run(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
