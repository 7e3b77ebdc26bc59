"""● Faults to plant in the broker.  Each breaks a rule that transactions need; a checker that found none of them would prove nothing.

with planted("no-verification"):
    outcome = Schedule(seed, version=2).run()
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from moldau.coordinator.group.offsets import Offsets
from moldau.coordinator.outcome import Outcome
from moldau.coordinator.txn import coordinator, state
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.server.coordinators.markers import MarkerWriter
from moldau.server.coordinators.transactions import Membership
from moldau.server.requests.connection_order import TransactionOrder
from moldau.storage.producers.state import ProducerStates

Patch = Any
"""The result of `unittest.mock.patch`.  Typeshed has no public name for it."""


async def _not_asked(self: Membership, partition: Any, **_: Any) -> None:
    partition.log.verifies_transactions = False


def _end_of_any_epoch(end: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def patched(self: TransactionMachine, token: Any, request: Any, api_version: int, now_ms: int) -> Outcome:
        known = self.transactions.get(request.transactional_id)
        if known is not None and known.producer_id == request.producer_id:
            request.producer_epoch = known.producer_epoch
        return end(self, token, request, api_version, now_ms)

    return patched


def _ended_without_bump(ended: Callable[..., state.Transaction]) -> Callable[..., state.Transaction]:
    def patched(self: state.Transaction, **how: Any) -> state.Transaction:
        return replace(ended(self, **how), producer_epoch=self.producer_epoch)

    return patched


def _retry_of_an_open_one(transaction: state.Transaction, producer: tuple[int, int]) -> bool:
    return transaction.producer_id == producer[0] and producer[1] + 1 == transaction.producer_epoch


def _aborted_without_fence(self: TransactionMachine, transaction: state.Transaction, now_ms: int) -> Outcome:
    ended = transaction.ended(is_commit=False, client_version=0, next_producer_id=-1, now_ms=now_ms)
    return Outcome([ended.record()], sends=[coordinator._markers_of(ended)])


def _guard_outlives(complete: Callable[..., Any]) -> Callable[..., Any]:
    def patched(self: ProducerStates, header: Any, marker: Any) -> Any:
        kept = dict(self._verifications)
        completed = complete(self, header, marker)
        self._verifications = kept
        return completed

    return patched


def _nothing_sent_again(on_loaded: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def patched(self: TransactionMachine, now_ms: int) -> Outcome:
        outcome = on_loaded(self, now_ms)
        outcome.sends.clear()
        return outcome

    return patched


def _first_marker_is_enough(send: Callable[..., None]) -> Callable[..., None]:
    def patched(self: MarkerWriter, markers: Any, *rest: Any, **more: Any) -> None:
        send(self, replace(markers, partitions=frozenset(sorted(markers.partitions)[:1])), *rest, **more)

    return patched


def _offsets_always_count(end: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Offsets, producer_id: int, *, is_commit: bool) -> None:
        end(self, producer_id, is_commit=True)

    return patched


def _added_in_any_epoch(open_for: Callable[..., Any]) -> Callable[..., Any]:
    def patched(self: TransactionMachine, transactional_id: str, producer: Any) -> Any:
        known = self.transactions.get(transactional_id)
        if known is not None and known.producer_id == producer.producer_id:
            producer = producer._replace(epoch=known.producer_epoch)
        return open_for(self, transactional_id, producer)

    return patched


PLANTS: Final[dict[str, tuple[str, Callable[[], Patch]]]] = {
    "no-verification": (
        "records and offsets are taken without asking the coordinator (before KIP-890)",
        lambda: patch.object(Membership, "of", _not_asked),
    ),
    "guard-outlives-marker": (
        "a verification that was asked for before the marker still lets records in after it",
        lambda: patch.object(ProducerStates, "complete", _guard_outlives(ProducerStates.complete)),
    ),
    "end-of-any-epoch": (
        "EndTxn does not look at the epoch",
        lambda: patch.object(TransactionMachine, "end", _end_of_any_epoch(TransactionMachine.end)),
    ),
    "no-epoch-bump": (
        "the end of a transaction of version 2 keeps the epoch",
        lambda: patch.object(state.Transaction, "ended", _ended_without_bump(state.Transaction.ended)),
    ),
    "retry-ends-open-one": (
        "EndTxn with the epoch before counts as asked again, even while the next transaction is open (KAFKA-17754)",
        lambda: patch.object(coordinator, "_was_ended_by", _retry_of_an_open_one),
    ),
    "late-marker": (
        "a partition takes every marker",
        lambda: patch.object(ProducerStates, "marker_refusal_of", lambda *_, **__: None),
    ),
    "add-in-any-epoch": (
        "partitions are added and verified without a look at the epoch",
        lambda: patch.object(TransactionMachine, "_open_for", _added_in_any_epoch(TransactionMachine._open_for)),
    ),
    "abort-without-fence": (
        "a transaction that timed out, or was left open, is aborted in its own epoch",
        lambda: patch.object(TransactionMachine, "_fence_and_abort", _aborted_without_fence),
    ),
    "markers-not-sent-again": (
        "a new coordinator does not finish what it finds decided",
        lambda: patch.object(TransactionMachine, "on_loaded", _nothing_sent_again(TransactionMachine.on_loaded)),
    ),
    "first-marker-is-enough": (
        "a transaction is complete when one partition has its marker",
        lambda: patch.object(MarkerWriter, "send", _first_marker_is_enough(MarkerWriter.send)),
    ),
    "aborted-offsets-count": (
        "offsets of an aborted transaction are committed",
        lambda: patch.object(Offsets, "replay_end_marker", _offsets_always_count(Offsets.replay_end_marker)),
    ),
    "no-connection-order": (
        "requests of connections that were given up are served like all others (as Kafka does)",
        lambda: patch.object(TransactionOrder, "is_overtaken", lambda *_, **__: False),
    ),
}
"""Name → the fault in words, and the patch that plants it."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    with PLANTS[name][1]():
        yield
