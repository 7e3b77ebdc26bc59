"""● A member of a share group (KIP-932): it takes records off partitions that other members read, too, and acknowledges each.

    async with ShareConsumer("localhost:9092", "printers", ["jobs"]) as consumer:
        for shared in await consumer.poll(wait_s=1.0):
            print(shared.record.value)
            consumer.acknowledge(shared, Acknowledge.ACCEPT)

Guarantee: at least once.  An accepted record is not delivered again.  A released record is delivered to a member again.  A rejected record
is delivered to no member.  A record without an acknowledgement is delivered again when its lock expires.  The records of a `poll` count as
accepted at the next `poll` or `commit`, unless share_acknowledgement_mode is explicit.  Records without an acknowledgement are released
when the consumer closes: those that no poll returned, and those of the last poll.

The work is done in `work`, which is loaded with the first share consumer: importing this module costs next to nothing.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.clients.unpicklable import Unpicklable

if TYPE_CHECKING:
    import ssl

    from moldau.clients.cluster import Cluster
    from moldau.clients.connecting import Given
    from moldau.clients.share.acknowledging import Acknowledge, SharedRecord
    from moldau.clients.share.options import ShareConsumerOptions
    from moldau.errors import ErrorCode
    from moldau.net.sasl import Credentials
    from moldau.net.transport import Network
    from moldau.types import TopicPartition


class ShareConsumer(Unpicklable):
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

    `group_id`, `topics`: as the option, and as for `subscribe`.  `given`: options by keyword, in snake_case; `options`: a mapping in
    Kafka's spelling, or `ShareConsumerOptions`.  `on_acknowledged` is called with the acknowledged offsets and NONE once the leader has
    stored them.  With an error code the records may be delivered again.  `member_id`: a new uuid, unless given.

    Errors: OptionError.
    """

    def __init__(
        self,
        servers: "str | Sequence[str] | Cluster | None" = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        options: "Given | ShareConsumerOptions | None" = None,
        on_acknowledged: "Callable[[TopicPartition, list[int], ErrorCode], None] | None" = None,
        member_id: str | None = None,
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        network: "Network | None" = None,
        **given: Any,
    ) -> None:
        from moldau.clients.cluster import Cluster
        from moldau.clients.connecting import cluster_of, mapping_of
        from moldau.clients.options import OptionError, parse_options
        from moldau.clients.share.options import ShareConsumerOptions
        from moldau.clients.share.work import ShareWork

        if not isinstance(options, ShareConsumerOptions):
            options = parse_options(ShareConsumerOptions, {**mapping_of(options), **given})
        group_id = group_id or options.group_id
        if not group_id:
            raise OptionError("a share consumer needs a group.id")
        self.options = options
        self._owns_cluster = not isinstance(servers, Cluster)
        if isinstance(servers, Cluster):
            self.cluster = servers
        else:
            self.cluster = cluster_of(servers, options, ssl_context=ssl_context, sasl=sasl, network=network)
        listed = [topics] if isinstance(topics, str) else topics or ()
        self._work = ShareWork(self.cluster, group_id, listed, options, on_acknowledged, member_id)

    @property
    def group_id(self) -> str:
        return self._work.group_id

    @property
    def member_id(self) -> str:
        return self._work.member_id

    @property
    def assignment(self) -> "frozenset[TopicPartition]":
        return self._work.assignment

    def subscribe(self, topics: Sequence[str] | str) -> None:
        """Read these topics instead of those before.  Records of other topics that were handed out must still be acknowledged."""
        self._work.subscribe([topics] if isinstance(topics, str) else topics)

    async def unsubscribe(self) -> None:
        """Leave the group.  Records without an acknowledgement are delivered again, to other members."""
        await self._work.close()
        self._work.subscribe(())

    async def poll(self, *, wait_s: float = 1.0) -> "list[SharedRecord]":
        """The records that have arrived, else those that arrive within `wait_s` seconds; empty if none do.  Errors: KafkaError;
        CorruptBatch.
        """
        return await self._work.poll(wait_s)

    def take_back(self, found: "Sequence[SharedRecord]") -> None:
        """Take back what the last poll returned, for a caller who was interrupted: the next poll returns it, and accepts nothing of it."""
        self._work.take_back(found)

    def acknowledge(self, shared: "SharedRecord", kind: "Acknowledge") -> None:
        """Acknowledge a record.  The next fetch sends it, or `commit`; until then another kind takes its place.

        Errors: ValueError for what is no kind; ClientError INVALID_RECORD_STATE for a record that this consumer does not hold (any more).
        """
        self._work.acknowledge(shared, kind)

    async def commit(self) -> None:
        """Send the acknowledgements, and wait until the leaders have stored or refused them.

        In the implicit mode the records of the last poll are accepted first.  Errors: OSError, Unreachable.
        """
        await self._work.commit()

    async def close(self) -> None:
        """Release the records that were not returned or not acknowledged, and leave the group."""
        self._work.end()
        try:
            await self._work.close()
        finally:
            if self._owns_cluster:
                self.cluster.close()

    def abort(self) -> None:
        """Stop without a word: the records are delivered again when their locks expire or the session ends."""
        self._work.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
