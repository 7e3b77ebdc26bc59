"""● Keeps a late request out of the next transaction, by asking the coordinator and by the order of connections.

`Membership` asks the coordinator whether a partition is part of a producer's open transaction (KIP-890).

Before the first batch of a transaction is written to a partition, the partition has to be part of that transaction: otherwise a request
that was delayed past the end of its transaction would leave records that nothing ever commits or aborts.  For clients of version 2 the
broker adds the partition; for others it only checks.

`close_if_overtaken` and `close_if_of_earlier_transaction` refuse requests on a connection that their sender has replaced, see
`connection_order.py`.  `fenced_as_known` translates PRODUCER_FENCED for older clients.

Source: AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator.  Called by the handlers of
transactions.
"""

import asyncio
import logging
from collections.abc import Hashable
from contextlib import suppress
from typing import Final

from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.coordinator.txn.state import EPOCH_BUMP_SINCE
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.replication.partition import Partition
from moldau.server.coordinators.topic import answered
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import ConnectionClosed, RequestContext
from moldau.storage.producers.state import VerificationGuard
from moldau.types import NO_LEADER, NO_SEQUENCE, TRANSACTION_TOPIC, TopicPartition

LOG: Final = logging.getLogger(__name__)

NEVER: Final = 1 << 15
"""A version above every other."""


class Membership:
    """One producer's transaction, about which this broker asks."""

    def __init__(self, broker: Broker, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        self._broker: Final = broker
        self._transactional_id: Final = transactional_id
        self._producer: Final = producer

    async def of(self, partition: Partition, *, adds: bool, sequence: int = NO_SEQUENCE) -> VerificationGuard | ErrorCode | None:
        """The guard of an append, which fails if the transaction ends meanwhile; None if nothing is to be checked.

        Checking can be switched off, adding cannot: the end of a transaction would not reach a partition that was not added.

        Errors: INVALID_REQUEST (an empty transactional id), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of
        `add_partitions` and `verify_partitions`.
        """
        if not adds and not self._broker.coordinators.transaction_config.is_verification_enabled:
            return None
        began_ms = self._broker.clock.monotonic_ms()
        while True:
            guard = partition.log.producers.begin_verification(
                self._producer.producer_id,
                sequence,
                self._producer.epoch,
                self._broker.clock.now_ms(),
                supports_epoch_bump=adds,
            )
            if guard is None:
                return None  # the producer's transaction is open here already
            with self._broker.coordinators.completions.awaited(self._transactional_id) as completed:
                code = await self._ask(partition, adds=adds)
                if code is ErrorCode.NONE:
                    return guard
                if not adds or code is not ErrorCode.CONCURRENT_TRANSACTIONS or not await self._has_waited(completed, began_ms):
                    return code
            # Begin again: the awaited marker may have ended this verification.

    async def _has_waited(self, completed: asyncio.Event, began_ms: int) -> bool:
        """Wait for the end of the transaction before.  False: the client has to ask again.

        A client that goes on at once comes before the last markers are written: for a while it is spared the way back and forth.  Kafka
        asks again after each pause.  Here the last marker ends the pause, if the coordinator is this broker.
        """
        config = self._broker.coordinators.transaction_config
        elapsed_ms = self._broker.clock.monotonic_ms() - began_ms
        if elapsed_ms >= config.add_partitions_backoff_max_ms:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(config.add_partitions_backoff_ms / 1000):
                await completed.wait()
        return True

    async def _ask(self, partition: Partition, *, adds: bool) -> ErrorCode:
        """Ask the coordinator.  Errors: NETWORK_EXCEPTION if it is another broker and cannot be reached."""
        if not self._transactional_id:
            return ErrorCode.INVALID_REQUEST
        coordinators = self._broker.coordinators
        where = TopicPartition(TRANSACTION_TOPIC, coordinators.transactions.partition_for(self._transactional_id))
        leader_id = coordinators.brokers.leader_of(where)
        if leader_id not in (self._broker.config.node_id, NO_LEADER):
            return await self._ask_broker(leader_id, partition.topic_partition, adds=adds)
        named = frozenset({partition.topic_partition})

        def decide(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
            if adds:
                return machine.add_partitions(token, self._transactional_id, self._producer, named, now_ms, client_version=EPOCH_BUMP_SINCE)
            return machine.verify_partitions(token, self._transactional_id, self._producer, named)

        answer = self._broker.coordinators.transactions.ask(
            self._transactional_id,
            decide,
            refused=lambda code: code,
            transform=lambda found: found if isinstance(found, ErrorCode) else found[partition.topic_partition],
        )
        return await answered(answer)

    async def _ask_broker(self, leader_id: int, where: TopicPartition, *, adds: bool) -> ErrorCode:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            verify_only=not adds,
            topics=[AddPartitionsToTxnTopic(name=where.topic, partitions=[where.partition])],
        )
        try:
            response = await self._broker.coordinators.brokers.ask(leader_id, AddPartitionsToTxnRequest(transactions=[asked]))
        except (OSError, KafkaError) as error:
            LOG.info("broker %d does not say whether %s is part of %s: %s", leader_id, where, self._transactional_id, error)
            return ErrorCode.NETWORK_EXCEPTION
        if response.error_code:
            return ErrorCode.of(response.error_code)
        for transaction in response.results_by_transaction:
            for topic in transaction.topic_results:
                for found in topic.results_by_partition:
                    if (topic.name, found.partition_index) == where:
                        return ErrorCode.of(found.partition_error_code)
        return ErrorCode.NETWORK_EXCEPTION


def close_if_overtaken(
    broker: Broker,
    context: RequestContext,
    purpose: str,
    sender: Hashable,
    producer: ProducerIdAndEpoch,
    *,
    tells_zombies: bool = True,
) -> None:
    """Close the connection if its sender has gone on with a newer one.  Errors: ConnectionClosed."""
    order = broker.coordinators.connection_order
    if order.is_overtaken(purpose, sender, producer, context.client.connection_number, tells_zombies=tells_zombies):
        raise ConnectionClosed(f"{purpose} of {sender} came after it had gone on with a newer connection")


def close_if_of_earlier_transaction(
    broker: Broker, context: RequestContext, transactional_id: str, producer: ProducerIdAndEpoch, *, ends: bool = False
) -> None:
    """Close the connection if the request may be of an earlier transaction.  Errors: ConnectionClosed."""
    order = broker.coordinators.transaction_order
    if order.is_overtaken(transactional_id, producer, context.client.connection_number, ends=ends):
        raise ConnectionClosed(f"a request for the transaction of {transactional_id} came on a connection older than that transaction")


def fenced_as_known(code: int, version: int = 0, *, since: int = NEVER) -> ErrorCode:
    """The code for clients that know PRODUCER_FENCED from the request's version `since` on; others get INVALID_PRODUCER_EPOCH."""
    is_unknown = code == ErrorCode.PRODUCER_FENCED and version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else ErrorCode.of(code)
