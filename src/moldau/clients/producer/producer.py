"""● The producer that users call.  The work is done in `work`, which is loaded with the first producer: importing this module costs next to
nothing.

    async with Producer("localhost:9092") as producer:
        where = await producer.send("orders", b"value", key=b"key")         # delivered: where.offset
        producer.send("orders", b"value")                                   # on its way; flush, or the end of the block, waits for it
        await producer.send_many("orders", values)                          # whole lists, many times as fast

    async with Producer("localhost:9092", transactional_id="billing") as producer:
        async with producer.transaction():                                  # all of it, or nothing
            producer.send("invoices", b"…")
            await producer.send_offsets({TopicPartition("orders", 0): 17}, group)

Guarantees.  Records of one partition keep the order in which they were sent, and with idempotence, the default, none is written twice by
this producer's own retries.  Every delivery ends, with its place or an error, within delivery_timeout_ms.  A topic, partition or broker in
trouble holds up no other.  Waiting records take at most buffer_memory; records that wait for room take at most as much again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from moldau.clients.group_metadata import GroupMetadata
from moldau.clients.unpicklable import Unpicklable

if TYPE_CHECKING:
    import ssl
    from random import Random

    from moldau.clients.cluster import Cluster
    from moldau.clients.connecting import Given
    from moldau.clients.producer.delivery import Deliveries, Delivery, OnDelivery
    from moldau.clients.producer.off_loop import OffLoop
    from moldau.clients.producer.options import ProducerOptions
    from moldau.clients.producer.outgoing import Headers
    from moldau.clients.producer.transactor import Offset
    from moldau.clock import Clock
    from moldau.net.sasl import Credentials
    from moldau.net.transport import Network
    from moldau.types import TopicPartition


class HasGroup(Protocol):
    """A consumer, as `send_offsets` sees it."""

    def group_metadata(self) -> GroupMetadata: ...


class Producer(Unpicklable):
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

    `given`: options by keyword, in snake_case; `options`: a mapping in Kafka's spelling, the path of a
    properties file, or `ProducerOptions`.  `random`: draws the
    partitions of partitioners that choose at random; None: the system's randomness.  `off_loop`: runs the compression of large batches;
    None: on threads.  Errors: OptionError.
    """

    def __init__(
        self,
        servers: "str | Sequence[str] | Cluster | None" = None,
        options: "Given | ProducerOptions | None" = None,
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        network: "Network | None" = None,
        clock: "Clock | None" = None,
        random: "Random | None" = None,
        off_loop: "OffLoop | None" = None,
        **given: Any,
    ) -> None:
        from moldau.clients.producer.work import ProducerWork

        self._work = ProducerWork(
            servers,
            options,
            given,
            ssl_context=ssl_context,
            sasl=sasl,
            network=network,
            clock=clock,
            random=random,
            off_loop=off_loop,
        )
        if type(self).send is _SEND:
            # One call less for each record, which is a tenth of its time.  A subclass keeps its own.
            self.send = self._work.send  # type: ignore[method-assign]

    @property
    def options(self) -> "ProducerOptions":
        return self._work.options

    @property
    def cluster(self) -> "Cluster":
        return self._work.cluster

    # ------------------------------------------------------------ life

    async def start(self) -> Self:
        """Start the producer; `async with` and the first `send` do it, too.

        A producer with a transactional id fences the one that had it before.  Errors: ClientError.
        """
        await self._work.start()
        return self

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Deliver every record that was sent, and end.  A transaction that is open is aborted.

        After `timeout_ms` (None: delivery_timeout_ms) the records that are left fail.
        """
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
        """Send one record.  Await the returned delivery to know that it has arrived.  `value` None: a tombstone.

        Errors at once: BufferFull if too many records wait and no delivery is awaited; FatalError, AbortableError of the producer; whatever
        a serializer raises.  All other errors come with the delivery.  A ClientError for a partitioner of yours that raises comes at once,
        or with the delivery while the topic is not known.
        """
        return self._work.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, on_delivery=on_delivery
        )

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
        """Send records given as lists side by side.  Partitions keep the order of records.

        This waits for room, not for delivery: await the returned deliveries for that.

        Interceptors see each record, which costs about as much as `send`: without interceptors no object is made for a record.

        Errors: ValueError for lists of different lengths; ClientError if the topic cannot be used, or there is no room within max_block_ms.
        In the latter case the rest is not sent, and the records sent before go on.
        """
        return await self._work.send_many(topic, values, keys, headers, partition, timestamps_ms)

    async def drain(self) -> None:
        """Wait until no record waits for room any more.  Use it between calls of `send` whose deliveries you do not await.

        Batches that may leave do so even when no record waits.
        """
        await self._work.drain()

    async def flush(self) -> None:
        """Wait until every record sent so far has been delivered or has failed."""
        await self._work.flush()

    def partitions_for(self, topic: str) -> list[int]:
        """The known partitions of a topic; empty for a topic without a record so far."""
        return self.cluster.view.partitions_of(topic)

    # ------------------------------------------------------------ transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction, and commit it at the end of the block.

        An exception aborts it, and is raised again.  Errors: ClientError; RetriableError of the commit: it is not known how the transaction
        ended, call `commit_transaction` again.
        """
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                await self.end_transaction_after(error)
            raise

    async def end_transaction_after(self, error: BaseException) -> None:
        """End the transaction of a block that raised `error`, as `transaction` does.  An abort that fails is logged."""
        await self._work.end_after(error)

    async def begin_transaction(self) -> None:
        """Begin, after an abort, or the commit of a block that was cancelled, that is not done yet.  Errors: ClientError."""
        await self._work.begin()

    async def commit_transaction(self) -> None:
        """Commit.  Errors: AbortableError: abort it; FatalError; RetriableError: it is not known how it ended, call it again."""
        await self._work.commit()

    async def abort_transaction(self) -> None:
        await self._work.abort()

    async def send_offsets(self, offsets: "Mapping[TopicPartition, int | Offset]", group: "GroupMetadata | str | HasGroup") -> None:
        """Commit a group's offsets as part of the transaction.

        `group`: a consumer, or its group metadata.  Errors: ClientError.
        """
        metadata = group if isinstance(group, str | GroupMetadata) else group.group_metadata()
        await self._work.send_offsets(offsets, metadata)

    def metrics(self) -> dict[str, float]:
        """Totals since the start, by the names of KIP-714."""
        return self._work.metrics()


_SEND: Final = Producer.send
