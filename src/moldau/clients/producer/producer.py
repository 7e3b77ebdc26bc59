"""● The producer that users call.  What it does is in `work`, loaded with the first producer: importing this costs next to nothing.

    async with Producer("localhost:9092") as producer:
        where = await producer.send("orders", b"value", key=b"key")         # delivered: where.offset
        producer.send("orders", b"value")                                   # on its way; flush, or the end of the block, waits for it
        await producer.send_many("orders", values)                          # whole lists, many times as fast

    async with Producer("localhost:9092", transactional_id="billing") as producer:
        async with producer.transaction():                                  # all of it, or nothing
            producer.send("invoices", b"…")
            await producer.send_offsets({TopicPartition("orders", 0): 17}, group)

Guarantees.  Records of one partition keep the order in which they were sent, and with idempotence, the default, none is written twice by
this producer's own retries.  Every delivery ends, with its place or an error, within delivery_timeout_ms.  A topic, partition or broker
that is in trouble holds up no other.  Memory: what waits is never more than buffer_memory, and as much again that waits for room.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from moldau.clients.group_metadata import GroupMetadata

if TYPE_CHECKING:
    import ssl

    from moldau.clients.cluster import Cluster
    from moldau.clients.producer.delivery import Deliveries, Delivery, OnDelivery
    from moldau.clients.producer.options import ProducerOptions
    from moldau.clients.producer.outgoing import Headers
    from moldau.clients.producer.transactor import Offset
    from moldau.clock import Clock
    from moldau.net.sasl import Credentials
    from moldau.net.transport import Network
    from moldau.types import TopicPartition


class HasGroup(Protocol):
    """A consumer, to `send_offsets`."""

    def group_metadata(self) -> GroupMetadata: ...


class Producer:
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

    `given`: options by keyword, in snake_case; `options`: a mapping in Kafka's spelling, or `ProducerOptions`.  Errors: OptionError.
    """

    def __init__(
        self,
        servers: "str | Sequence[str] | Cluster | None" = None,
        options: "Mapping[str, Any] | ProducerOptions | None" = None,
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        network: "Network | None" = None,
        clock: "Clock | None" = None,
        **given: Any,
    ) -> None:
        from moldau.clients.producer.work import ProducerWork

        self._work = ProducerWork(servers, options, given, ssl_context=ssl_context, sasl=sasl, network=network, clock=clock)

    @property
    def options(self) -> "ProducerOptions":
        return self._work.options

    @property
    def cluster(self) -> "Cluster":
        return self._work.cluster

    # ------------------------------------------------------------ life

    async def start(self) -> Self:
        """Done by `async with` and by the first `send`; with a transactional id it fences whoever had it before.  Errors: ClientError."""
        await self._work.start()
        return self

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Delivers what was sent, and ends.  After `timeout_ms` (None: delivery_timeout_ms) what is left is given up, each told so."""
        await self._work.close(timeout_ms)

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self._work.stop()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        from asyncio import CancelledError

        if kind is not None and issubclass(kind, CancelledError | GeneratorExit):
            await self._work.stop()
        else:
            await self.close()

    # ------------------------------------------------------------ sending

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: "Headers" = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: "OnDelivery | None" = None,
    ) -> "Delivery":
        """On its way; await what it returns to know that it has arrived.  `value` None: a tombstone.

        Errors at once: BufferFull when nothing is awaited and too much waits already; FatalError, AbortableError of the producer; whatever
        a serializer raises.  All others come with the delivery.
        """
        return self._work.send(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        headers: "Sequence[Headers] | None" = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> "Deliveries":
        """Lists side by side.  Waits for room, not for delivery: await what it returns for that.  Partitions keep the order of records.

        Errors: ValueError for lists of different lengths; ClientError when the topic cannot be used, or there is no room within
        max_block_ms: then nothing more is sent, and what was sent before goes on.
        """
        return await self._work.send_many(topic, values, keys, headers, partition, timestamps_ms)

    async def drain(self) -> None:
        """Until nothing waits for room any more: between calls of `send` that nobody awaits."""
        await self._work.drain()

    async def flush(self) -> None:
        """Until every record sent so far was delivered, or was told why not."""
        await self._work.flush()

    def partitions_for(self, topic: str) -> list[int]:
        """Those known now; empty for a topic that nobody sent to yet."""
        return self.cluster.view.partitions_of(topic)

    # ------------------------------------------------------------ transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begins one, and commits it; what raises aborts it, and is raised on.  Errors: ClientError."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                await self._work.abort_unless_fatal()
            raise

    async def begin_transaction(self) -> None:
        await self._work.begin()

    async def commit_transaction(self) -> None:
        """Errors: AbortableError: abort it; FatalError; RetriableError: it is not known how it ended, call it again."""
        await self._work.commit()

    async def abort_transaction(self) -> None:
        await self._work.abort()

    async def send_offsets(self, offsets: "Mapping[TopicPartition, int | Offset]", group: "GroupMetadata | str | HasGroup") -> None:
        """What the group is to read next, as part of the transaction.  `group`: a consumer, or its group metadata.  Errors: ClientError."""
        metadata = group if isinstance(group, str | GroupMetadata) else group.group_metadata()
        await self._work.send_offsets(offsets, metadata)

    def metrics(self) -> dict[str, float]:
        """Totals since the start, by the names of KIP-714."""
        return self._work.metrics()
