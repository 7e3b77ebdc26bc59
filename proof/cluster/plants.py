"""● Faults to plant in a simulated node that a transaction's clients must notice.

The faults of `proof/transactions/schedules/plants.py` can be planted, too.

with planted("aborted-given"):
    result = Simulation(seed).run()
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from moldau.coordinator.outcome import Outcome
from moldau.coordinator.txn import coordinator
from moldau.coordinator.txn.coordinator import TransactionMachine
from moldau.coordinator.txn.state import Transaction, TransactionState
from moldau.storage.index import TransactionIndex
from moldau.storage.log import Log
from moldau.storage.log_reader import LogReader
from moldau.storage.recovery import ProducerReplay
from moldau.types import NO_OFFSET
from proof.transactions.schedules.plants import PLANTS, Patch


def _same_epoch(self: TransactionMachine, token: Any, transaction: Transaction, expected: Any, timeout_ms: int, now_ms: int) -> Outcome:
    empty = transaction.moved(TransactionState.EMPTY, partitions=frozenset(), start_ms=-1, updated_ms=now_ms, client_version=0)
    return coordinator._initialised(token, empty)


def _open_ones_forgotten(finish: Callable[[ProducerReplay], None]) -> Callable[[ProducerReplay], None]:
    def patched(self: ProducerReplay) -> None:
        for entry in self.producers.producers.values():
            entry.transaction_first_offset = NO_OFFSET
        self.producers.open_transactions.clear()
        finish(self)

    return patched


def _only_looked_at(self: TransactionMachine, now_ms: int) -> Outcome:
    return Outcome(timers=[self._abort_timer(now_ms)])


NODE_PLANTS: Final[dict[str, tuple[str, Callable[[], Patch]]]] = {
    "aborted-given": (
        "readers of committed records are not told which transactions were aborted",
        lambda: patch.object(LogReader, "aborted_transactions", lambda *_: ()),
    ),
    "aborted-lost-at-restart": (
        "the index of aborted transactions is not synced",
        lambda: patch.object(TransactionIndex, "sync", lambda _: None),
    ),
    "not-held-back": (
        "readers of committed records are shown everything up to the high watermark",
        lambda: patch.object(Log, "last_stable_offset", property(lambda log: log.high_watermark)),
    ),
    "open-forgotten-at-restart": (
        "a log that is opened forgets which transactions are open",
        lambda: patch.object(ProducerReplay, "finish", _open_ones_forgotten(ProducerReplay.finish)),
    ),
    "successor-has-same-epoch": (
        "InitProducerId hands out the epoch that a client has already",
        lambda: patch.object(TransactionMachine, "_next_epoch", _same_epoch),
    ),
    "no-time-out": (
        "nobody aborts a transaction that its client left open",
        lambda: patch.object(TransactionMachine, "abort_timed_out", _only_looked_at),
    ),
}
"""Name → the fault in words, and the patch that plants it."""

ALL_PLANTS: Final = PLANTS | NODE_PLANTS


@contextmanager
def planted(name: str) -> Iterator[None]:
    with ALL_PLANTS[name][1]():
        yield
