"""● Lists and describes transactions, finds those that hang, and ends them.

Source: Admin.listTransactions, describeTransactions, describeProducers, abortTransaction, fenceProducers,
forceTerminateTransaction; KIP-664, 1152.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.clients.admin.answers import raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.partitions import PartitionAdmin
from moldau.clients.admin.several import of_each
from moldau.clients.cluster import GIVE_UP_AFTER_S, Cluster, retrying
from moldau.clients.coordinators import TRANSACTION, Coordinators
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_transactions import ListTransactionsRequest, TransactionState
from moldau.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from moldau.types import TopicPartition

NO_DURATION: Final = -1
NO_PRODUCER: Final = -1
PARTITIONS_AT_ONCE: Final = 500
TERMINATION_TIMEOUT_MS: Final = 30_000
"""What Kafka's admin client asks for, its default `request.timeout.ms`."""


class ListedTransaction(NamedTuple):
    coordinator_id: int
    listed: TransactionState


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transaction as its coordinator knows it.  `start_ms` is None for a transactional id without an open transaction."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: Sequence[TopicPartition]


class OpenTransaction(NamedTuple):
    """One producer's transaction, as the log of one partition knows it."""

    partition: TopicPartition
    producer: ProducerState


class Fenced(NamedTuple):
    """The producer id and the epoch that took the place of a fenced producer's."""

    producer_id: int
    producer_epoch: int


class TransactionAdmin(Limited):
    """Answers for transactions.  `within_s`: how many seconds to wait for a coordinator that is not there yet."""

    def __init__(self, cluster: Cluster, *, within_s: float = GIVE_UP_AFTER_S) -> None:
        self.cluster = cluster
        self._partitions = PartitionAdmin(cluster)
        self._coordinators = Coordinators(cluster, key_type=TRANSACTION)
        self._within_s = within_s

    async def list_transactions(
        self,
        *,
        longer_than_ms: int = NO_DURATION,
        pattern: str | None = None,
        producer_ids: Sequence[int] = (),
        states: Sequence[str] = (),
    ) -> list[ListedTransaction]:
        """The transactions of all brokers.  Errors: KafkaError, INVALID_REGULAR_EXPRESSION among them."""
        view = await self.cluster.refresh([])
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )
        node_ids = sorted(view.nodes)
        responses = await asyncio.gather(*(self.cluster.send(request, node_id=node_id) for node_id in node_ids))
        for response in responses:
            raise_for(response.error_code)
        return [
            ListedTransaction(node_id, each)
            for node_id, response in zip(node_ids, responses, strict=True)
            for each in response.transaction_states
        ]

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """Describe the transaction of one transactional id.  Errors: KafkaError, TRANSACTIONAL_ID_NOT_FOUND among them."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        node = await self._coordinators.node_of(transactional_id, within_s=self._within_s)
        response = await self._coordinators.ask(
            transactional_id, request, lambda one: one.transaction_states[0].error_code, within_s=self._within_s
        )
        (found,) = response.transaction_states
        raise_for(found.error_code)
        return TransactionDescription(
            transactional_id=transactional_id,
            coordinator_id=node.node_id,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            state=found.transaction_state,
            timeout_ms=found.transaction_timeout_ms,
            start_ms=found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
            partitions=[TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions],
        )

    async def describe_each(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription | KafkaError]:
        return await of_each(transactional_ids, self.describe)

    async def producers_of(self, partition: TopicPartition, *, broker_id: int | None = None) -> list[ProducerState]:
        """The producers of a partition as its leader knows them, or as the replica on `broker_id` does.  Errors: KafkaError."""
        if broker_id is None:
            found = (await self._partitions.describe_producers([partition]))[partition]
            if isinstance(found, KafkaError):
                raise found
            return found
        topic = TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
        response = await self.cluster.send(DescribeProducersRequest(topics=[topic]), node_id=broker_id)
        (one,) = response.topics[0].partitions
        raise_for(one.error_code, one.error_message)
        return one.active_producers

    async def find_hanging(
        self, partitions: Sequence[TopicPartition], *, now_ms: int, longer_than_ms: int, broker_id: int | None = None
    ) -> list[OpenTransaction]:
        """The transactions that are open in a log for longer than `longer_than_ms` and that no coordinator will end.

        Errors: KafkaError.
        """
        candidates = []
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            for partition in partitions[start : start + PARTITIONS_AT_ONCE]:
                for producer in await self.producers_of(partition, broker_id=broker_id):
                    elapsed_ms = now_ms - producer.last_timestamp
                    if producer.current_txn_start_offset >= 0 and elapsed_ms > longer_than_ms:
                        candidates.append(OpenTransaction(partition, producer))
        if not candidates:
            return []
        wanted = sorted({each.producer.producer_id for each in candidates})
        listed = await self.list_transactions(producer_ids=wanted)
        owners = {each.listed.producer_id: each.listed.transactional_id for each in listed}
        expected = {owner: await self._partitions_of(owner) for owner in set(owners.values())}
        return [each for each in candidates if each.partition not in expected.get(owners.get(each.producer.producer_id, ""), ())]

    async def _partitions_of(self, transactional_id: str) -> Sequence[TopicPartition]:
        """The partitions that the transaction's coordinator will write markers to."""
        try:
            return (await self.describe(transactional_id)).partitions
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return ()

    async def abort(self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Write the abort marker of a hanging transaction, which no coordinator will write.  Errors: KafkaError."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=coordinator_epoch,
        )
        leader = await self.cluster.leader_of(partition)
        response = await self.cluster.send(WriteTxnMarkersRequest(markers=[marker]), node_id=leader.node_id)
        raise_for(response.markers[0].topics[0].partitions[0].error_code)

    async def fence(self, transactional_ids: Iterable[str]) -> dict[str, Fenced | KafkaError]:
        """Fence the producers that have these ids, and abort their transactions."""
        return await of_each(transactional_ids, self._fence)

    async def force_terminate(self, transactional_id: str) -> None:
        """Fence the producer and abort its transaction, as a successor would.  Errors: KafkaError."""
        await self._fence(transactional_id)

    async def _fence(self, transactional_id: str) -> Fenced:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TERMINATION_TIMEOUT_MS,
            producer_id=NO_PRODUCER,
            producer_epoch=NO_PRODUCER,
        )

        async def attempt() -> Fenced:
            response = await self._coordinators.ask(transactional_id, request, lambda one: one.error_code, within_s=self._within_s)
            raise_for(response.error_code)  # the answer is CONCURRENT_TRANSACTIONS until the markers are written
            return Fenced(response.producer_id, response.producer_epoch)

        return await retrying(attempt, within_s=self._within_s)
