"""● What keeps a late request out of the next transaction: the coordinator's word, and the order of connections.

`Membership` asks the coordinator whether a partition is part of a producer's open transaction (KIP-890).

Before the first batch of a transaction is written to a partition, the partition has to be part of that transaction: otherwise a request
that was delayed past the end of its transaction would leave records that nothing ever commits or aborts.  Clients of version 2 leave the
adding to the broker; for others it is only checked.

`close_if_overtaken` refuses what comes on a connection that its sender has replaced, see `connection_order.py`.  `fenced_as_known` says
PRODUCER_FENCED in the words of older clients.

Source: AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator.  Called by the handlers of
transactions.
"""

import asyncio
from collections.abc import Hashable
from typing import Final

from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.errors import ErrorCode
from moldau.replication.partition import Partition
from moldau.server.broker import Broker
from moldau.server.coordinator_topic import answered
from moldau.server.dispatch import ConnectionClosed, RequestContext
from moldau.storage.producer_state import VerificationGuard

NO_SEQUENCE: Final = -1
NEVER: Final = 1 << 15
"""Above every version."""


class Membership:
    """One producer's transaction, as this broker asks about it."""

    def __init__(self, broker: Broker, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        self._broker: Final = broker
        self._transactional_id: Final = transactional_id
        self._producer: Final = producer

    async def of(self, partition: Partition, *, adds: bool, sequence: int = NO_SEQUENCE) -> VerificationGuard | ErrorCode | None:
        """What to append with: a guard that fails if the transaction ends meanwhile, or None where nothing is to be checked.

        Checking can be switched off, adding cannot: what nobody has added, no end of a transaction would commit or abort.

        Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of `add_partitions` and `verify_partitions`.
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
                return None  # its transaction is open here already
            code = await self._ask(partition, adds=adds)
            if code is ErrorCode.NONE:
                return guard
            if not adds or code is not ErrorCode.CONCURRENT_TRANSACTIONS or not await self._has_waited(began_ms):
                return code
            # Anew from the start: the marker that was waited for may have ended this verification.

    async def _has_waited(self, began_ms: int) -> bool:
        """A client that goes on at once comes before the last markers are written: it is spared the way back and forth, for a while."""
        config = self._broker.coordinators.transaction_config
        elapsed_ms = self._broker.clock.monotonic_ms() - began_ms
        if elapsed_ms >= config.add_partitions_backoff_max_ms:
            return False
        await asyncio.sleep(config.add_partitions_backoff_ms / 1000)
        return True

    async def _ask(self, partition: Partition, *, adds: bool) -> ErrorCode:
        named = frozenset({partition.topic_partition})

        def decide(machine: TransactionMachine, token: Token, now_ms: int) -> Outcome:
            if adds:
                return machine.add_partitions(token, self._transactional_id, self._producer, named, now_ms)
            return machine.verify_partitions(token, self._transactional_id, self._producer, named)

        answer = self._broker.coordinators.transactions.ask(
            self._transactional_id,
            decide,
            refused=lambda code: code,
            transform=lambda found: found if isinstance(found, ErrorCode) else found[partition.topic_partition],
        )
        return await answered(answer)


def close_if_overtaken(
    broker: Broker,
    context: RequestContext,
    purpose: str,
    sender: Hashable,
    producer: ProducerIdAndEpoch,
    *,
    tells_zombies: bool = True,
) -> None:
    """Errors: ConnectionClosed."""
    order = broker.coordinators.connection_order
    if order.is_overtaken(purpose, sender, producer, context.client.connection_number, tells_zombies=tells_zombies):
        raise ConnectionClosed(f"{purpose} of {sender} came after it had gone on with a newer connection")


def fenced_as_known(code: int, version: int = 0, *, since: int = NEVER) -> ErrorCode:
    """For clients that know PRODUCER_FENCED from the request's version `since` on; before, they were told that their epoch is old."""
    is_unknown = code == ErrorCode.PRODUCER_FENCED and version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else ErrorCode.of(code)
