"""● The consumer that users call.  The work is done in `work`, which is loaded with the first consumer: importing this module costs next to
nothing.

    async with Consumer("localhost:9092", group_id="billing", topics=["orders"]) as consumer:
        async for record in consumer:                                # record by record
            …
        for records in await consumer.poll():                        # batch by batch: records.values, .keys, .offsets
            …

    async with Consumer("localhost:9092") as consumer:               # by assignment, without a group
        await consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()

Guarantee: at least once with auto-commit, and records of one partition in order.  A record counts as done when the application asks for the
next one; then its offset may be committed.  Once a revocation has returned, no record of those partitions is handed out.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from moldau.clients.unpicklable import Unpicklable

if TYPE_CHECKING:
    import ssl
    from random import Random

    from moldau.clients.cluster import Cluster
    from moldau.clients.connecting import Given
    from moldau.clients.consumer.iteration import RecordStream
    from moldau.clients.consumer.member import RebalanceListener
    from moldau.clients.consumer.offsets import Committed
    from moldau.clients.consumer.options import ConsumerOptions
    from moldau.clients.group_metadata import GroupMetadata
    from moldau.clients.records import Records
    from moldau.clock import Clock
    from moldau.net.sasl import Credentials
    from moldau.net.transport import Network
    from moldau.types import TopicPartition

Pattern: TypeAlias = str | re.Pattern[str] | Callable[[str], bool]
LATEST = -1
EARLIEST = -2


class Consumer(Unpicklable):
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

    `topics`, `pattern`, `listener`: as for `subscribe`.  `given`: options by keyword, in snake_case; `options`: a mapping in Kafka's
    spelling, or `ConsumerOptions`.  `random`: draws the id of a member; None: the system's randomness.  Errors: OptionError.
    """

    def __init__(
        self,
        servers: "str | Sequence[str] | Cluster | None" = None,
        options: "Given | ConsumerOptions | None" = None,
        *,
        topics: Sequence[str] | str | None = None,
        pattern: Pattern | None = None,
        listener: "RebalanceListener | None" = None,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        network: "Network | None" = None,
        clock: "Clock | None" = None,
        random: "Random | None" = None,
        **given: Any,
    ) -> None:
        from moldau.clients.consumer.work import ConsumerWork

        self._work = ConsumerWork(servers, options, given, ssl_context=ssl_context, sasl=sasl, network=network, clock=clock, random=random)
        if topics is not None or pattern is not None:
            self.subscribe(topics, pattern=pattern, listener=listener)

    @property
    def options(self) -> "ConsumerOptions":
        return self._work.options

    @property
    def cluster(self) -> "Cluster":
        return self._work.cluster

    # ------------------------------------------------------------ what to read

    def subscribe(
        self,
        topics: Sequence[str] | str | None = None,
        *,
        pattern: Pattern | None = None,
        listener: "RebalanceListener | None" = None,
    ) -> None:
        """Read these topics, or all that `pattern` matches, shared with the other members of the group.  Errors: OptionError.

        `pattern`: a regular expression for whole names, or a function of a name that returns whether it matches.  If the function raises,
        the next poll raises its error, and the topics of the last successful match stay.
        """
        self._work.subscribe(topics, pattern=pattern, listener=listener)

    async def assign(self, partitions: "Iterable[TopicPartition] | Mapping[TopicPartition, int]") -> None:
        """Read these partitions and no others, without a group's sharing.

        A mapping gives each partition an offset to begin at, or EARLIEST or LATEST.  Partitions that were read before go on where they are.
        A partition without an offset begins at the group's offset, else as auto_offset_reset says.

        Errors: ClientError, OptionError.
        """
        await self._work.assign(partitions)

    async def unsubscribe(self) -> None:
        """Read nothing any more.  A member leaves its group."""
        await self._work.unsubscribe()

    @property
    def assignment(self) -> "list[TopicPartition]":
        return self._work.assignment

    @property
    def subscription(self) -> list[str]:
        return self._work.subscribed()

    def pause(self, partitions: "Iterable[TopicPartition]") -> None:
        """Hand out nothing of these partitions until `resume`."""
        self._work.pause(partitions)

    def resume(self, partitions: "Iterable[TopicPartition]") -> None:
        self._work.resume(partitions)

    @property
    def paused(self) -> "list[TopicPartition]":
        return self._work.paused

    # ------------------------------------------------------------ where

    def seek(self, topic_partition: "TopicPartition", offset: int) -> None:
        """Let the next record handed out be the first one from this offset on."""
        self._work.seek(topic_partition, offset)

    def seek_to_beginning(self, partitions: "Iterable[TopicPartition] | None" = None) -> None:
        self._work.seek_to_beginning(partitions)

    def seek_to_end(self, partitions: "Iterable[TopicPartition] | None" = None) -> None:
        self._work.seek_to_end(partitions)

    def seek_to_time(self, timestamp_ms: int, partitions: "Iterable[TopicPartition] | None" = None) -> None:
        """Go on at the first record that is at least as new as `timestamp_ms`, or at the end if there is none."""
        self._work.seek_to_time(timestamp_ms, partitions)

    @property
    def positions(self) -> "dict[TopicPartition, int]":
        """The next offset of each partition, for the partitions whose position is known."""
        return self._work.positions

    async def position(self, topic_partition: "TopicPartition", *, timeout_s: float | None = None) -> int:
        """The offset of the next record to be handed out.

        Errors: RetriableError if it cannot be found out in time; ClientError.
        """
        return await self._work.position(topic_partition, timeout_s=timeout_s)

    def lag(self, topic_partition: "TopicPartition") -> int | None:
        """Offsets from the position to the end, as the last fetch reported the end; None before the first fetch."""
        return self._work.lag(topic_partition)

    async def beginning_offsets(self, partitions: "Iterable[TopicPartition]") -> "dict[TopicPartition, int]":
        """The first offset of each partition.  Errors: ClientError."""
        return await self._work.offsets_at(dict.fromkeys(partitions, EARLIEST))

    async def end_offsets(self, partitions: "Iterable[TopicPartition]") -> "dict[TopicPartition, int]":
        """The end offset of each partition, exclusive; with read_committed, the first offset of the first open transaction.  Errors:
        ClientError.
        """
        return await self._work.offsets_at(dict.fromkeys(partitions, LATEST))

    async def offsets_for_times(self, timestamps_ms: "Mapping[TopicPartition, int]") -> "dict[TopicPartition, int | None]":
        """The offset of the first record that is at least as new as each timestamp; None if there is none.  Errors: ClientError."""
        return {one: offset if offset >= 0 else None for one, offset in (await self._work.offsets_at(timestamps_ms)).items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic.  Errors: ClientError."""
        return await self._work.partitions_for(topic)

    # ------------------------------------------------------------ reading

    async def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> "list[Records]":
        """The records at hand, else those that come within `timeout_s` seconds; empty if none come.

        Whole batches are returned.  `max_records`, or max_poll_records, limits the number of records.

        Errors: ClientError; CorruptBatch; whatever a rebalance listener or the function of a pattern raises.  After an error the next poll
        goes on.
        """
        return await self._work.poll(timeout_s, max_records=max_records)

    def take_back(self, found: "Sequence[Records]") -> None:
        """Take back what the last poll returned, for a caller who was interrupted.

        The next poll begins with it, and no commit covers it.
        """
        self._work.take_back(found)

    def __aiter__(self) -> "RecordStream":
        """Records one by one until the consumer is closed.  A record counts as done when the next one is asked for.

        Who leaves the loop goes on behind the last record, with another loop or with `poll`.
        """
        return self._work.iterate()

    # ------------------------------------------------------------ offsets

    async def commit(self, offsets: "Mapping[TopicPartition, int | Committed] | None" = None) -> None:
        """Commit these offsets, or those of everything handed out so far.  Errors: ClientError; FatalError without a group."""
        await self._work.commit(offsets)

    async def committed(self, partitions: "Iterable[TopicPartition]") -> "dict[TopicPartition, Committed | None]":
        """The group's committed offsets; None for a partition without one.  Errors: ClientError."""
        return await self._work.committed(partitions)

    def group_metadata(self) -> "GroupMetadata":
        """The group and this member, for `Producer.send_offsets`."""
        return self._work.group_metadata()

    # ------------------------------------------------------------ life

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Commit the records that were handed out, unless auto-commit is off, and leave the group."""
        await self._work.close(timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        self._work.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def metrics(self) -> dict[str, float]:
        """Totals since the start, by the names of KIP-714."""
        return self._work.metrics()
